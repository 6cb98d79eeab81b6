// SPDX-License-Identifier: Apache-2.0

package adopt

import "time"

// A recount reads every socket, so it takes at most one part in recountShare of the time.
const (
	recountEvery = 30 * time.Second
	recountShare = 100
)

// recount says when the connections of each source are counted anew: what the packet path was not told of, or was told twice,
// is wrong until then.
type recount struct{ next time.Time }

// recount counts the connections of each source, if there is a limit and it is time, or at once.
func (g *gate) recount(now time.Time, atOnce bool) error {
	if g.cfg.SourceLimits.Concurrent == 0 || !atOnce && now.Before(g.counts.next) {
		return nil
	}
	began := time.Now()
	err := g.plane.Recount(&g.settings)
	g.counts.next = now.Add(max(recountEvery, recountShare*time.Since(began)))
	return err
}
