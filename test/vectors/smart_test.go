// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

// smartGate is the edge's program with the layout smartcookie: it replays on XDP what the P4 switch
// replays (test/p4). The bytes are the same, so that each can serve the other's
// servers.
type smartGate struct{ *edgeGate }

func (g *smartGate) Prepare(v *vectors.Vector) error {
	if err := g.edgeGate.Prepare(v); err != nil {
		return err
	}
	secret := keys.Secret(v.Secret)
	for _, n := range v.Keys {
		var key [keys.EpochKeyLen]byte
		half := secret.SmartKey(n)
		copy(key[:], half[:])
		if err := g.p.PutKey(n, key); err != nil {
			return err
		}
	}
	// Unknown packets of a vector's edge are dropped.
	own := edgeSettings(plane.AllowNone)
	own.Hops = v.Hops
	return g.p.SetEdge(own)
}

func (g *smartGate) Packet(in []byte) (vectors.Result, error) {
	if len(in) < ethernetHeaderLen { // the kernel refuses to make a test frame of it
		return vectors.Result{Verdict: vectors.Pass, Out: in}, nil
	}
	ret, out, err := run(g.xdp, in)
	verdict, known := map[uint32]vectors.Verdict{1: vectors.Drop, 2: vectors.Pass, 3: vectors.TX, 4: vectors.Pass}[ret]
	if err == nil && !known {
		err = fmt.Errorf("XDP returned %d", ret)
	}
	return vectors.Result{Verdict: verdict, Out: out}, err
}

// Counters are all that the vectors know; a switch counts no packets of known flows.
func (g *smartGate) Counters() (vectors.Counters, error) {
	c := vectors.Counters{}
	for id := range g.used {
		sum, err := plane.ReadCounters(g.p.Map("tg_counters"), id)
		if err != nil {
			return nil, err
		}
		for name, n := range schema.Map(sum) {
			if n == 0 || name == "edge_refreshed" {
				continue
			}
			if c[id] == nil {
				c[id] = map[string]uint64{}
			}
			c[id][name] = n
		}
	}
	return c, nil
}

func TestSmartEdge(t *testing.T) {
	needRoot(t)
	edge := newEdgeGate(t, true)
	g := &smartGate{edge}
	all := load(t, filepath.Join(dir, "edge"))
	wrong := all[0]
	wrong.Counters = vectors.Counters{1: {"syn": 77}}
	if d, err := vectors.Replay(g, &wrong); err != nil || len(d) == 0 {
		t.Errorf("a wrong vector passed: %v, %v", d, err)
	}
	n := replayAll(t, g, all, every)
	t.Logf("%d vectors", n)
	if n < 300 {
		t.Errorf("only %d vectors; there were more", n)
	}
}
