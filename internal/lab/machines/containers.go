// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"net/netip"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// inNamespace runs tidegate inside the container, on the end of an ordinary veth: no program
// and no GRO at its far end, which is a port of a bridge.
func inNamespace(more ...string) func(*Machine) error {
	return func(m *Machine) error {
		inside, err := m.container()
		if err != nil {
			return err
		}
		m.Gate, m.Interfaces, m.Top = inside, []string{"eth0"}, more
		m.To[false], m.To[true] = addr(inside4), addr(inside6)
		return errors.Join(m.Serve(inside, ""), m.Sh(m.Client, `
			ip route add 198.18.200.0/24 via 198.18.3.1
			ip -6 route add fd7d:7467:200::/64 via fd7d:7467:4::1`), m.settled())
	}
}

// onChild is a container on a child of the server's port that serves the same port as the
// server; the clients are the container's or the server's.
func onChild(kind string, toContainer bool) func(*Machine) error {
	return func(m *Machine) error {
		inside, err := m.Namespace("container")
		if err != nil {
			return err
		}
		if toContainer {
			m.To[false], m.To[true] = addr("198.18.3.12"), addr("fd7d:7467:4::c")
		}
		return errors.Join(m.Sh(m.Server, "ip link add link tg-server name tg-inside netns %s type %s", inside.Name, kind),
			m.Sh(inside, `ip link set lo up
				ip link set tg-inside up
				ip address add 198.18.3.12/24 dev tg-inside
				ip address add fd7d:7467:4::c/64 dev tg-inside nodad
				ip route add default via 198.18.3.2
				ip -6 route add default via fd7d:7467:4::2`),
			m.Serve(inside, ""), m.Serve(m.Server, ""), m.settled())
	}
}

func containers() []Scenario {
	return []Scenario{
		{Name: "in-its-namespace", About: "tidegate inside a container, on its veth", How: Adopted, Build: inNamespace()},
		{Name: "in-its-namespace-generic", About: "the same with generic XDP", How: Adopted, Build: inNamespace("xdp_mode: generic")},
		{Name: "macvlan", About: "a container on a macvlan child serves the same port: the container's clients", How: Left, Build: onChild("macvlan mode bridge", true)},
		{Name: "macvlan-host", About: "the same: the host's clients", How: Adopted, Build: onChild("macvlan mode bridge", false)},
		{Name: "ipvlan", About: "a container on an ipvlan child serves the same port: the container's clients", How: Left, Link: "ipvlan", Build: onChild("ipvlan mode l2", true)},
		{Name: "ipvlan-host", About: "the same: the host's clients", How: Adopted, Link: "ipvlan", Build: onChild("ipvlan mode l2", false)},
	}
}
