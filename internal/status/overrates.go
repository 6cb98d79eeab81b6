// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// OverRate is how many connections a second a source has begun above its limit.
type OverRate struct {
	Prefix    netip.Prefix
	PerSecond float64
}

// OverRates makes rates of the packet path's counts of sources above their limit. The zero value has seen nothing: the first look has no rates.
type OverRates struct {
	seen map[netip.Prefix]uint64
	at   time.Time
	last []OverRate
}

// leastBetween is the time between two looks below which the rates stay as they are.
const leastBetween = time.Second

// Look returns the rates since the last look, the highest first, at most so many.
func (r *OverRates) Look(list []OverLimit, now time.Time, most int) []OverRate {
	elapsed := now.Sub(r.at)
	if !r.at.IsZero() && elapsed < leastBetween {
		return r.last
	}
	seen := make(map[netip.Prefix]uint64, len(list))
	var rates []OverRate
	for _, o := range list {
		seen[o.Prefix] = o.Over
		grown := o.Over
		if was := r.seen[o.Prefix]; o.Over >= was { // less: another source had its slot in between
			grown -= was
		}
		if grown > 0 && !r.at.IsZero() {
			rates = append(rates, OverRate{o.Prefix, float64(grown) / elapsed.Seconds()})
		}
	}
	slices.SortFunc(rates, func(a, b OverRate) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), a.Prefix.Compare(b.Prefix))
	})
	r.seen, r.at, r.last = seen, now, rates[:min(most, len(rates))]
	return r.last
}
