// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

// TestServerPaths sends mutated segments to two servers' TC programs, to one with a VLAN tag, so that it
// takes the slow path where the other takes the fast one: verdict and counters must be the same.
func TestServerPaths(t *testing.T) {
	needRoot(t)
	fast, slow := newKernelGate(t), newKernelGate(t)
	fast.ns.close()
	slow.ns.close()
	all := load(t, dir)
	world := lookupWorld(t, all)
	world.Socket = vectors.SocketNone
	var frames [][]byte
	for _, v := range all {
		for _, p := range v.Packets {
			if len(p.In) > 53 && (v.Adopts() || p.Verdict == vectors.Pass) {
				frames = append(frames, p.In)
			}
		}
	}
	random := rand.New(rand.NewPCG(differentialSeed, 3))
	rets, counted := map[int32]int{}, map[string]uint64{}
	for n := range differentialFrames {
		if n%countersEvery == 0 {
			compareServers(t, fast, slow, counted)
			prepareServers(t, fast, slow, world, n/countersEvery)
		}
		in := mutate(random, frames[random.IntN(len(frames))])
		if len(in) < ethernetHeaderLen || (in[12] != 8 && in[12] != 0x86) {
			continue
		}
		ret, out, err := run(fast.tc, in)
		if errors.Is(err, unix.EINVAL) && len(in) < ethernetHeaderLen+ipv6HeaderLen {
			continue // no whole IP header: no test packet either
		}
		if err != nil {
			t.Fatal(err)
		}
		tagged := append(append(append([]byte{}, in[:12]...), 0x81, 0, 0, 7), in[12:]...)
		want, wanted, err := run(slow.tc, tagged)
		if err != nil {
			t.Fatal(err)
		}
		if ret != want || string(out) != string(in) || string(wanted) != string(tagged) {
			t.Fatalf("frame %d, %x: %d the fast path, %d the slow one", n, in, int32(ret), int32(want))
		}
		rets[int32(ret)]++
	}
	compareServers(t, fast, slow, counted)
	t.Logf("%v, %v", rets, counted)
	for _, name := range []string{"drop_last_line", "cookie_invalid", "cookie_stale", "ack_no_listener"} {
		if counted[name] == 0 {
			t.Errorf("%s was never counted: the mix does not test it", name)
		}
	}
}

// prepareServers: in turn the final ACK check, connections that may be alive, no keys (which passes, or drops), a
// server that tolerates clocks a whole epoch apart, and the host role.
func prepareServers(t *testing.T, fast, slow *kernelGate, world vectors.Vector, turn int) {
	t.Helper()
	switch turn %= 6; turn {
	case 1:
		world.Filter = vectors.FilterMaybe
	case 3:
		world.StaleKeys = "drop"
		fallthrough
	case 2:
		world.Keys = nil
	}
	for _, g := range []*kernelGate{fast, slow} {
		if err := g.Prepare(&world); err != nil {
			t.Fatal(err)
		}
		var s plane.Settings
		if err := g.p.Map("tg_settings").Lookup(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		if turn != 5 {
			s.LastLine, s.BehindEdge = 1, 1
		}
		if turn == 4 {
			s.FourEpochs = 1
		}
		if err := g.p.SetSettings(&s); err != nil {
			t.Fatal(err)
		}
	}
}

func compareServers(t *testing.T, fast, slow *kernelGate, counted map[string]uint64) {
	t.Helper()
	for id := range fast.used {
		a, err1 := plane.ReadCounters(fast.p.Map("tg_counters"), id)
		b, err2 := plane.ReadCounters(slow.p.Map("tg_counters"), id)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		was := schema.Map(b)
		// Without a listener nothing is adopted; from a frame with a tag nothing could be.
		was["ack_no_listener"] += was["ack_frame"]
		was["ack_frame"] = 0
		for name, n := range schema.Map(a) {
			if n > 0 {
				counted[name] += n
			}
			if was[name] != n {
				t.Errorf("service %d, %s: %d the fast path, %d the slow one", id, name, n, was[name])
			}
		}
	}
}
