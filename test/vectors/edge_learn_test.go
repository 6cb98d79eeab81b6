// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

// What passes an edge within its allowance never makes its flow known: otherwise a forger that repeats one segment
// would get everything after it through, whatever the allowance is. Nor does what an idle edge (mode monitor) forwards,
// as it forwards everything: a flood from before it is switched on would pass afterwards.
func TestEdgeLearnsNothingOfForgers(t *testing.T) {
	needRoot(t)
	for name, counter := range map[string]schema.Counter{
		"flood-ack-v4": schema.CounterEdgeUnknown, "flood-ack-v6": schema.CounterEdgeUnknown,
		"monitored-ack-v4": schema.CounterWouldDrop, "monitored-ack-v6": schema.CounterWouldDrop,
	} {
		t.Run(name, func(t *testing.T) { learnsNothingOf(t, name, counter) })
	}
}

// learnsNothingOf repeats a vector's segment; `counter` is what each is counted as.
func learnsNothingOf(t *testing.T, name string, counter schema.Counter) {
	const n = 20 * 256 // one in 256 was learned: with all of these, none with a chance of 2 in 10^9
	all := load(t, filepath.Join(dir, "edge"))
	i := slices.IndexFunc(all, func(v vectors.Vector) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("the vector %s is gone", name)
	}
	v := all[i]
	frame := []byte(v.Packets[0].In)
	tagged := slices.Insert(slices.Clone(frame), 12, 0x81, 0, 0, 7)
	for _, smart := range []bool{false, true} {
		g := newEdgeGate(t, smart)
		for _, way := range [][]byte{frame, tagged} { // the fast path and the slow one
			if err := g.Prepare(&v); err != nil {
				t.Fatal(err)
			}
			ret, err := g.xdp.Run(&ebpf.RunOptions{Data: way, DataOut: make([]byte, len(way)+256), Repeat: n})
			if err != nil || ret != 4 {
				t.Fatalf("verdict %d, %v", ret, err)
			}
			counted, err := plane.ReadCounters(g.p.Map("tg_counters"), 1)
			if err != nil {
				t.Fatal(err)
			}
			known, unknown := counted[schema.CounterEdgeKnown], counted[counter]
			if known != 0 || unknown != n {
				t.Errorf("smartcookie %v: %d of %d segments of a flow that nobody has verified were of a known one, %d counted as they should be", smart, known, n, unknown)
			}
		}
	}
}
