// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidegate/internal/vectors"
)

const (
	differentialFrames = 20_000
	differentialLimit  = 60 * time.Second // far more than it takes; a slow machine stops early and says so
	differentialSeed   = 4987
	countersEvery      = 500
)

// TestDifferential puts mutated frames through core/ natively and through the
// XDP and TC programs: verdict, bytes and counters must be the same. What a frame
// ought to get is not asked here; that is what the vectors are for. Nobody
// listens, so that a genuine cookie is counted and not adopted.
func TestDifferential(t *testing.T) {
	needRoot(t)
	native, kernel := newNativeGate(t), newKernelGate(t)
	kernel.ns.close()
	all := load(t, dir)
	world := lookupWorld(t, all)
	world.Socket = vectors.SocketNone
	var frames [][]byte
	for _, v := range all {
		for _, p := range v.Packets {
			frames = append(frames, p.In)
		}
	}
	random := rand.New(rand.NewPCG(differentialSeed, 0))
	verdicts, counted := map[vectors.Verdict]int{}, map[string]uint64{}
	start := time.Now()
	for n := range differentialFrames {
		if time.Since(start) > differentialLimit {
			t.Fatalf("only %d frames in %v", n, differentialLimit)
		}
		if n%countersEvery == 0 { // the kernel's clock runs on: return to the middle of the epoch
			compareAllCounters(t, native, kernel, counted)
			prepareBoth(t, native, kernel, &world)
		}
		in := mutate(random, frames[random.IntN(len(frames))])
		want, err := native.Packet(in)
		if err != nil {
			t.Fatalf("frame %d, %x: %v", n, in, err)
		}
		got, err := kernel.Packet(in)
		if err != nil {
			t.Fatalf("frame %d, %x: %v", n, in, err)
		}
		verdicts[want.Verdict]++
		if d := vectors.Differences(want, got); len(d) > 0 {
			t.Fatalf("frame %d, %x: the programs differ from core/: %v", n, in, d)
		}
		if want.Verdict == vectors.Pass && !slices.Equal(got.Out, in) {
			t.Fatalf("frame %d, %x: passed, but changed", n, in)
		}
	}
	compareAllCounters(t, native, kernel, counted)
	t.Logf("%d frames in %v: %v, %v", differentialFrames, time.Since(start).Round(time.Millisecond), verdicts, counted)
	for _, v := range []vectors.Verdict{vectors.Pass, vectors.Drop, vectors.TX} {
		if verdicts[v] < differentialFrames/50 {
			t.Errorf("only %d frames got %s: the mix does not test it", verdicts[v], v)
		}
	}
	for _, name := range []string{"cookie_sent", "ack_no_listener", "cookie_invalid", "drop_malformed", "drop_flags"} {
		if counted[name] == 0 {
			t.Errorf("%s was never counted: the mix does not test it", name)
		}
	}
}

func prepareBoth(t *testing.T, a, b vectors.Gate, v *vectors.Vector) {
	t.Helper()
	for _, g := range []vectors.Gate{a, b} {
		if err := g.Prepare(v); err != nil {
			t.Fatal(err)
		}
	}
}

// lookupWorld is the vector whose services are the most varied.
func lookupWorld(t *testing.T, all []vectors.Vector) vectors.Vector {
	t.Helper()
	for _, v := range all {
		if v.Name == "lookup-host-route-v4" {
			return v
		}
	}
	t.Fatal("the vector lookup-host-route-v4 is gone")
	return vectors.Vector{}
}

// compareAllCounters also adds what was counted to sum.
func compareAllCounters(t *testing.T, a, b vectors.Gate, sum map[string]uint64) {
	t.Helper()
	want, err := a.Counters()
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if d := vectors.CounterDifferences(want, got); len(d) > 0 {
		t.Fatalf("the programs count otherwise than core/: %v", d)
	}
	for _, row := range want {
		for name, n := range row {
			sum[name] += n
		}
	}
}

// mutate changes some bytes, most often in the headers, or the length. The
// kernel makes test frames only of at least an Ethernet header.
func mutate(r *rand.Rand, frame []byte) []byte {
	out := slices.Clone(frame)
	for len(out) < ethernetHeaderLen {
		out = append(out, byte(r.Uint32()))
	}
	for range r.IntN(4) {
		at := r.IntN(len(out))
		if r.IntN(3) > 0 { // from the ethertype to the TCP options
			at = min(len(out)-1, 12+r.IntN(70))
		}
		switch r.IntN(3) {
		case 0:
			out[at] = byte(r.Uint32())
		case 1:
			out[at] ^= 1 << r.IntN(8)
		default:
			out[at] = []byte{0, 1, 6, 0x45, 0x60, 0x81, 0xff}[r.IntN(7)]
		}
	}
	switch r.IntN(12) {
	case 0:
		out = out[:ethernetHeaderLen+r.IntN(len(out)-ethernetHeaderLen+1)]
	case 1:
		for range r.IntN(64) {
			out = append(out, byte(r.Uint32()))
		}
	}
	return out
}

// TestDifferentialFindsDifferences is the canary: two planes that differ in one
// setting must be told apart.
func TestDifferentialFindsDifferences(t *testing.T) {
	needRoot(t)
	native, kernel := newNativeGate(t), newKernelGate(t)
	world := lookupWorld(t, load(t, dir))
	if err := kernel.Prepare(&world); err != nil {
		t.Fatal(err)
	}
	epoch := *world.Epoch + 1
	world.Epoch, world.Keys = &epoch, []uint64{epoch}
	if err := native.Prepare(&world); err != nil {
		t.Fatal(err)
	}
	want, err := native.Packet(world.Packets[0].In)
	if err != nil {
		t.Fatal(err)
	}
	got, err := kernel.Packet(world.Packets[0].In)
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors.Differences(want, got)) == 0 {
		t.Error("cookies of two epochs are the same")
	}
}
