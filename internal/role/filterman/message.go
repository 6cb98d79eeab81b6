// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// Filters go to border managers in messages of as many as fit, and the answers go back to the entries.

type groupKey struct {
	bm   netip.AddrPort
	kind ifp.Type
	v4   bool
}

type group struct {
	bm    upstream.Endpoint
	sites []*Site
}

// grouped are filters by the messages in which they fit together.
type grouped map[groupKey]*group

// of returns the group of a key, a new one for the site's border manager if need be.
func (gs grouped) of(k groupKey, at *Site) *group {
	g := gs[k]
	if g == nil {
		g = &group{bm: *at.endpoint}
		gs[k] = g
	}
	return g
}

// filterRoom has room for the filters of a group, until they are in messages.
var filterRoom = sync.Pool{New: func() any { return new([]ifp.Filter) }}

// send puts a group's filters into messages; answered is called for each message.
func (m *Manager) send(kind ifp.Type, g *group, ipv6 bool, answered func([]*Site, Outcome)) {
	per := ifp.PerMessage(ipv6)
	if m.opt.PerMessage > 0 {
		per = min(per, m.opt.PerMessage)
	}
	jobs := make([]Job, 0, (len(g.sites)+per-1)/per)
	room := filterRoom.Get().(*[]ifp.Filter)
	defer filterRoom.Put(room)
	filters := slices.Grow((*room)[:0], len(g.sites))
	for _, at := range g.sites {
		filters = append(filters, at.of.filter())
	}
	*room = filters
	for begin := 0; begin < len(g.sites); begin += per {
		end := min(begin+per, len(g.sites))
		part := g.sites[begin:end]
		jobs = append(jobs, Job{Kind: kind, Filters: filters[begin:end], BM: g.bm, Proof: m.policy.Load().Proof && kind != ifp.Stats,
			Done: func(o Outcome) { answered(part, o) }})
	}
	m.opt.Engine.Do(jobs...)
}

// installed records the answer to a message. A filter whose border managers have all answered is passed to done, if there is one.
func (m *Manager) installed(part []*Site, o Outcome, done func(*Entry, error)) {
	m.mu.Lock() // once for all: List may hold it for long
	defer m.mu.Unlock()
	for i, at := range part {
		e, err := at.of, o.Err
		at.State, at.Proven = Installed, o.Proven
		if err == nil && o.Codes[i] != ifp.OK {
			err = refusal(o.Codes[i], e.Src, e.Dst)
			at.Code = o.Codes[i].String()
		}
		if err != nil {
			at.State = Refused
			if at.Code == "" {
				at.Code = err.Error()
			}
		}
		if e.Borders != nil {
			err = e.sum()
		}
		m.changed(e)
		if done != nil && e.State != Asked {
			done(e, err)
		}
	}
}

// refusal explains a code to the requester of this filter.
func refusal(code ifp.Code, src, dst netip.Prefix) error {
	why := ""
	open := "/32, /24 or /0 to /32 always has a place"
	if src.Addr().Is6() {
		open = "/128, /64 or /0 to /128 always has a place"
	}
	switch code {
	case ifp.TableFull:
		why = ": the patrol's table is full, and your network holds its share of it; remove filters that matter less"
	case ifp.TooManyShapes:
		why = fmt.Sprintf(": other networks hold the patrol's places for pairs of prefix lengths such as /%d to /%d; split the filter: %s", src.Bits(), dst.Bits(), open)
	case ifp.OverShare:
		why = fmt.Sprintf(": the patrol has no further place for a pair of prefix lengths such as /%d to /%d, and you hold your share; take back one of yours, or split the filter: %s", src.Bits(), dst.Bits(), open)
	}
	return fmt.Errorf("the border manager says %v%s", code, why)
}

// counted records a border manager's counters of a filter.
func (m *Manager) counted(at *Site, s ifp.Stat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := at.of
	switch s.Code {
	case ifp.NotFound: // expired, or its patrol lost it
		at.State = Gone
		if e.Borders != nil {
			_ = e.sum()
			m.changed(e)
		}
		if e.State == Gone {
			m.forget(e)
		}
	case ifp.OK:
		if s.Packets != at.Packets {
			e.LastHit = InstantOf(time.Now())
		}
		at.Packets, at.Bytes = s.Packets, s.Bytes
		if e.Borders != nil {
			_ = e.sum()
		}
	}
}
