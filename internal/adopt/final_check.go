// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// finalCheck notices that this server cannot verify anything that edges let through.
type finalCheck struct {
	dropped, adopted uint64
	since            time.Time
	warned           bool
}

const (
	finalCheckEvery = 5 * time.Second
	finalCheckFew   = 5 // dropped ACKs; fewer prove nothing
)

// watchFinalCheck compares, every few seconds, what was dropped with what was adopted. A
// server whose secret or epoch differs from the edges' drops every client.
func (g *gate) watchFinalCheck(now time.Time) {
	if g.cfg.Role != config.RoleServer || now.Sub(g.line.since) < finalCheckEvery {
		return
	}
	var dropped, adopted uint64
	for _, svc := range g.cfg.Services {
		sum, err := plane.ReadCounters(g.plane.Map("tg_counters"), g.services.ID(svc.Name))
		if err != nil {
			return
		}
		dropped += sum[schema.CounterDropUnmatchedAck] + sum[schema.CounterCookieInvalid]
		adopted += sum[schema.CounterAdopted]
	}
	before := g.line
	g.line = finalCheck{dropped: dropped, adopted: adopted, since: now, warned: before.warned}
	if before.since.IsZero() {
		return
	}
	none := adopted == before.adopted && dropped-before.dropped >= finalCheckFew
	if none && !before.warned {
		g.log.Error("no ACK that edges let through verifies here: either all of it is a flood, or secret_file, epoch or clock of this server differ from the edges'",
			"refused", dropped-before.dropped)
	}
	if none || adopted != before.adopted {
		g.line.warned = none
	}
}
