// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

// bridged moves the server's addresses to a device stacked on its port.
func bridged(create, device, protect string, top ...string) func(*Machine) error {
	return func(m *Machine) error {
		m.Interfaces, m.Top = []string{protect}, top
		return errors.Join(m.Sh(m.Server, `
			ip address flush dev tg-server
			%[1]s
			ip link set %[2]s address %[3]s
			ip link set %[2]s up
			ip address add 198.18.3.1/24 dev %[2]s
			ip address add fd7d:7467:4::1/64 dev %[2]s nodad
			ip route replace default via 198.18.3.2
			ip -6 route replace default via fd7d:7467:4::2`, create, device, m.ServerPort.MAC), m.Serve(m.Server, ""), m.settled())
	}
}

const bridge = "ip link add tg-br0 type bridge; ip link set tg-server master tg-br0"

func bridges() []Scenario {
	return []Scenario{
		{Name: "port", About: "a bridge has the address; tidegate is on the bridge's port", How: Translated, Build: bridged(bridge, "tg-br0", "tg-server")},
		{Name: "port-generic", About: "the same with generic XDP", How: Translated, Build: bridged(bridge, "tg-br0", "tg-server", "xdp_mode: generic")},
		{Name: "itself", About: "a bridge has the address; tidegate is on the bridge", How: Adopted, Build: bridged(bridge, "tg-br0", "tg-br0")},
		{Name: "port-nf", About: "a bridge whose frames iptables sees (br_netfilter), and nat", How: Translated,
			Build: func(m *Machine) error {
				return errors.Join(bridged(bridge, "tg-br0", "tg-server")(m), m.NFT(m.Server, emptyNAT))
			}},
		{Name: "vlan", About: "a VLAN device has the address; tidegate is on the port below", How: Adopted, Link: "vlan id 9", Build: func(m *Machine) error { return vlan(m, "tg-server") }},
		{Name: "vlan-bound", About: "the same; the server listens at the VLAN device only", How: Translated, Link: "vlan id 9", Build: func(m *Machine) error {
			m.BindTo = "tg-vlan7"
			return vlan(m, "tg-server")
		}},
		{Name: "vlan-itself", About: "a VLAN device has the address; tidegate is on the VLAN device", How: Adopted, Link: "vlan id 9", Build: func(m *Machine) error { return vlan(m, "tg-vlan7") }},
	}
}

// vlan moves service and clients to VLAN 7. The flood stays untagged, addressed to the port.
func vlan(m *Machine, protect string) error {
	m.Interfaces = []string{protect}
	m.To[false], m.To[true] = addr("198.18.7.1"), addr("fd7d:7467:7::1")
	side := `ip link add link %[1]s name tg-vlan7 type vlan id 7
		ip link set tg-vlan7 up
		ip address add 198.18.7.%[2]d/24 dev tg-vlan7
		ip address add fd7d:7467:7::%[2]d/64 dev tg-vlan7 nodad`
	m.Unflooded = protect == "tg-vlan7"
	// As on a wire: the tag is in the frame, where XDP sees it.
	return errors.Join(m.ClientPort.DisableTxVLAN(), m.ServerPort.DisableTxVLAN(), m.Sh(m.Server, side, "tg-server", 1), m.Sh(m.Client, side, "tg-client", 2),
		m.Serve(m.Server, ""), m.settled())
}
