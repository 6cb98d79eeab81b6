// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/ifp"
)

// Each filter goes to the patrols that have a part of its customers, once, in whatever order a request has them.
func TestTargets(t *testing.T) {
	const n = 40
	patrols := make([]Patrol, n)
	for i := range patrols {
		patrols[i].Prefixes = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", i))}
	}
	r := newRoutes(patrols)
	sources := []string{"10.3.0.1/32", "10.0.0.0/14", "10.39.0.0/16", "10.3.0.2/32", "10.0.0.0/8", "192.0.2.1/32", "10.4.0.0/14", "10.2.0.0/15"}
	want := map[int][]int{}
	got := targets{count: len(sources)}
	for i, src := range sources {
		f := ifp.Filter{Src: netip.MustParsePrefix(src), Dst: netip.MustParsePrefix("198.51.100.1/32"), Direction: ifp.FromCustomer}
		found := ifp.NoPatrol
		for at, p := range patrols {
			if p.Prefixes[0].Overlaps(f.Src) {
				want[at] = append(want[at], i)
				found = ifp.OK
			}
		}
		if code := r.find(&f, i, &got); code != found {
			t.Errorf("%s: %v, want %v", src, code, found)
		}
	}
	if len(got.list) != len(want) {
		t.Fatalf("%d patrols, want %d", len(got.list), len(want))
	}
	for _, of := range got.list {
		if !slices.Equal(of.which, want[of.patrol]) {
			t.Errorf("patrol %d has filters %v, want %v", of.patrol, of.which, want[of.patrol])
		}
	}
}
