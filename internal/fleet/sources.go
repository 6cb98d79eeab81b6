// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Sources that begin too many connections at all nodes together, although at none of them (docs/decisions/0175). Each node counts the handshakes of sources that
// have proven their addresses; its counts are lower bounds, so sums of them are.

const (
	// MaxSources bounds the sources that a node reports: 16 KiB.
	MaxSources = 256
	// maxClaimedSources bounds those that it tells the other nodes.
	maxClaimedSources = 128
	// sourcesEvery is the time over which a node counts.
	sourcesEvery = 5 * time.Second
	// ofAShare: what a source has at a node is told to the others if it is at least this part of its share of the limit. So all that is not told is less than this part of the limit.
	ofAShare   = 0.25
	mostSource = 1e9
)

// FleetLimits hold for all nodes together. Nothing is dropped because of them: who is above one is named.
type FleetLimits struct {
	NewPerSecond int `yaml:"new_per_second" json:"new_per_second,omitempty"` // connections that one source may begin a second; 0: any number
}

// SourceRate is how many connections a second a source has begun with a node, at least.
type SourceRate struct {
	Prefix    netip.Prefix `json:"prefix"`
	PerSecond float64      `json:"per_second"`
}

func (s *SourceRate) valid() bool {
	return s.Prefix.IsValid() && s.Prefix == s.Prefix.Masked() && s.PerSecond > 0 && s.PerSecond <= mostSource && !math.IsNaN(s.PerSecond)
}

// SourceSummary is what a node says of sources.
type SourceSummary struct {
	List     []SourceRate `json:"list,omitempty"` // the most active first
	Unlisted float64      `json:"unlisted_per_second"`
}

// valid reports whether a node can have counted that.
func (s *SourceSummary) valid(most int) bool {
	if len(s.List) > most || s.Unlisted < 0 || s.Unlisted > mostSource || math.IsNaN(s.Unlisted) {
		return false
	}
	return !slices.ContainsFunc(s.List, func(r SourceRate) bool { return !r.valid() })
}

// summarize lists the most active sources of at least a rate. Of no other has been counted more than Unlisted.
func summarize(rates map[netip.Prefix]float64, least float64, most int) SourceSummary {
	var s SourceSummary
	for p, rate := range rates {
		if rate >= least {
			s.List = append(s.List, SourceRate{p, rate})
		} else {
			s.Unlisted = max(s.Unlisted, rate)
		}
	}
	slices.SortFunc(s.List, func(a, b SourceRate) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), a.Prefix.Compare(b.Prefix))
	})
	if len(s.List) > most {
		s.Unlisted = max(s.Unlisted, s.List[most].PerSecond)
		s.List = s.List[:most]
	}
	return s
}

// FleetSource is a source as all nodes together know it.
type FleetSource struct {
	Prefix  netip.Prefix `json:"prefix"`
	AtLeast float64      `json:"at_least_per_second"`
	AtMost  float64      `json:"at_most_per_second"` // of what nodes have counted: with what those that do not list it may have left out
	Nodes   []string     `json:"nodes"`              // whose word it is, the one that has counted most first
}

// sourcesOf adds up what nodes say, and returns the sources with at least a rate, the most active first.
func sourcesOf(said map[string]*SourceSummary, least float64) (list []FleetSource) {
	type sum struct {
		by       map[string]float64
		unlisted float64 // of those in `by`
	}
	sums, unlisted := map[netip.Prefix]*sum{}, 0.0
	for node, s := range said {
		unlisted += s.Unlisted
		for _, r := range s.List {
			of := sums[r.Prefix]
			if of == nil {
				of = &sum{by: map[string]float64{}}
				sums[r.Prefix] = of
			}
			if _, twice := of.by[node]; !twice {
				of.by[node], of.unlisted = r.PerSecond, of.unlisted+s.Unlisted
			}
		}
	}
	for prefix, of := range sums {
		src := FleetSource{Prefix: prefix, Nodes: slices.SortedFunc(maps.Keys(of.by), func(a, b string) int {
			return cmp.Or(cmp.Compare(of.by[b], of.by[a]), cmp.Compare(a, b))
		})}
		for _, node := range src.Nodes { // in that order: the sum is the same each time
			src.AtLeast += of.by[node]
		}
		if src.AtMost = src.AtLeast + unlisted - of.unlisted; src.AtLeast >= least {
			list = append(list, src)
		}
	}
	slices.SortFunc(list, func(a, b FleetSource) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), a.Prefix.Compare(b.Prefix))
	})
	return list
}

// heardSources is what another node has said last.
type heardSources struct {
	SourceSummary
	until time.Time
}

// sourceWatch is what a node knows of sources: its own counts, and what the others tell.
type sourceWatch struct {
	node   string
	quorum int

	mu    sync.Mutex
	limit float64 // 0: nobody asks
	own   map[netip.Prefix]float64
	heard map[string]heardSources
}

// hear takes what a node says.
func (w *sourceWatch) hear(node string, s *SourceSummary, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heard == nil {
		w.heard = map[string]heardSources{}
	}
	if _, known := w.heard[node]; known || len(w.heard) < 10_000 {
		w.heard[node] = heardSources{*s, until}
	}
}

// tell is what the others are told; nil: nothing.
func (w *sourceWatch) tell(others int64) *SourceSummary {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit <= 0 {
		return nil
	}
	if s := summarize(w.own, ofAShare*w.limit/float64(others+1), maxClaimedSources); len(s.List) > 0 {
		return &s
	}
	return nil
}

// report is what the operator is told; nil: nothing is counted.
func (w *sourceWatch) report() *SourceSummary {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit <= 0 {
		return nil
	}
	s := summarize(w.own, 0, MaxSources)
	return &s
}

// step takes this node's counts, and returns the sources that are above the limit together, as far as it is this node that says so: the one that has counted
// most of a source. Of what the others claim of it, the quorum-1 greatest are left out, and each counts for the limit at most: one node that lies names nobody,
// and silences nobody.
func (w *sourceWatch) step(limit float64, own map[netip.Prefix]float64, now time.Time) (over []FleetSource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit, w.own = limit, own
	maps.DeleteFunc(w.heard, func(_ string, h heardSources) bool { return now.After(h.until) })
	if limit <= 0 {
		return nil
	}
	claims := map[netip.Prefix][]sourceClaim{}
	for node, h := range w.heard {
		for _, r := range h.List {
			if own[r.Prefix] > 0 {
				claims[r.Prefix] = append(claims[r.Prefix], sourceClaim{node, min(r.PerSecond, limit)})
			}
		}
	}
	for prefix, rate := range own {
		by := claims[prefix]
		slices.SortFunc(by, func(a, b sourceClaim) int {
			return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.node, b.node))
		})
		by = by[min(w.quorum-1, len(by)):]
		if len(by) > 0 && (by[0].rate > rate || by[0].rate == rate && by[0].node < w.node) {
			continue // that one says so
		}
		src := FleetSource{Prefix: prefix, AtLeast: rate, Nodes: []string{w.node}}
		for _, c := range by {
			src.AtLeast += c.rate
			src.Nodes = append(src.Nodes, c.node)
		}
		if src.AtLeast > limit {
			over = append(over, src)
		}
	}
	slices.SortFunc(over, func(a, b FleetSource) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), a.Prefix.Compare(b.Prefix))
	})
	return over
}

// sourceClaim is a node's word on one source.
type sourceClaim struct {
	node string
	rate float64
}
