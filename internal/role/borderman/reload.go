// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"context"
	"net/netip"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/upstream"
)

// reach is which patrols there are, and which of them has which customers. The two change together.
type reach struct {
	links []*link
	route *routes // its numbers are places in links
}

// SetPatrols replaces the patrols. The connections to those whose name, address and key stay are kept, with
// the requests that wait on them; requests that wait for a removed patrol fail with PATROL_DOWN. Filters that a removed
// patrol has installed expire by themselves.
func (m *Manager) SetPatrols(list []Patrol) error {
	m.change.Lock()
	defer m.change.Unlock()
	if m.closed {
		return nil
	}
	old, next := m.reach.Load(), &reach{route: newRoutes(list)}
	kept := map[*link]bool{}
	var begin []*link
	for _, p := range list {
		l := old.find(p)
		if l == nil {
			var err error
			if l, err = newLink(p, m.opt.Identity, m.opt.Log, m.patrolAnswered, m.sendAnswers); err != nil {
				return err
			}
			begin = append(begin, l)
		}
		kept[l] = true
		next.links = append(next.links, l)
	}
	m.reach.Store(next)
	for _, l := range begin {
		m.done.Go(l.run)
	}
	for _, l := range old.links {
		if !kept[l] {
			l.close()
		}
	}
	return nil
}

// find returns the link to a patrol, whatever customers it had; nil: there is none.
func (r *reach) find(p Patrol) *link {
	for _, l := range r.links {
		if l.patrol.Name == p.Name && l.patrol.Addr == p.Addr && l.patrol.Key.Equal(p.Key) {
			return l
		}
	}
	return nil
}

// SetRate replaces the rate of Options. Every network starts with a full allowance.
func (m *Manager) SetRate(filtersPerS int) { m.limits.Store(newLimits(rateOf(filtersPerS))) }

// SetProtect replaces the addresses that no filter may match.
func (m *Manager) SetProtect(list []netip.Prefix) { m.protect.Store(&list) }

// reloader applies changed configurations to a running manager.
type reloader struct {
	m   *Manager
	cfg *config.Config // in force
	opt *instance.Options
}

func (r *reloader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.opt.Reload:
			err := r.reload()
			r.opt.Reloaded(r.opt.Log, r.cfg, err)
		}
	}
}

// reload applies changed bindings, patrols, protected addresses and rate, all or nothing. The file of bindings is
// read again even if its name is the same.
func (r *reloader) reload() error {
	next, err := r.opt.Load()
	if err != nil {
		return err
	}
	if err := config.CheckReload(r.cfg, next, ""); err != nil {
		return err
	}
	patrols, err := patrolsOf(next.Border)
	if err != nil {
		return err
	}
	bind, err := upstream.PrepareReload(r.m.opt.Authority, next.Border.Bindings)
	if err != nil {
		return err
	}
	if err := r.m.SetPatrols(patrols); err != nil { // fails before it has changed anything
		return err
	}
	bind()
	r.m.SetProtect(next.Border.Protect)
	if next.Border.Rate != r.cfg.Border.Rate { // otherwise every reload would refill the allowances
		r.m.SetRate(rateOption(next.Border.Rate))
	}
	r.cfg = next
	r.opt.Log.Info("reloaded", "patrols", len(patrols), "bindings", r.m.opt.Authority.Len())
	return nil
}
