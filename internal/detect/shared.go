// SPDX-License-Identifier: Apache-2.0

package detect

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// What one gate says is bounded, whoever wrote it.
const (
	MaxClaimedServices = 64
	MaxClaimedPrefixes = 16 // of a service
	maxSums            = 1024
)

// PrefixClaim is what a gate says of a destination prefix.
type PrefixClaim struct {
	Prefix netip.Prefix `json:"prefix"`
	On     bool         `json:"on,omitempty"` // its own detector says that this prefix is attacked
	Claim
}

// ServiceClaim is what a gate says of a service. On is its own detector's word, never what it has from others: an echo would keep itself up.
type ServiceClaim struct {
	Service string `json:"service"`
	On      bool   `json:"on,omitempty"` // the whole service is attacked
	Claim
	Prefixes []PrefixClaim `json:"prefixes,omitempty"` // those with the most uncompleted SYNs
}

// Idle reports whether there is nothing to say.
func (c *ServiceClaim) Idle() bool { return !c.On && c.Missing < 0.01 && c.Done < 0.01 }

// Valid reports whether a gate can have said that. A claim that is refused changes nothing.
func (c *ServiceClaim) Valid() bool {
	if !c.valid() || len(c.Prefixes) > MaxClaimedPrefixes {
		return false
	}
	for _, p := range c.Prefixes {
		if !p.valid() || !p.Prefix.IsValid() || p.Prefix != p.Prefix.Masked() {
			return false
		}
	}
	return true
}

// Shared is a service as the whole fleet sees it: a Sum of the service, and one of each of its prefixes that this gate sees SYNs to. So the prefixes
// that other gates name take no memory here.
type Shared struct {
	p        Params
	life     time.Duration
	quorum   int
	whole    *Sum
	prefixes map[netip.Prefix]*Sum
	heard    map[string]*heard
	all      bool
}

// heard is what a gate said last.
type heard struct {
	ServiceClaim
	age, life time.Duration
	fresh     bool // not yet given to the sums of prefixes
}

// NewShared returns a Shared that has heard nobody. What a gate says counts for life; quorum is Sum's.
func NewShared(p Params, life time.Duration, quorum int) *Shared {
	return &Shared{p: p, life: life, quorum: quorum, whole: NewSum(p, life, quorum), prefixes: map[netip.Prefix]*Sum{}, heard: map[string]*heard{}}
}

// SetParams replaces the numbers of all sums; what has been heard stays.
func (s *Shared) SetParams(p Params) {
	s.p = p
	s.whole.d.SetParams(p)
	for _, of := range s.prefixes {
		of.d.SetParams(p)
	}
}

// Hear takes what another gate says in place of its last word. It returns false if it is refused.
func (s *Shared) Hear(gate string, c ServiceClaim) bool { return s.HearFor(gate, c, s.life) }

// HearFor is Hear of a word that counts for another time: its gate says one less often.
func (s *Shared) HearFor(gate string, c ServiceClaim, life time.Duration) bool {
	if !c.Valid() || !s.whole.HearFor(gate, c.Claim, life) {
		return false
	}
	s.heard[gate] = &heard{ServiceClaim: c, life: life, fresh: true}
	return true
}

// Warning is what follows for this gate from what it and the others see.
type Warning struct {
	// All and Prefixes are attacked, by the sum.
	All      bool
	Prefixes []netip.Prefix // sorted
	// PrepareAll and Prepare are what at least one other gate says is attacked, or the sum.
	PrepareAll bool
	Prepare    []netip.Prefix
}

// Step takes what this gate sees, of the service and of its prefixes, and the time since the last Step.
func (s *Shared) Step(own Claim, prefixes map[netip.Prefix]Claim, elapsed time.Duration) (w Warning) {
	for gate, h := range s.heard {
		if h.age += elapsed; h.age > h.life {
			delete(s.heard, gate)
			continue
		}
		w.PrepareAll = w.PrepareAll || h.On
		for _, p := range h.Prefixes {
			if p.On {
				w.Prepare = append(w.Prepare, p.Prefix)
			}
			if _, seen := prefixes[p.Prefix]; !seen || !h.fresh {
				continue
			}
			if s.prefixes[p.Prefix] == nil {
				if len(s.prefixes) >= maxSums {
					continue
				}
				s.prefixes[p.Prefix] = NewSum(s.p, s.life, s.quorum)
			}
			s.prefixes[p.Prefix].HearFor(gate, p.Claim, h.life)
		}
		h.fresh = false
	}
	explained := 0.0
	for prefix, of := range s.prefixes {
		if of.Step(prefixes[prefix], elapsed) {
			w.Prefixes = append(w.Prefixes, prefix)
			explained += of.d.missing
		}
		if of.idle() {
			delete(s.prefixes, prefix)
		}
	}
	on := s.whole.Step(own, elapsed)
	gates := s.whole.Gates()
	for _, gate := range gates[min(s.quorum-1, len(gates)):] { // an attack on prefixes that have no SYNs here is none of the whole service
		for _, p := range s.heard[gate].Prefixes {
			if _, seen := prefixes[p.Prefix]; p.On && !seen {
				explained += min(p.Missing, s.p.Hard)
			}
		}
	}
	switch {
	case !on:
		s.all = false
	case s.whole.d.alarming() && explained < explains*s.whole.d.missing:
		s.all = true
	}
	w.All, w.PrepareAll = s.all, w.PrepareAll || s.all
	w.Prepare = append(w.Prepare, w.Prefixes...)
	slices.SortFunc(w.Prefixes, netip.Prefix.Compare)
	slices.SortFunc(w.Prepare, netip.Prefix.Compare)
	w.Prepare = slices.Compact(w.Prepare)
	return w
}

// SharedReading is what is seen of the fleet, for people and for the API.
type SharedReading struct {
	On       bool           `json:"on"` // the sum says that the service, or a prefix of it, is attacked
	All      bool           `json:"all"`
	Prefixes []netip.Prefix `json:"prefixes,omitempty"`
	Sum      Reading        `json:"sum"`
	Gates    []string       `json:"gates"`              // heard, the one that claims the most uncompleted SYNs first
	LeftOut  int            `json:"left_out"`           // of them, the first so many do not count
	Attacked []string       `json:"attacked,omitempty"` // those that say so of themselves
}

// Read returns what is seen, given the latest Warning.
func (s *Shared) Read(w *Warning) SharedReading {
	r := SharedReading{On: w.All || len(w.Prefixes) > 0, All: w.All, Prefixes: w.Prefixes, Sum: s.whole.Read(), Gates: s.whole.Gates()}
	r.LeftOut = min(s.quorum-1, len(r.Gates))
	for _, gate := range slices.Sorted(maps.Keys(s.heard)) {
		h := s.heard[gate]
		if h.On || slices.ContainsFunc(h.Prefixes, func(p PrefixClaim) bool { return p.On }) {
			r.Attacked = append(r.Attacked, gate)
		}
	}
	return r
}
