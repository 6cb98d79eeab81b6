// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

// tunnels has service and clients inside a tunnel that carries Ethernet frames, and tidegate on the tunnel's device. The flood does
// not come through it.
func tunnels() []Scenario {
	through := func(create string, top ...string) func(*Machine) error {
		return func(m *Machine) error {
			m.Interfaces, m.Unflooded, m.Top = []string{"tg-tunnel"}, true, top
			m.To[false], m.To[true] = addr("198.18.7.1"), addr("fd7d:7467:7::1")
			side := `ip link add tg-tunnel type ` + create + `
				ip link set tg-tunnel up
				ip address add 198.18.7.%[1]d/24 dev tg-tunnel
				ip address add fd7d:7467:7::%[1]d/64 dev tg-tunnel nodad`
			return errors.Join(m.Sh(m.Server, side, 1, "198.18.3.1", "198.18.3.2"), m.Sh(m.Client, side, 2, "198.18.3.2", "198.18.3.1"),
				m.Serve(m.Server, ""), m.settled())
		}
	}
	const vxlan = "vxlan id 7 dstport 4789 local %[2]s remote %[3]s"
	return []Scenario{
		{Name: "vxlan", About: "a VXLAN device has the address; tidegate is on it", How: Adopted, Link: "vxlan id 9 dstport 4788", Build: through(vxlan)},
		{Name: "vxlan-translate", About: "the same; the gate translates", How: Translated, Link: "vxlan id 9 dstport 4788", Build: func(m *Machine) error {
			m.Takeover = "translate"
			return through(vxlan)(m)
		}},
		{Name: "gretap", About: "a device of Ethernet over GRE has the address; tidegate is on it", How: Adopted, Link: "gretap local 198.18.3.1 remote 198.18.3.9",
			Build: through("gretap local %[2]s remote %[3]s")},
	}
}
