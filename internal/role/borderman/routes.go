// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"net/netip"

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

// targets are the patrols to which a request's filters go.
type targets struct {
	list  []target
	at    int // the one found last: the next filter's is mostly the same one, or, of a wide prefix, the next one
	count int // filters of the request
}

type target struct {
	patrol int
	which  []int // filters, by their place in the request
}

// add adds filter i to a patrol's.
func (t *targets) add(patrol, i int) {
	for range t.list {
		if of := &t.list[t.at]; of.patrol == patrol {
			of.which = append(of.which, i)
			return
		}
		if t.at++; t.at == len(t.list) {
			t.at = 0
		}
	}
	t.at = len(t.list)
	t.list = append(t.list, target{patrol, append(make([]int, 0, t.count-i), i)})
}

// find adds filter i to the patrols behind which its traffic begins or
// ends: for a single address the one with the longest matching prefix, for a wider prefix all
// that have a part of it.
func (r *routes) find(f *ifp.Filter, i int, to *targets) ifp.Code {
	customers := f.Src
	if f.Direction == ifp.ToCustomer {
		customers = f.Dst
	}
	if customers.IsSingleIP() {
		at, ok := r.exact.Lookup(customers.Addr())
		for _, n := range at {
			to.add(n, i)
		}
		if !ok {
			return ifp.NoPatrol
		}
		return ifp.OK
	}
	found := false
	for n := range r.patrols {
		if overlapsAny(r.patrols[n].Prefixes, customers) {
			to.add(n, i)
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
