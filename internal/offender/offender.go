// SPDX-License-Identifier: Apache-2.0

// Package offender reports to a filter manager clients that have completed a handshake
// with this gate, which proves their address, and then exceed a limit. It reads
// the counts of core/proven.h. It must never name a source whose address is known only from a
// packet's header.
package offender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/routers"
)

const (
	lookEvery = 500 * time.Millisecond
	// reportEvery: a source that continues is reported again after this time.
	reportEvery = 10 * time.Second
	// tellMost bounds the reports of one pass: the filter manager serves others, too.
	tellMost = 1000
	callTime = 25 * time.Second // the filter manager waits 20 s for border managers
)

// Witnesses, as the filter manager's API names them (docs/upstream.md).
const (
	witnessTS   = "ts"
	witnessNoTS = "no-ts"
)

// Report is one requested filter.
type Report struct {
	Src      netip.Prefix `json:"src"`
	Dst      netip.Prefix `json:"dst"`
	Witness  string       `json:"witness"`
	Detector string       `json:"detector"`

	what string // for the log
}

// pair is the source and the destination of a slot's traffic.
type pair struct{ src, dst netip.Addr }

// Table reads all slots of a gate's table of proven sources, always in the same order.
type Table func() ([]plane.Proven, error)

// Watcher watches one gate's table.
type Watcher struct {
	table    Table
	report   config.ReportTo
	detector string
	log      *slog.Logger
	last     []plane.Proven // summed over all CPUs, slot by slot
	lastAt   time.Time
	reported map[pair]time.Time
	post     func(context.Context, []Report) ([]verdict, error)
}

// New watches a table on behalf of an instance.
func New(table Table, r config.ReportTo, instance string, log *slog.Logger) *Watcher {
	w := &Watcher{table: table, report: r, detector: "gate " + instance, log: log, reported: map[pair]time.Time{}}
	w.post = func(ctx context.Context, list []Report) ([]verdict, error) { return post(ctx, r, list) }
	return w
}

// Start watches until ctx ends, if the configuration wants it: for a filter manager, and for BGP, which tell is told.
func Start(ctx context.Context, table Table, c *config.Config, tell func([]routers.Offence), log *slog.Logger) {
	StartProven(ctx, table, c, tell, func(err error) { log.Error("offenders are not announced to routers", "error", err) })
	if c.ReportTo.API != "" {
		go New(table, c.ReportTo, c.Instance, log).run(ctx)
	}
}

func (w *Watcher) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	broken := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			err := w.look(ctx, now)
			if err != nil && !broken && ctx.Err() == nil {
				w.log.Error("offenders are not reported", "error", err)
			}
			broken = err != nil // logged once, not twice a second
		}
	}
}

// look compares the table with its last state and reports new offenders.
func (w *Watcher) look(ctx context.Context, now time.Time) error {
	rows, err := w.table()
	if err != nil {
		return err
	}
	list := w.judge(rows, now)
	if len(list) == 0 {
		return nil
	}
	verdicts, err := w.post(ctx, list)
	if err != nil {
		for _, r := range list { // the next pass retries
			delete(w.reported, pair{r.Src.Addr(), r.Dst.Addr()})
		}
		return err
	}
	for i, v := range verdicts {
		w.log.Info("offender reported", "source", list[i].Src, "destination", list[i].Dst, "did", list[i].what,
			"filter", v.State, "error", v.Error)
	}
	return nil
}

// judge finds the pairs that exceeded a limit since the last pass.
func (w *Watcher) judge(rows []plane.Proven, now time.Time) []Report {
	last, passed := w.last, now.Sub(w.lastAt).Seconds()
	w.last, w.lastAt = rows, now
	for p, at := range w.reported {
		if now.Sub(at) >= reportEvery {
			delete(w.reported, p)
		}
	}
	if len(last) != len(rows) || passed <= 0 {
		return nil
	}
	var list []Report
	for p, c := range tally(last, rows) {
		many := w.report.Connections > 0 && float64(c.handshakes) > float64(w.report.Connections)*passed
		bad := w.report.Invalid > 0 && float64(c.invalid) > float64(w.report.Invalid)*passed
		if _, known := w.reported[p]; known || !many && !bad || len(list) >= tellMost {
			continue
		}
		r := Report{Src: host(p.src), Dst: host(p.dst), Witness: witnessTS, Detector: w.detector,
			what: fmt.Sprintf("%.0f connections/s, %.0f invalid segments/s", float64(c.handshakes)/passed, float64(c.invalid)/passed)}
		if !bad && c.unmarked > 0 {
			r.Witness = witnessNoTS
		}
		w.reported[p] = now
		list = append(list, r)
	}
	return list
}

// count is what a pair has done between two looks, over all CPUs.
type count struct{ handshakes, unmarked, invalid uint32 }

// tally counts what was done between two looks. A slot counts only if it had the same owner at both: so no torn read is ever used.
func tally(last, rows []plane.Proven) map[pair]count {
	counts := map[pair]count{}
	for i := range rows {
		have, before := &rows[i], &last[i]
		p, ok := ownerOf(have)
		if q, same := ownerOf(before); !ok || !same || p != q || have.TurnAfter != before.TurnAfter {
			continue
		}
		c := counts[p]
		c.handshakes += have.Handshakes - before.Handshakes
		c.unmarked += have.Unmarked - before.Unmarked
		c.invalid += have.Invalid - before.Invalid
		counts[p] = c
	}
	return counts
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// ownerOf returns a slot's owner; false while it changes, or if there is none.
func ownerOf(r *plane.Proven) (p pair, ok bool) {
	if r.TurnBefore != r.TurnAfter || r.TurnAfter == 0 {
		return p, false
	}
	p = pair{plane.ProvenAddr(r.Family, r.Src), plane.ProvenAddr(r.Family, r.Dst)}
	return p, p.src.IsValid() && p.dst.IsValid()
}

var errAnswer = errors.New("the filter manager answered something else than a verdict for each report")
