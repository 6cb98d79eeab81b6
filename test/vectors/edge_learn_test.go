// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

// What passes an edge within its allowance never makes its flow known: otherwise a forger that repeats one segment
// would get everything after it through, whatever the allowance is.
func TestEdgeLearnsNothingOfForgers(t *testing.T) {
	needRoot(t)
	const n = 20 * 256 // one in 256 was learned: with all of these, none with a chance of 2 in 10^9
	all := load(t, dir+"/edge")
	i := slices.IndexFunc(all, func(v vectors.Vector) bool { return v.Name == "flood-ack-v4" })
	if i < 0 {
		t.Fatal("the vector flood-ack-v4 is gone")
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
			known, unknown := counted[schema.CounterEdgeKnown], counted[schema.CounterEdgeUnknown]
			if known != 0 || unknown != n {
				t.Errorf("smartcookie %v: %d of %d segments of a flow that nobody has verified were of a known one", smart, known, n)
			}
		}
	}
}
