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

// find adds filter i to the patrols behind which its traffic begins or
// ends: for a single address the one with the longest matching prefix, for a wider prefix all
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
