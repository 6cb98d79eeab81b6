// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// halfSip is HalfSipHash-2-4 of little-endian words, the last of which has the length.
func halfSip(k0, k1 uint32, words ...uint32) uint32 {
	v := [4]uint32{k0, k1, k0 ^ 0x6c796765, k1 ^ 0x74656462}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[1] = bits.RotateLeft32(v[1], 5) ^ v[0]
			v[0] = bits.RotateLeft32(v[0], 16)
			v[2] += v[3]
			v[3] = bits.RotateLeft32(v[3], 8) ^ v[2]
			v[0] += v[3]
			v[3] = bits.RotateLeft32(v[3], 7) ^ v[0]
			v[2] += v[1]
			v[1] = bits.RotateLeft32(v[1], 13) ^ v[2]
			v[2] = bits.RotateLeft32(v[2], 16)
		}
	}
	for _, w := range words {
		v[3] ^= w
		rounds(2)
		v[0] ^= w
	}
	v[2] ^= 0xff
	rounds(4)
	return v[1] ^ v[3]
}

// TestTofinoPasses runs the Tofino edge's schedule (p4/tna/passes.p4: which round in
// which half of which pass, what is absorbed in between) on bmv2, all passes in a row, and
// compares the result of the last ingress: with the authors' published answer, as in
// TestHalfSipHashKnownAnswer, and for random messages. What the Tofino back end makes of
// the same file cannot be run here.
func TestTofinoPasses(t *testing.T) {
	if got := halfSip(0x03020100, 0x07060504, 0x03020100, 0x07060504, 0x0b0a0908, 15<<24|0x0e0d0c); got != 0x972bfe74 {
		t.Fatalf("the test's own HalfSipHash says %08x", got)
	}
	t.Run("tofino", func(t *testing.T) { replayPasses(t, "../../p4/v1model/passes.p4") })
	t.Run("tofino2", func(t *testing.T) { replayPasses(t, "../../p4/v1model/passes2.p4") })
}

func replayPasses(t *testing.T, program string) {
	b := newBench(t, program)
	random := rand.New(rand.NewPCG(8, 4)) // messages, not secrets
	var frames [][]byte
	var want []uint32
	for i := range 64 {
		k0, k1 := random.Uint32(), random.Uint32()
		words := []uint32{random.Uint32(), random.Uint32(), random.Uint32(), 15<<24 | random.Uint32()&0xffffff}
		initial := random.Uint32() // all 32 bits: the upper 8 pass through unchanged
		if i == 0 {
			k0, k1, initial = 0x03020100, 0x07060504, 0
			words = []uint32{0x03020100, 0x07060504, 0x0b0a0908, 15<<24 | 0x0e0d0c}
		}
		frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}
		for _, w := range append(words, initial, 0, k0, k1, k0^0x6c796765, k1^0x74656462) {
			frame = binary.BigEndian.AppendUint32(frame, w)
		}
		frames = append(frames, frame)
		want = append(want, initial^halfSip(k0, k1, words...)&0xffffff)
	}
	for i, f := range frames {
		if err := b.outside.send(f); err != nil {
			t.Fatal(err)
		}
		back, err := b.outside.receive()
		if err != nil {
			t.Fatal(err)
		}
		const shown = 14 + 5*4
		if len(back) < shown+4 {
			t.Fatalf("message %d: %d bytes came back", i, len(back))
		}
		if got := binary.BigEndian.Uint32(back[shown:]); got != want[i] {
			t.Fatalf("message %d: the passes say %08x, want %08x", i, got, want[i])
		}
	}
}
