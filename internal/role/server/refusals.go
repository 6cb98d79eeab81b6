// SPDX-License-Identifier: Apache-2.0

package server

import (
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// refusals detects that nothing from the edges verifies.
type refusals struct {
	valid, forged uint64
	warned        bool
}

// refusedFew: fewer prove nothing; any server drops a late ACK now and then.
const refusedFew = 3

// watchRefusals warns when tags or cookies arrive and none is genuine: the secrets differ,
// or the clocks by more than is tolerated; or only a flood arrives.
func (n *node) watchRefusals() {
	var valid, forged uint64
	for _, svc := range n.cfg.Services {
		for _, id := range n.ids(svc.Name) {
			sum, err := plane.ReadCounters(n.plane.Map("tg_counters"), id)
			if err != nil {
				return
			}
			valid += sum[schema.CounterTagValid] + sum[schema.CounterCookieValid]
			forged += sum[schema.CounterTagForged] + sum[schema.CounterTagStale] + sum[schema.CounterDropUnmatchedAck]
		}
	}
	before := n.watch
	if valid != before.valid { // reset the count
		n.watch = refusals{valid, forged, false}
	} else if forged-before.forged >= refusedFew && !before.warned {
		n.log.Error("no packet that edges let through verifies here, and all are dropped: give edges and servers the same secret_file and epoch, and synchronise their clocks (unless all of it is a flood)",
			"dropped", forged-before.forged)
		n.watch.warned = true
	}
}
