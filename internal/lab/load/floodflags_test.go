// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"testing"

	"tidegate/internal/lab/rig"
)

// Bare RSTs and ACKs are complete frames, and only the ACKs have an acknowledgment number.
func TestFloodFlags(t *testing.T) {
	needRoot(t)
	p, err := rig.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, flags := range []TCPFlags{FlagRST, FlagACK} {
		f, err := NewFlood(p.Near, p.Far, FloodOptions{Target: rig.ServiceAddr(false), Flags: flags, CPU: -1})
		if err != nil {
			t.Fatal(err)
		}
		frames := capture(t, p.Far, func() {
			if _, err := f.Burst(200); err != nil {
				t.Error(err)
			}
		})
		f.Close()
		if len(frames) < 100 {
			t.Fatalf("%d frames of 200 arrived", len(frames))
		}
		for _, frame := range frames {
			s, ok := parseIP4(frame[14:])
			sum := binary.BigEndian.Uint16(s.Header[16:])
			if !ok || s.Flags != flags || len(s.Options) != 0 || (s.Ack != 0) != (flags == FlagACK) || s.Dst != rig.ServiceAddr(false) {
				t.Fatalf("%+v", s)
			}
			made := s.ip4()
			if got := binary.BigEndian.Uint16(made[36:]); got != sum {
				t.Fatalf("checksum %#x, want %#x", sum, got)
			}
		}
	}
}
