// SPDX-License-Identifier: Apache-2.0

package routers

import "time"

// Anycast: whether the prefixes of services are announced from here. They are withdrawn at once when the gate cannot protect, and come
// back when it has been able to for a while: longer each time, so that a gate that fails and recovers does not move its clients to and fro.

const (
	settleLongest = 10 * time.Minute
	steadyTime    = time.Hour // announced this long: earlier failures are forgotten
)

// Presence is whether a gate's service prefixes are announced.
type Presence struct {
	Settle time.Duration // able this long before the first announcement

	able      time.Time // since when; zero: it is not
	announced time.Time // likewise
	failures  int
}

// Step returns whether to announce now, given whether the gate can protect.
func (p *Presence) Step(able bool, now time.Time) (announce bool) {
	if !able {
		if !p.announced.IsZero() {
			if now.Sub(p.announced) >= steadyTime {
				p.failures = 0
			}
			p.failures++
		}
		p.able, p.announced = time.Time{}, time.Time{}
		return false
	}
	if p.able.IsZero() {
		p.able = now
	}
	if p.announced.IsZero() && now.Sub(p.able) >= p.wait() {
		p.announced = now
	}
	return !p.announced.IsZero()
}

// wait doubles with each failure.
func (p *Presence) wait() time.Duration {
	wait := p.Settle
	for range p.failures {
		if wait = 2 * max(wait, time.Second); wait >= settleLongest {
			return max(settleLongest, p.Settle)
		}
	}
	return wait
}
