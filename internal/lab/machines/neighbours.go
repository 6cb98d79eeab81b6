// SPDX-License-Identifier: Apache-2.0

package machines

import "errors"

// Other programs on the same hooks.

func neighbours() []Scenario {
	return []Scenario{
		{Name: "tc-clsact", About: "filters of another program at TC (clsact) that match everything", How: Adopted, Build: func(m *Machine) error {
			return errors.Join(m.Sh(m.Server, `tc qdisc add dev tg-server clsact
				tc filter add dev tg-server ingress prio 1 u32 match u32 0 0 flowid 1:1
				tc filter add dev tg-server egress prio 1 u32 match u32 0 0 flowid 1:1`), m.Serve(m.Server, ""))
		}},
	}
}
