// SPDX-License-Identifier: Apache-2.0

package machines

import "fmt"

// bond has one device of its two carry all frames; the other has no far end.
const bond = `ip link add tg-bond0 type bond mode %s miimon 100
	ip link add tg-spare type veth peer name tg-nowhere
	ip link set tg-server down
	ip link set tg-server master tg-bond0
	ip link set tg-spare master tg-bond0
	ip link set tg-server up`

// bonds has tidegate on a bond. In native mode XDP runs on the bond's members, which packets name as where they came from.
func bonds() []Scenario {
	on := func(mode string, top ...string) func(*Machine) error {
		return bridged(fmt.Sprintf(bond, mode), "tg-bond0", "tg-bond0", top...)
	}
	return []Scenario{
		{Name: "backup", About: "a bond has the address; tidegate is on the bond", How: Adopted, Link: "bond", Build: on("active-backup")},
		{Name: "xor", About: "the same; the bond chooses its member by a hash", How: Adopted, Link: "bond", Build: on("balance-xor")},
		{Name: "generic", About: "the same with generic XDP", How: Adopted, Link: "bond", Build: on("active-backup", "xdp_mode: generic")},
		{Name: "translate", About: "a bond has the address; the gate translates", How: Translated, Link: "bond", Build: func(m *Machine) error {
			m.Takeover = "translate"
			return on("active-backup")(m)
		}},
	}
}
