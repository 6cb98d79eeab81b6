// SPDX-License-Identifier: Apache-2.0

package machines

import "tidegate/internal/lab/rig"

// switched has tidegate on a machine whose port belongs to Open vSwitch, as virtualisation platforms set it up: the switch's own
// device has the addresses.
func switched(protect, takeover string, top ...string) func(*Machine) error {
	return func(m *Machine) error {
		if err := m.Server.Do(func() error { return rig.OpenVSwitch("tg-ovs", "tg-server") }); err != nil {
			return err
		}
		m.Takeover = takeover
		return bridged("true", "tg-ovs", protect, top...)(m)
	}
}

func switches() []Scenario {
	return []Scenario{
		{Name: "port", About: "a port of Open vSwitch, whose own device has the address; tidegate is on the port", How: Adopted, Build: switched("tg-server", "auto")},
		{Name: "port-generic", About: "the same with generic XDP", How: Adopted, Build: switched("tg-server", "auto", "xdp_mode: generic")},
		{Name: "port-translate", About: "the same; the gate translates", How: Translated, Build: switched("tg-server", "translate")},
		{Name: "itself", About: "the switch's own device has the address; tidegate is on it", How: Adopted, Build: switched("tg-ovs", "auto")},
		{Name: "itself-translate", About: "the same; the gate translates", How: Translated, Build: switched("tg-ovs", "translate")},
	}
}
