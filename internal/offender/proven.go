// SPDX-License-Identifier: Apache-2.0

package offender

import (
	"context"
	"net/netip"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/routers"
)

// What routers are asked for (docs/routers.md) needs more certainty than a report: only completed handshakes count, never segments that
// carry a codepoint, which somebody else may have sent.

// provenEvery is longer than a report's interval: a page that opens many connections at once is no offence.
const provenEvery = time.Second

// crowd finds sources that complete too many handshakes.
type crowd struct {
	table  Table
	rate   float64
	byPair bool // count a source's handshakes with each address by themselves
	tell   func([]routers.Offence)
	last   []plane.Proven
	lastAt time.Time
}

// StartProven watches on behalf of BGP until ctx ends, if the configuration wants it.
func StartProven(ctx context.Context, table Table, c *config.Config, tell func([]routers.Offence), failed func(error)) {
	b := &c.BGP
	if tell == nil || b.Offenders != config.OffendersSource && b.Offenders != config.OffendersFlow {
		return
	}
	w := &crowd{table: table, rate: float64(b.SourceRate), byPair: b.Offenders == config.OffendersFlow, tell: tell}
	go w.run(ctx, failed)
}

func (w *crowd) run(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(provenEvery)
	defer tick.Stop()
	broken := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			rows, err := w.table()
			if err != nil && !broken && ctx.Err() == nil {
				failed(err)
			}
			if broken = err != nil; !broken {
				w.tell(w.judge(rows, now))
			}
		}
	}
}

// judge returns who has exceeded the rate since the last look.
func (w *crowd) judge(rows []plane.Proven, now time.Time) (list []routers.Offence) {
	last, passed := w.last, now.Sub(w.lastAt).Seconds()
	w.last, w.lastAt = rows, now
	if len(last) != len(rows) || passed <= 0 {
		return nil
	}
	counts := map[pair]uint64{}
	for p, c := range tally(last, rows) {
		if !w.byPair {
			p.dst = netip.Addr{}
		}
		counts[p] += uint64(c.handshakes)
	}
	for p, n := range counts {
		if rate := float64(n) / passed; rate > w.rate {
			list = append(list, routers.Offence{Src: p.src, Dst: p.dst, PerSecond: rate})
		}
	}
	return list
}
