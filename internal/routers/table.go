// SPDX-License-Identifier: Apache-2.0

package routers

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Limits bound what proven sources can make a gate announce.
type Limits struct {
	Max       int           // routes at once; as many again by hand
	Expires   time.Duration // after a source was last seen above its rate
	PerMinute int           // new routes
}

const (
	// A source that offends again soon after its route has expired gets twice the time, up to this factor: routers then see one route
	// that lasts instead of one that comes and goes.
	longestFactor = 16
	// relapseTime is how long an expired route counts.
	relapseTime = time.Hour
	relapsesMax = 1 << 16 // remembered
	// pardonTime: a source's route that was withdrawn by hand does not come back before.
	pardonTime = time.Hour
)

// Announcement is a route that is announced, and why.
type Announcement struct {
	Route
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
	ByHand   bool      `json:"by_hand,omitempty"`
	Relapses int       `json:"relapses,omitempty"` // earlier routes for this source within an hour
}

// Offence is what a source has done whose address a handshake has proven.
type Offence struct {
	Src, Dst  netip.Addr // Dst is the zero Addr if all destinations are counted together
	PerSecond float64    // completed handshakes
}

// Table holds what is announced of sources and destinations. It is not safe for concurrent use.
type Table struct {
	rules    Rules
	limits   Limits
	now      map[Route]*Announcement
	relapses map[Route]relapse
	pardons  map[netip.Prefix]time.Time // sources whose route was withdrawn by hand, until when
	tokens   float64                    // of new routes for offences
	at       time.Time

	Refused uint64 // offences for which there was no place, or no token
	Spared  uint64 // offences of sources that must not be announced
}

type relapse struct {
	n     int
	until time.Time
}

// NewTable begins with nothing announced.
func NewTable(rules Rules, limits Limits) *Table {
	return &Table{rules: rules, limits: limits, now: map[Route]*Announcement{}, relapses: map[Route]relapse{}, pardons: map[netip.Prefix]time.Time{}, tokens: float64(limits.PerMinute)}
}

// SetRules replaces the rules; Recheck withdraws what they refuse.
func (t *Table) SetRules(r Rules) { t.rules = r }

// Recheck ends what the rules refuse now.
func (t *Table) Recheck(now time.Time) (ended []Announcement) {
	for _, a := range t.List() {
		if t.rules.Check(a.Route) != nil {
			t.end(&a, now)
			ended = append(ended, a)
		}
	}
	return ended
}

// ErrFull says that there is no place for another route.
var ErrFull = errors.New("as many routes as bgp.max are announced already; withdraw one, or raise it")

// Offend announces a source that handshakes have proven and that exceeds its rate, or prolongs its route. The result says whether it is
// new.
func (t *Table) Offend(kind Kind, o Offence, now time.Time) (a Announcement, fresh bool) {
	r := Route{Kind: kind, Prefix: host(o.Src)}
	if kind == Flow {
		r.To = host(o.Dst)
	}
	if have, there := t.now[r]; there {
		if !have.ByHand {
			have.Until = later(have.Until, now.Add(t.lasts(have.Relapses)))
		}
		return *have, false
	}
	if now.Before(t.pardons[r.Prefix]) || t.rules.Check(r) != nil {
		t.Spared++
		return a, false
	}
	if t.count(false) >= t.limits.Max || !t.take(now) {
		t.Refused++
		return a, false
	}
	a = Announcement{Route: r, Since: now, Why: fmt.Sprintf("%.0f connections/s", o.PerSecond)}
	if before := t.relapses[r]; now.Before(before.until) {
		a.Relapses = before.n
	}
	a.Until = now.Add(t.lasts(a.Relapses))
	t.now[r] = &a
	return a, true
}

// lasts is how long a route lasts after so many relapses.
func (t *Table) lasts(relapses int) time.Duration {
	factor := longestFactor
	if relapses < 4 { // 1 << 4
		factor = 1 << relapses
	}
	return t.limits.Expires * time.Duration(factor)
}

// take takes a token for a new route.
func (t *Table) take(now time.Time) bool {
	per := float64(t.limits.PerMinute)
	if passed := now.Sub(t.at); !t.at.IsZero() && passed > 0 {
		t.tokens = min(per, t.tokens+per*passed.Minutes())
	}
	t.at = now
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}

func (t *Table) count(byHand bool) (n int) {
	for _, a := range t.now {
		if a.ByHand == byHand {
			n++
		}
	}
	return n
}

// Announce announces by hand, or changes what was announced.
func (t *Table) Announce(r Route, until time.Time, why string, now time.Time) (Announcement, error) {
	if err := t.rules.Check(r); err != nil {
		return Announcement{}, err
	}
	if !until.After(now) {
		return Announcement{}, errors.New("its end has passed already; name a later one")
	}
	have, there := t.now[r]
	if (!there || !have.ByHand) && t.count(true) >= t.limits.Max {
		return Announcement{}, ErrFull
	}
	a := &Announcement{Route: r, Since: now, Until: until, Why: why, ByHand: true}
	if there {
		a.Since = have.Since
	}
	t.now[r] = a
	return *a, nil
}

// Withdraw ends an announcement by hand, and reports whether there was one. What a source had announced does not come back for an hour.
func (t *Table) Withdraw(r Route, now time.Time) (Announcement, bool) {
	a, there := t.now[r]
	if !there {
		return Announcement{}, false
	}
	if delete(t.now, r); !a.ByHand {
		t.pardons[r.Prefix] = now.Add(pardonTime)
	}
	return *a, true
}

// Expire ends what has lasted long enough.
func (t *Table) Expire(now time.Time) (ended []Announcement) {
	for _, a := range t.now {
		if !a.Until.After(now) {
			t.end(a, now)
			ended = append(ended, *a)
		}
	}
	maps.DeleteFunc(t.pardons, func(_ netip.Prefix, until time.Time) bool { return !until.After(now) })
	maps.DeleteFunc(t.relapses, func(_ Route, r relapse) bool { return !r.until.After(now) })
	slices.SortFunc(ended, func(a, b Announcement) int { return order(a.Route, b.Route) })
	return ended
}

func (t *Table) end(a *Announcement, now time.Time) {
	delete(t.now, a.Route)
	if _, known := t.relapses[a.Route]; !a.ByHand && (known || len(t.relapses) < relapsesMax) {
		t.relapses[a.Route] = relapse{a.Relapses + 1, now.Add(relapseTime)}
	}
}

// List is what is announced.
func (t *Table) List() []Announcement {
	list := make([]Announcement, 0, len(t.now))
	for _, a := range t.now {
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b Announcement) int { return order(a.Route, b.Route) })
	return list
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
