// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// flowAge decides, at the end of a swap period, whether the flow tables are swapped.
// They need not be while they have room: then an idle connection is remembered for
// idle_time, which is longer than hosts leave one without a keep-alive. No table is
// read; connections begun since the last swap are what may fill one.
type flowAge struct {
	opened  uint64 // counted until the last swap
	swapped time.Time
}

// presenceTuples is how many tuples one generation of presence bits tells apart
// well: a quarter of TG_PRESENCE_BITS of core/proxy.h. Beyond, a flood's SYNs begin to
// look for flows that are not there.
const presenceTuples = 1 << 21 / 4

// due decides whether the flow tables are to be swapped now, and if so assumes that
// they are. `opened` counts all connections begun; it falls when a service is removed.
func (a *flowAge) due(opened uint64, now time.Time, p *config.Proxy) bool {
	room := uint64(min(p.MaxFlows/4, presenceTuples))
	// A ticker may be a little early, hence half a period.
	old := now.Sub(a.swapped) >= p.IdleTime-min(p.SwapPeriod, p.IdleTime)/2
	if opened >= a.opened && opened-a.opened < room && !old {
		return false
	}
	*a = flowAge{opened, now}
	return true
}

// early decides whether the flow tables are to be swapped before their time, and if so assumes
// that they are: when almost no place is free for newcomers (`full`), so that they would have to
// wait. A flow without packets for a tenth of a swap period is then forgotten by the next early swap.
func (a *flowAge) early(full bool, opened uint64, now time.Time, p *config.Proxy) bool {
	if !full || now.Sub(a.swapped) < max(p.SwapPeriod/10, time.Second) {
		return false
	}
	*a = flowAge{opened, now}
	return true
}

// swapEarly swaps the flow tables if one is as good as full.
func (b *proxy) swapEarly() error {
	used, err := b.plane.FlowsUsed()
	if err != nil {
		return err
	}
	opened, err := b.flowsOpened()
	if err != nil {
		return err
	}
	room := plane.FlowsForNewcomers(b.Cfg.Proxy.MaxFlows)
	if !b.flows.early(used >= room-room/64, opened, time.Now(), &b.Cfg.Proxy) {
		return nil
	}
	b.Log.Warn("a flow table is full: idle connections are forgotten early", "flows", used, "max_flows", b.Cfg.Proxy.MaxFlows)
	return b.plane.SwapFlows()
}

// flowsOpened counts connections begun under all current services.
func (b *proxy) flowsOpened() (opened uint64, err error) {
	for _, svc := range b.Cfg.Services {
		sum, err := plane.ReadCounters(b.plane.Map("tg_counters"), b.Numbers.ID(svc.Name))
		if err != nil {
			return 0, err
		}
		opened += sum[schema.CounterFlowOpened]
	}
	return opened, nil
}

// swapTables ages the tables: sources each time, flows when due.
func (b *proxy) swapTables() error {
	opened, err := b.flowsOpened()
	if err != nil {
		return err
	}
	if b.flows.due(opened, time.Now(), &b.Cfg.Proxy) {
		if err := b.plane.SwapFlows(); err != nil {
			return err
		}
	}
	return b.plane.SwapSources()
}
