// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// sourceWorld is a fleet whose sources' rates are known.
type sourceWorld struct {
	names   []string
	watches []*sourceWatch
	counts  []map[netip.Prefix]float64
	truth   map[netip.Prefix]float64
}

func newSourceWorld(seed uint64, gates, sources, quorum int) *sourceWorld {
	w := &sourceWorld{truth: map[netip.Prefix]float64{}}
	for i := range gates {
		name := fmt.Sprintf("gate%02d", i)
		w.names = append(w.names, name)
		w.watches = append(w.watches, &sourceWatch{node: name, quorum: quorum})
		w.counts = append(w.counts, map[netip.Prefix]float64{})
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range sources {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 32)
		total := 400 / math.Pow(float64(i+1), 0.8) // a few heavy ones, many light ones
		for k := range gates {
			// Parts of all sizes: a carpet, or most of it at a few gates.
			part := total * r.ExpFloat64() / float64(gates)
			w.counts[k][p] = part
			w.truth[p] += part
		}
	}
	return w
}

// round has each gate tell the others, and returns who names which sources.
func (w *sourceWorld) round(limit float64, lies map[string]*SourceSummary) map[netip.Prefix][]FleetSource {
	now := time.Unix(1000, 0)
	for i, watch := range w.watches {
		watch.step(limit, w.counts[i], now)
	}
	for i := range w.watches {
		said := w.watches[i].tell(int64(len(w.watches) - 1))
		for k, other := range w.watches {
			if k != i && said != nil {
				other.hear(w.names[i], said, now.Add(time.Minute))
			}
		}
	}
	for liar, lie := range lies {
		for _, watch := range w.watches {
			watch.hear(liar, lie, now.Add(time.Minute))
		}
	}
	named := map[netip.Prefix][]FleetSource{}
	for i, watch := range w.watches {
		for _, s := range watch.step(limit, w.counts[i], now) {
			named[s.Prefix] = append(named[s.Prefix], s)
		}
	}
	return named
}

// Of 2,000 sources with known rates at 30 gates, those above the limit are named, by one gate each, and no other: although no gate has seen one of them above it. What the gates leave out is
// less than a quarter of the limit.
func TestSourcesAboveTheLimitInTheSum(t *testing.T) {
	const limit = 20.0
	for seed := range uint64(5) {
		w := newSourceWorld(seed, 30, 2000, 1)
		for i := range w.counts {
			for p, rate := range w.counts[i] {
				if rate > limit { // a limit at each node would find it
					w.truth[p] -= rate - limit/2
					w.counts[i][p] = limit / 2
				}
			}
		}
		named, above := w.round(limit, nil), 0
		for p, truth := range w.truth {
			by := named[p]
			switch {
			case truth > 1.25*limit && len(by) != 1:
				t.Errorf("seed %d: %v begins %.1f a second with all, and %d gates say so", seed, p, truth, len(by))
			case truth <= limit && len(by) > 0:
				t.Errorf("seed %d: %v begins %.1f a second with all, and is named with %.1f", seed, p, truth, by[0].AtLeast)
			}
			for _, s := range by {
				if s.AtLeast > truth+1e-9 {
					t.Errorf("seed %d: %v begins %.1f a second with all, at least %.1f are claimed", seed, p, truth, s.AtLeast)
				}
			}
			if truth > 1.25*limit {
				above++
			}
		}
		if above < 10 {
			t.Fatalf("seed %d: the test shows nothing: %d sources are above the limit", seed, above)
		}

		// The operator's sum, of reports: the truth is within its bounds.
		var nodes []Node
		for i, watch := range w.watches {
			report := Report{Node: w.names[i], Sources: watch.report()}
			text, err := json.Marshal(report)
			if err != nil || len(text) > 17<<10 || len(report.Sources.List) > MaxSources {
				t.Fatalf("a report of %d bytes, %v", len(text), err)
			}
			nodes = append(nodes, Node{Report: report})
		}
		found := map[netip.Prefix]bool{}
		for _, s := range TopOf(nodes, FleetLimits{NewPerSecond: limit}).Above {
			found[s.Prefix] = true
			if truth := w.truth[s.Prefix]; truth <= limit || truth < s.AtLeast-1e-9 || truth > s.AtMost+1e-9 {
				t.Errorf("seed %d: top: %v begins %.1f a second with all, between %.1f and %.1f are claimed", seed, s.Prefix, truth, s.AtLeast, s.AtMost)
			}
		}
		for p, truth := range w.truth {
			if truth > 1.25*limit && !found[p] {
				t.Errorf("seed %d: top does not name %v with %.1f", seed, p, truth)
			}
		}
	}
}

