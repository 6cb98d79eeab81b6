// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

const edgeFrames = 20_000

// TestEdgePaths sends mutated segments to two edges, to one with a VLAN tag, so that it takes
// the slow path where the other takes the fast one: verdict, bytes and counters must be
// the same, whatever the edge does with what it does not know.
func TestEdgePaths(t *testing.T) {
	needRoot(t)
	for name, smart := range map[string]bool{"tidegate": false, "smartcookie": true} {
		t.Run(name, func(t *testing.T) { edgePaths(t, smart) })
	}
}

func edgePaths(t *testing.T, smart bool) {
	all := load(t, dir)
	world := lookupWorld(t, all)
	var frames [][]byte
	for _, v := range all {
		for _, p := range v.Packets {
			if len(p.In) > 47 && (v.Adopts() || p.Verdict == vectors.Pass) {
				frames = append(frames, p.In)
			}
		}
	}
	fast, slow := newEdgeGate(t, smart), newEdgeGate(t, smart)
	random := rand.New(rand.NewPCG(differentialSeed, 1))
	rets, counted := map[uint32]int{}, map[string]uint64{}
	for n := range edgeFrames {
		if n%countersEvery == 0 {
			comparePaths(t, fast, slow, counted)
			preparePaths(t, fast, slow, world, n/countersEvery)
		}
		in := mutate(random, frames[random.IntN(len(frames))])
		if len(in) < ethernetHeaderLen || (in[12] != 8 && in[12] != 0x86) {
			continue
		}
		tagged := append(append(append([]byte{}, in[:12]...), 0x81, 0, 0, 7), in[12:]...)
		ret, out, err := run(fast.xdp, in)
		if err != nil {
			t.Fatal(err)
		}
		want, wanted, err := run(slow.xdp, tagged)
		if err != nil {
			t.Fatal(err)
		}
		if ret == 3 && want == 3 { // an answered SYN: TestEdge's
			rets[ret]++
			continue
		}
		wanted = append(append([]byte{}, wanted[:12]...), wanted[16:]...)
		if ret != want || !bytes.Equal(out, wanted) {
			t.Fatalf("frame %d, %x:\nshort %d %x\nlong  %d %x", n, in, ret, out, want, wanted)
		}
		rets[ret]++
		if ret == 4 && n/countersEvery%5 != 0 { // one in 256 of these is learned by chance
			forget(t, fast, slow)
		}
	}
	comparePaths(t, fast, slow, counted)
	t.Logf("%v, %v", rets, counted)
	must := []string{"edge_unknown", "drop_ack", "drop_rst", "drop_fin", "drop_stray", "drop_synack", "drop_hops", "pass_no_key", "edge_learning"}
	if !smart {
		must = append(must, "cookie_valid", "edge_known")
	}
	for _, name := range must {
		if counted[name] == 0 {
			t.Errorf("%s was never counted: the mix does not test it", name)
		}
	}
}

// preparePaths: in turn nothing unknown passes, everything does, there are no keys,
// the filter is new, and clocks may be a whole epoch apart.
func preparePaths(t *testing.T, fast, slow *edgeGate, world vectors.Vector, turn int) {
	t.Helper()
	own := edgeSettings(plane.AllowNone)
	own.Hops = uint8(turn / 5 % 2 * 60)
	switch turn % 5 {
	case 1:
		own.UnknownCostNs = plane.AllowAll
	case 2:
		world.Keys = nil
	case 3:
		own.LearningUntilNs = math.MaxUint64
	}
	for _, g := range []*edgeGate{fast, slow} {
		if err := g.Prepare(&world); err != nil {
			t.Fatal(err)
		}
		var s plane.Settings
		if err := g.p.Map("tg_settings").Lookup(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		s.FourEpochs = uint8(turn % 5 / 4)
		if err := errors.Join(g.p.SetSettings(&s), g.p.SetEdge(own)); err != nil {
			t.Fatal(err)
		}
	}
}

// forget empties the filters.
func forget(t *testing.T, gates ...*edgeGate) {
	t.Helper()
	for _, g := range gates {
		for range plane.BloomGenerations {
			if err := g.p.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func comparePaths(t *testing.T, fast, slow *edgeGate, counted map[string]uint64) {
	t.Helper()
	for id := range fast.used {
		var sums [2]map[string]uint64
		for i, g := range []*edgeGate{fast, slow} {
			sum, err := plane.ReadCounters(g.p.Map("tg_counters"), id)
			if err != nil {
				t.Fatal(err)
			}
			sums[i] = schema.Map(sum)
			for name, n := range sums[i] {
				if n > 0 {
					counted[name] += n
				}
			}
			delete(sums[i], "edge_refreshed") // that chance
		}
		for name, n := range sums[0] {
			if sums[1][name] != n {
				t.Errorf("service %d, %s: %d the fast path, %d the slow one", id, name, n, sums[1][name])
			}
		}
	}
}

// edgeSettings has a filter key that tells flows apart.
func edgeSettings(unknownCost uint64) plane.EdgeSettings {
	random := rand.New(rand.NewPCG(differentialSeed, 2))
	s := plane.EdgeSettings{UnknownCostNs: unknownCost}
	for i := range s.BloomKey.K {
		for j := range s.BloomKey.K[i] {
			s.BloomKey.K[i][j] = random.Uint64()
		}
	}
	return s
}
