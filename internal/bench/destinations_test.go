// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane"
	"tidegate/internal/plane/hostbpf"
)

// stateGate is a gate that answers SYNs on this CPU alone, in an epoch that the test sets.
type stateGate struct {
	*testing.T
	p    *plane.Plane
	prog *ebpf.Program
	in   uint64 // the epoch
	with [16]byte
}

func newStateGate(t *testing.T) *stateGate {
	needRoot(t)
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	p, err := newGate(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	})
	prog, _ := p.Programs()
	return &stateGate{T: t, p: p, prog: prog}
}

// epoch makes it this epoch for a century, with that key.
func (g *stateGate) epoch(n uint64, key [16]byte) {
	g.Helper()
	if g.in == n && g.with == key {
		return // else what is kept is out of date
	}
	g.in, g.with = n, key
	settings := g.p.Map(plane.VarSettings)
	var s plane.Settings
	if err := settings.Lookup(uint32(0), &s); err != nil {
		g.Fatal(err)
	}
	s.EpochLenNs = 1 << 61
	s.WallMinusMonoNs = n<<61 - uint64(plane.MonotonicNs()) + 1<<60
	s.EpochNear = n
	if err := settings.Put(uint32(0), s); err != nil {
		g.Fatal(err)
	}
	if err := g.p.PutKey(n, key); err != nil {
		g.Fatal(err)
	}
}

func (g *stateGate) answer(syn []byte) []byte {
	g.Helper()
	action, out, err := g.prog.Test(slices.Clone(syn))
	if err != nil {
		g.Fatal(err)
	}
	if action != 3 { // XDP_TX
		g.Fatalf("the SYN was not answered: action %d", action)
	}
	return out
}

// forget empties every CPU's table.
func (g *stateGate) forget() {
	g.Helper()
	states := g.p.Map(hostbpf.HostXdpMapTgDestinations)
	empty := make([][]byte, ebpf.MustPossibleCPU())
	for cpu := range empty {
		empty[cpu] = make([]byte, states.ValueSize())
	}
	for i := range states.MaxEntries() {
		if err := states.Put(i, empty); err != nil {
			g.Fatal(err)
		}
	}
}

// kept is the number of this CPU's entries.
func (g *stateGate) kept() (n int) {
	g.Helper()
	states := g.p.Map(hostbpf.HostXdpMapTgDestinations)
	for i := range states.MaxEntries() {
		var each [][]byte
		if err := states.Lookup(i, &each); err != nil {
			g.Fatal(err)
		}
		for _, entry := range each {
			if !bytes.Equal(entry, make([]byte, len(entry))) {
				n++
			}
		}
	}
	return n
}

// stateStep is a SYN in an epoch with a key.
type stateStep struct {
	what  string
	epoch uint64
	key   [16]byte
	syn   []byte
}

// synTo is a SYN to an address, as on the wire.
func synTo(kind string, dst []byte) []byte {
	frame := synFrame(kind, nil)
	copy(frame[map[int]int{4: 30, 16: 38}[len(dst)]:], dst)
	putSums(frame)
	return frame
}

// What a CPU keeps of one hash never serves another: another key, be it of the same epoch, another epoch or another address.
func TestKeptStatesAreOfOneKeyAndAddress(t *testing.T) {
	g := newStateGate(t)
	v4, v6 := []byte{198, 18, 0, 80}, slices.Concat([]byte{0xfd, 0x7d, 0x74, 0x67}, make([]byte, 11), []byte{0x80})
	// The IPv6 address whose words are those of the IPv4 message in epoch 4.
	same := slices.Concat(v4, []byte{4, 0, 0, 0}, make([]byte, 8))
	key := [16]byte{1, 15: 2}
	first, second := key, key
	first[0]++
	second[15]++
	steps := []stateStep{
		{"IPv4", 4, key, synTo("v4-ts", v4)},
		{"IPv4, the key's second half differs", 4, second, synTo("v4-ts", v4)},
		{"IPv4, the key's first half differs", 4, first, synTo("v4-ts", v4)},
		{"IPv4, the next epoch with the same key", 5, first, synTo("v4-ts", v4)},
		{"IPv4 again", 4, key, synTo("v4", v4)},
		{"IPv6, the same words", 4, key, synTo("v6-ts", same)},
		{"IPv6", 4, key, synTo("v6-ts", v6)},
		{"IPv6, the key's second half differs", 4, second, synTo("v6", v6)},
		{"IPv6, the key's first half differs", 4, first, synTo("v6", v6)},
		{"IPv6, the next epoch with the same key", 5, first, synTo("v6", v6)},
	}
	for host := range 300 { // more than there are places
		syn := synTo("v4-ts", []byte{198, 18, byte(host >> 8), byte(host)})
		low := binary.BigEndian.AppendUint64(nil, uint64(host))
		steps = append(steps, stateStep{fmt.Sprint("IPv4, host ", host), 4, key, syn})
		for what, dst := range map[string][]byte{"low": slices.Concat(v6[:8], low), "high": slices.Concat([]byte{0xfd}, low[1:], v6[8:])} {
			steps = append(steps, stateStep{fmt.Sprint("IPv6, host ", host, " ", what), 4, key, synTo("v6-ts", dst)})
		}
	}
	g.forget()
	var warm [][]byte
	for _, s := range steps {
		g.epoch(s.epoch, s.key)
		warm = append(warm, g.answer(s.syn))
	}
	if n := g.kept(); n < 400 {
		t.Errorf("%d states are kept of more than 900 addresses; at least 400 of 1024 wanted", n)
	}
	for i, s := range steps {
		if i >= 10 && i < len(steps)-40 {
			continue // the last ones find the most in their places
		}
		g.epoch(s.epoch, s.key)
		g.forget()
		cold := g.answer(s.syn)
		if !bytes.Equal(warm[i], cold) {
			t.Errorf("%s: with what was kept\n%x\nwithout\n%x", s.what, warm[i], cold)
		}
		if again := g.answer(s.syn); !bytes.Equal(again, cold) {
			t.Errorf("%s: the second answer\n%x\nis not the first\n%x", s.what, again, cold)
		}
	}
}
