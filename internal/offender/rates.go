// SPDX-License-Identifier: Apache-2.0

package offender

import (
	"net/netip"
	"time"

	"tidegate/internal/plane"
)

// Bits of an address that make a source where several gates are added up: they must agree, whatever their source_limits say.
const (
	SourceBitsV4 = 32
	SourceBitsV6 = 64
)

// Rates makes rates of completed handshakes of the packet path's counts, by source. Each is a lower bound: a source that has had its slot for a
// part of the time only does not count. The zero value has seen nothing: the first look has no rates.
type Rates struct {
	last   []plane.Proven
	lastAt time.Time
}

// Look returns who has completed how many handshakes a second since the last look.
func (r *Rates) Look(rows []plane.Proven, now time.Time) map[netip.Prefix]float64 {
	last, passed := r.last, now.Sub(r.lastAt).Seconds()
	r.last, r.lastAt = rows, now
	if len(last) != len(rows) || passed <= 0 {
		return nil
	}
	rates := map[netip.Prefix]float64{}
	for p, c := range tally(last, rows) {
		bits := SourceBitsV4
		if p.src.Is6() {
			bits = SourceBitsV6
		}
		if src, err := p.src.Prefix(bits); err == nil && c.handshakes > 0 {
			rates[src] += float64(c.handshakes) / passed
		}
	}
	return rates
}
