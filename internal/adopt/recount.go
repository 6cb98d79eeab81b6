// SPDX-License-Identifier: Apache-2.0

package adopt

import "time"

// recount counts the connections of each source, if that is due; beside a gate that translates, that one does.
func (g *gate) recount(now time.Time, atOnce bool) error {
	if g.part {
		return nil
	}
	return g.counts.Count(&g.cfg.SourceLimits, now, atOnce, func() error { return g.plane.Recount(&g.settings) })
}
