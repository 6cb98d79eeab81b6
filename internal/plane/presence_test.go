// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"math"
	"os"
	"testing"
)

// smallProxy is a proxy's programs with small tables.
func smallProxy(t *testing.T) *Proxy {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it loads BPF programs")
	}
	p, err := LoadProxy(ProxyOptions{Options: Options{KeySlots: 4}, Flows: 1024, Sources: 1024, Halves: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A swap clears the bits of the generation that begins, of its own table, and no other's.
func TestSwapClearsPresenceOfOneGeneration(t *testing.T) {
	p := smallProxy(t)
	if err := p.allPresent(); err != nil {
		t.Fatal(err)
	}
	want := [2][2]uint64{{math.MaxUint64, math.MaxUint64}, {math.MaxUint64, math.MaxUint64}}
	m := p.Map(VarPresence)
	check := func(step string) {
		t.Helper()
		for table := range want {
			for _, word := range []uint32{0, 1, presenceWords / 2, presenceWords - 1} {
				for what, at := range map[string]uint32{"word": uint32(table)*presenceWords + word,
					"front's word": presenceTables*presenceWords + uint32(table)*presenceFront + word*presenceFront/presenceWords} {
					pair, err := entry[[2]uint64](m, at)
					if err != nil {
						t.Fatal(err)
					}
					if pair != want[table] {
						t.Errorf("%s: table %d, %s %d: %x, want %x", step, table, what, word, pair, want[table])
					}
				}
			}
		}
	}
	if all := uint32(presenceTables * (presenceWords + presenceFront)); m.ValueSize() != 16*all {
		t.Errorf("%d bytes, want %d pairs", m.ValueSize(), all)
	}
	check("at first")
	for _, s := range []struct {
		step  string
		swap  func() error
		table int
		gen   *uint8
	}{{"flows", p.SwapFlows, presenceFlows, &p.own.FlowsGen}, {"sources", p.SwapSources, presenceSources, &p.own.SourcesGen},
		{"flows again", p.SwapFlows, presenceFlows, &p.own.FlowsGen}} {
		if err := s.swap(); err != nil {
			t.Fatal(err)
		}
		want[s.table][*s.gen&1] = 0
		check(s.step)
	}
}
