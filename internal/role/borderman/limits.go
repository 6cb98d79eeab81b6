// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"time"

	"golang.org/x/time/rate"

	"tidegate/internal/config"
)

// Rates of authorised networks, separately for each, and of strangers, all together.
const (
	DefaultRate   = config.DefaultFilterRate // filters/s of one network
	proofRate     = 1_000                    // signatures/s for one network: about 3 % of a CPU
	strangersRate = 10_000                   // filters/s of all senders without authority
)

// limitsMax bounds how many networks are remembered. Only networks with authority
// are.
const limitsMax = 1 << 16

// allowance is what one network may still request.
type allowance struct{ filters, proofs *rate.Limiter }

// limits holds the allowances. It stores nothing about strangers, and forgets no network before its allowance
// is full again: forgetting would refill it. For one goroutine.
type limits struct {
	rate      int // filters/s of one network; 0: any
	owners    map[uint32]*allowance
	strangers *rate.Limiter
	swept     time.Time
}

func newLimits(filtersPerS int) *limits {
	return &limits{rate: filtersPerS, owners: map[uint32]*allowance{}, strangers: rate.NewLimiter(strangersRate, strangersRate)}
}

// take charges a request of n filters to its network; owner 0 means strangers. False: the
// allowance does not suffice now.
func (l *limits) take(owner uint32, n int, proof bool, now time.Time) bool {
	if owner == 0 {
		return l.strangers.AllowN(now, n)
	}
	if l.rate == 0 {
		return true
	}
	a := l.owners[owner]
	if a == nil {
		if len(l.owners) >= limitsMax && !l.forget(now) {
			return false
		}
		a = &allowance{rate.NewLimiter(rate.Limit(l.rate), l.rate), rate.NewLimiter(proofRate, proofRate)}
		l.owners[owner] = a
	}
	// A message never costs more than one second's allowance: else a low rate would refuse it for ever.
	if !a.filters.AllowN(now, min(n, l.rate)) {
		return false
	}
	return !proof || a.proofs.AllowN(now, 1)
}

// forget makes room by removing networks that have requested nothing for a second. It scans
// the table at most twice a second.
func (l *limits) forget(now time.Time) bool {
	if now.Sub(l.swept) < time.Second/2 {
		return false
	}
	l.swept = now
	for owner, a := range l.owners {
		if a.filters.TokensAt(now) >= float64(l.rate) && a.proofs.TokensAt(now) >= proofRate {
			delete(l.owners, owner)
		}
	}
	return len(l.owners) < limitsMax
}
