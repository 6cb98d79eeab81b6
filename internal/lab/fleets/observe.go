// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"tidegate/internal/fleet"
)

// reports are the nodes' reports, read over a connection from the hub.
func (x *lab) reports(ctx context.Context) ([]fleet.Node, error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	return x.op.Nodes(ctx)
}

// until polls the reports until each of the gates is as wanted, and returns when each said so, by its own clock, which is this machine's.
func (x *lab) until(ctx context.Context, wanted func(fleet.Node) bool) map[string]time.Time {
	at := map[string]time.Time{}
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil && len(at) < len(x.gates); time.Sleep(20 * time.Millisecond) {
		list, err := x.reports(ctx)
		if err != nil {
			continue
		}
		for _, n := range list {
			if _, known := at[n.Report.Node]; !known && wanted(n) {
				at[n.Report.Node] = n.At
			}
		}
	}
	return at
}

func (x *lab) until1(ctx context.Context, wanted func(fleet.Node) bool) []time.Time {
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		list, _ := x.reports(ctx)
		for _, n := range list {
			if wanted(n) {
				return []time.Time{n.At}
			}
		}
	}
	return nil
}

// row notes when those concerned knew.
func (x *lab) row(event, who string, happened time.Time, all int, at []time.Time) {
	var after []time.Duration
	for _, t := range at {
		after = append(after, max(0, t.Sub(happened)))
	}
	r := Row{Event: event, Who: who, At: happened.Sub(x.began).Seconds(), When: spread(all, after)}
	for _, d := range after { // sorted by spread
		r.Each = append(r.Each, float64(d.Microseconds())/1e3)
	}
	x.res.Rows = append(x.res.Rows, r)
	x.o.Progress("%s: %s: %v", event, who, r.When)
}

func values(m map[string]time.Time) (list []time.Time) {
	for _, t := range m {
		list = append(list, t)
	}
	return list
}

// awaitRoutes waits until each router has learned the prefix from each gate that announces it.
func (x *lab) awaitRoutes(ctx context.Context) error {
	if x.o.Routers == 0 {
		return nil
	}
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		known := 0
		for i := range x.routers {
			for _, g := range x.gates[:2] {
				if _, there := x.last(i, g.addr, false, time.Time{}); there {
					known++
				}
			}
		}
		if known == 2*x.o.Routers {
			return nil
		}
	}
	return errors.Join(ctx.Err(), fmt.Errorf("the routers have not learned the gates' prefix within %v", x.o.Patience))
}

// last is when a router first heard something of a gate after a time.
func (x *lab) last(router int, of netip.Addr, withdrawn bool, after time.Time) (time.Time, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.learned[router] {
		if l.From == of.String() && l.Withdrawn == withdrawn && l.At.After(after) {
			return l.At, true
		}
	}
	return time.Time{}, false
}

// routes waits until each router has lost a gate's route and learned it again.
func (x *lab) routes(ctx context.Context, of netip.Addr, stopped, started time.Time) (gone, back []time.Time) {
	for end := time.Now().Add(x.o.Patience); time.Now().Before(end) && ctx.Err() == nil && len(gone)+len(back) < 2*len(x.routers); time.Sleep(20 * time.Millisecond) {
		gone, back = nil, nil
		for i := range x.routers {
			at, lost := x.last(i, of, true, stopped)
			if !lost {
				continue
			}
			gone = append(gone, at)
			if at, again := x.last(i, of, false, at); again {
				back = append(back, at)
			}
		}
	}
	return gone, back
}
