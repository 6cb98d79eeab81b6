// SPDX-License-Identifier: Apache-2.0

package detect

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Claim is what a gate says of a service to the other gates of its fleet: rates a second, over its latest second.
type Claim struct {
	Missing float64 `json:"uncompleted_per_second"` // SYNs that were not completed
	Done    float64 `json:"completed_per_second"`
}

// valid reports whether a claim is one that a gate can have: neither negative nor infinite, nor more than a link carries.
func (c Claim) valid() bool {
	const most = 1e10
	return c.Missing >= 0 && c.Done >= 0 && c.Missing <= most && c.Done <= most && !math.IsNaN(c.Missing+c.Done)
}

// Claim is what this detector's gate says of what it sees. (Reading's K is at least KMin, which must not add up.)
func (d *Detector) Claim() Claim { return Claim{Missing: d.missing, Done: d.lately} }

// Sum detects attacks that no gate of a fleet sees alone: the detector's rules, over what this gate sees and what the others claim.
//
// Of the others' claims of uncompleted SYNs, the quorum-1 greatest are left out. So with a quorum of two, a single gate that lies adds nothing: if its
// claim is the greatest, what remains is what the honest ones say; if not, the honest claim that is left out instead is no smaller. With a quorum of one nothing is left out:
// a gate's word suffices. A gate that claims completed handshakes can hide an attack from the sum, never from a gate's own detector.
type Sum struct {
	d      *Detector
	life   time.Duration // of a claim
	quorum int
	claims map[string]*heldClaim
}

type heldClaim struct {
	Claim
	age, life time.Duration
}

// MaxGates bounds the claims that a Sum holds.
const MaxGates = 10_000

// NewSum returns a Sum that has heard nobody. A claim counts for life, unless its gate makes another.
func NewSum(p Params, life time.Duration, quorum int) *Sum {
	return &Sum{d: New(p), life: life, quorum: quorum, claims: map[string]*heldClaim{}}
}

// Hear takes the claim of another gate in place of its last. It returns false if that cannot be true, or there are too many; then the gate's
// last claim stays until it expires.
func (s *Sum) Hear(gate string, c Claim) bool { return s.HearFor(gate, c, s.life) }

// HearFor is Hear of a claim that counts for another time: its gate makes them less often.
func (s *Sum) HearFor(gate string, c Claim, life time.Duration) bool {
	if !c.valid() || s.claims[gate] == nil && len(s.claims) >= MaxGates {
		return false
	}
	c.Missing = min(c.Missing, s.d.p.Hard) // more would mean no more, but take longer to fade
	s.claims[gate] = &heldClaim{Claim: c, life: life}
	return true
}

// Step takes what this gate sees, and the time since the last Step. It returns whether there is an attack on the fleet.
func (s *Sum) Step(own Claim, elapsed time.Duration) bool {
	if elapsed <= 0 {
		return s.d.on
	}
	total := own
	missing := make([]float64, 0, len(s.claims))
	for gate, c := range s.claims {
		if c.age += elapsed; c.age > c.life {
			delete(s.claims, gate)
			continue
		}
		total.Done += c.Done
		missing = append(missing, c.Missing)
	}
	slices.Sort(missing)
	for _, m := range missing[:max(0, len(missing)-(s.quorum-1))] {
		total.Missing += m
	}
	return s.d.observe(total.Missing, total.Missing+total.Done, total.Done, elapsed)
}

// Read returns what is seen of the fleet, without the claims that are left out.
func (s *Sum) Read() Reading { return s.d.Read() }

// idle reports whether there is nothing to remember.
func (s *Sum) idle() bool { return len(s.claims) == 0 && s.d.idle() }

// Gates are those whose claims count, the one that claims the most uncompleted SYNs first: the first quorum-1 are left out.
func (s *Sum) Gates() []string {
	return slices.SortedFunc(maps.Keys(s.claims), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.claims[b].Missing, s.claims[a].Missing), cmp.Compare(a, b))
	})
}
