// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"time"

	"tidegate/internal/ifp"
)

// What a manager does on its own: it asks for counters, and removes what no longer matches anything.

// Tick requests the counters of all filters and removes those not hit for long.
func (m *Manager) Tick(now time.Time) {
	groups := grouped{}
	var idle []*Entry
	var reflected []*Site
	limit := m.policy.Load().Idle
	m.mu.Lock()
	for e := range m.entries.all() {
		if e.State == Refused && now.Sub(e.Since.Time()) > limit {
			m.forget(e)
			continue
		}
		if e.State != Installed && e.State != Partial {
			continue
		}
		if now.Sub(e.LastHit.Time()) > limit {
			idle = append(idle, e)
			continue
		}
		for at := range e.sites {
			if at.State != Installed {
				continue
			}
			if e.Reflected {
				reflected = append(reflected, at)
				continue
			}
			g := groups.of(groupKey{at.endpoint.Addr, ifp.Stats, e.Src.Addr().Is4()}, at)
			g.sites = append(g.sites, at)
		}
	}
	m.mu.Unlock()
	if len(idle) > 0 {
		m.opt.Log.Info("removed filters that no longer match anything", "filters", len(idle))
		m.removeAll(idle, now, nil)
	}
	for k, g := range groups {
		m.send(ifp.Stats, g, !k.v4, func(part []*Site, o Outcome) {
			for i, s := range o.Stats { // none if there was no answer
				m.counted(part[i], s)
			}
		})
	}
	for _, at := range reflected {
		m.opt.Engine.Do(Job{Kind: ifp.Stats, Filters: at.of.variants(), BM: *at.endpoint, Done: func(o Outcome) {
			if o.Err == nil && len(o.Stats) == 2 {
				s := o.Stats[0]
				if s.Code != ifp.OK {
					s = o.Stats[1]
				}
				m.counted(at, s)
			}
		}})
	}
}
