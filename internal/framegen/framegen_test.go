// SPDX-License-Identifier: Apache-2.0

package framegen

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

func testNetwork() Network {
	return Network{SourceMAC: [6]byte{2, 1}, GateMAC: [6]byte{2, 2}, Port: 80,
		Service: [2]netip.Addr{netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8::7")},
		Clients: [2]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:1::/64")},
		OnLink:  [2]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/64")}}
}

// TestSameSeedSameFrames: a failure can be reproduced.
func TestSameSeedSameFrames(t *testing.T) {
	a, b, other := New(testNetwork(), 7), New(testNetwork(), 7), New(testNetwork(), 8)
	differs := false
	for i := range 10_000 {
		x, y := a.SYNFrom(uint16(1024+i)), b.SYNFrom(uint16(1024+i))
		if !bytes.Equal(x.Bytes, y.Bytes) || x.Traits != y.Traits {
			t.Fatalf("frame %d differs", i)
		}
		differs = differs || !bytes.Equal(x.Bytes, other.SYNFrom(uint16(1024+i)).Bytes)
	}
	if !differs {
		t.Error("another seed gives the same frames")
	}
}

// TestEveryTraitIsDrawn: every fault occurs, and one that was requested
// and applies to the frame is in it.
func TestEveryTraitIsDrawn(t *testing.T) {
	g := New(testNetwork(), 1)
	var seen Trait
	plain := 0
	for range 50_000 {
		f := g.SYNFrom(4000)
		seen |= f.Traits
		if f.Traits == 0 {
			plain++
		}
	}
	if want := Trait(1<<asked-1) &^ Port0; seen&want != want {
		t.Errorf("never drawn: %v", want&^seen)
	}
	if plain < 1000 {
		t.Errorf("only %d of 50,000 frames are plain", plain)
	}
}

// TestChecksumOfAPlainFrame against one computed by hand (RFC 1071): the sum over
// pseudo-header and segment, including the checksum, is all ones.
func TestChecksumOfAPlainFrame(t *testing.T) {
	g := New(testNetwork(), 3)
	for range 1000 {
		f := g.Plain(Segment{Flags: flagSYN})
		ip := f.Bytes[14:]
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		if fold(sum) != 0xffff {
			t.Fatalf("IPv4 header checksum is wrong: %x", f.Bytes)
		}
		tcp := ip[20:]
		sum = 6 + uint32(len(tcp))
		for i := 12; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		for i := 0; i < len(tcp); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(tcp[i:]))
		}
		if fold(sum) != 0xffff {
			t.Fatalf("TCP checksum is wrong: %x", f.Bytes)
		}
		tcp = slices.Clone(tcp) // the next frame stands in the same buffer
		f = g.Build(Segment{Flags: flagSYN}, Checksum)
		if bytes.Equal(f.Bytes[14+20:], tcp) || f.Traits != Checksum {
			t.Fatalf("a wrong checksum was asked for: %v", f.Traits)
		}
	}
}

func fold(sum uint32) uint32 {
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return sum
}