// One that lies can neither have an innocent named by a fleet that wants the word of two, nor silence the others, and what it cannot have counted is refused.
func TestLiesOfSources(t *testing.T) {
	const limit = 20.0
	w := newSourceWorld(7, 30, 300, 2)
	before := w.round(limit, nil)
	innocent := netip.MustParsePrefix("203.0.1.40/32")
	if w.truth[innocent] > limit/2 || len(before) < 5 {
		t.Fatalf("the test shows nothing: %v, %d are named", w.truth[innocent], len(before))
	}
	lie := &SourceSummary{List: []SourceRate{{innocent, 1e8}}}
	for p := range before {
		lie.List = append(lie.List, SourceRate{p, 1e8})
	}
	if !lie.valid(maxClaimedSources) {
		t.Fatal("the lie is not heard")
	}
	after := newSourceWorld(7, 30, 300, 2).round(limit, map[string]*SourceSummary{"aaa": lie})
	if len(after[innocent]) > 0 {
		t.Errorf("an innocent source is named: %+v", after[innocent])
	}
	for p := range before {
		if len(after[p]) == 0 {
			t.Errorf("a lie has silenced what is known of %v", p)
		}
	}
	alone := newSourceWorld(7, 30, 300, 1).round(limit, map[string]*SourceSummary{"aaa": lie})
	if len(alone[innocent]) > 0 {
		t.Errorf("where the word of one suffices, the liar's is that of a node that says so itself: %+v", alone[innocent])
	}
	for _, wrong := range []*SourceSummary{{List: []SourceRate{{innocent, math.Inf(1)}}}, {List: []SourceRate{{innocent, -1}}}, {List: []SourceRate{{netip.MustParsePrefix("203.0.1.40/24"), 1}}},
		{List: make([]SourceRate, maxClaimedSources+1)}, {Unlisted: math.NaN()}, {Unlisted: -1}} {
		if wrong.valid(maxClaimedSources) {
			t.Errorf("%+v is taken", wrong)
		}
	}
}

// Without a limit nothing is told; what was told expires; and a source is the matter of one that has it.
func TestSourcesAreForgotten(t *testing.T) {
	p, now := netip.MustParsePrefix("203.0.113.7/32"), time.Unix(1000, 0)
	w := &sourceWatch{node: "gate1", quorum: 1}
	if w.step(0, map[netip.Prefix]float64{p: 100}, now); w.tell(1) != nil || w.report() != nil {
		t.Error("told, and nobody asks")
	}
	w.hear("gate2", &SourceSummary{List: []SourceRate{{p, 8}}}, now.Add(5*time.Second))
	if got := w.step(15, map[netip.Prefix]float64{p: 9}, now); len(got) != 1 || got[0].AtLeast != 17 || len(got[0].Nodes) != 2 {
		t.Errorf("%+v", got)
	}
	if got := w.step(15, nil, now); len(got) != 0 {
		t.Errorf("not seen here: %+v", got)
	}
	if got := w.step(15, map[netip.Prefix]float64{p: 9}, now.Add(6*time.Second)); len(got) != 0 {
		t.Errorf("what was told is outdated: %+v", got)
	}
}
