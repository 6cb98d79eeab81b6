package borderman

import (
	"net/netip"
	"time"

	"github.com/gaissmai/bart"

	"tidegate/internal/ifp"
)

// routes maps customers' addresses to patrols.
type routes struct {
	exact   bart.Table[[]int]
	patrols []Patrol
}

func newRoutes(patrols []Patrol) *routes {
	r := &routes{patrols: patrols}
	for at, p := range patrols {
		for _, prefix := range p.Prefixes {
			have, _ := r.exact.Get(prefix)
			r.exact.Insert(prefix, append(have[:len(have):len(have)], at))
		}
	}
	return r
}

// find adds filter i to those patrols behind which the traffic it is for begins or
// ends: for a single address the one that knows it best, for a wider prefix all
// that have a part of it.
func (r *routes) find(f *ifp.Filter, i int, targets map[int][]int) ifp.Code {
	customers := f.Src
	if f.Direction == ifp.ToCustomer {
		customers = f.Dst
	}
	if customers.IsSingleIP() {
		at, ok := r.exact.Lookup(customers.Addr())
		for _, n := range at {
			targets[n] = append(targets[n], i)
		}
		if !ok {
			return ifp.NoPatrol
		}
		return ifp.OK
	}
	found := false
	for n := range r.patrols {
		if overlapsAny(r.patrols[n].Prefixes, customers) {
			targets[n] = append(targets[n], i)
			found = true
		}
	}
	if !found {
		return ifp.NoPatrol
	}
	return ifp.OK
}

func overlapsAny(list []netip.Prefix, p netip.Prefix) bool {
	for _, q := range list {
		if q.Overlaps(p) {
			return true
		}
	}
	return false
}

// limit is a bucket of filters that a filter manager may ask for.
type limit struct {
	tokens float64
	last   time.Time
}

// limitsMax bounds how many filter managers are remembered. All of them have
// returned a nonce; the table is emptied when it is full.
const limitsMax = 1 << 16

// withinRate takes n from a filter manager's bucket, which holds one second's worth.
func (m *Manager) withinRate(fm netip.Addr, n int) bool {
	if m.opt.Rate == 0 {
		return true
	}
	now, rate := time.Now(), float64(m.opt.Rate)
	l := m.limits[fm]
	if l == nil {
		if len(m.limits) >= limitsMax {
			clear(m.limits)
		}
		l = &limit{tokens: rate, last: now}
		m.limits[fm] = l
	}
	l.tokens = min(rate, l.tokens+rate*now.Sub(l.last).Seconds())
	l.last = now
	if l.tokens < float64(n) {
		return false
	}
	l.tokens -= float64(n)
	return true
}
