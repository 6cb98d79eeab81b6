// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

// vrf moves the server's port, and with it its addresses and routes, into a VRF: a routing table of its own.
func vrf(m *Machine) error {
	return m.Sh(m.Server, `
		ip link add tg-vrf type vrf table 77
		ip link set tg-vrf up
		ip link set tg-server master tg-vrf
		ip address add fd7d:7467:4::1/64 dev tg-server nodad || true
		ip route add default via 198.18.3.2 vrf tg-vrf
		ip -6 route add default via fd7d:7467:4::2 vrf tg-vrf`)
}

// vrfs has tidegate on a port that belongs to a VRF, as a router's or a provider's machine has it.
func vrfs() []Scenario {
	in := func(takeover string, serve func(m *Machine) error) func(*Machine) error {
		return func(m *Machine) error {
			m.Takeover = takeover
			return errors.Join(vrf(m), serve(m), m.settled())
		}
	}
	bound := func(m *Machine) error {
		m.BindTo = "tg-vrf"
		return m.Serve(m.Server, "")
	}
	unbound := func(m *Machine) error {
		return errors.Join(m.Server.SetSysctl("net.ipv4.tcp_l3mdev_accept", "1"), m.Serve(m.Server, ""))
	}
	return []Scenario{
		{Name: "bound", About: "a VRF has the port; the server listens in the VRF", How: Translated, Link: "vrf table 9", Build: in("auto", bound)},
		{Name: "accept", About: "the same; the server listens in all VRFs (tcp_l3mdev_accept)", How: Adopted, Link: "vrf table 9", Build: in("auto", unbound)},
		{Name: "translate", About: "the server listens in the VRF; the gate translates", How: Translated, Link: "vrf table 9", Build: in("translate", bound)},
	}
}
