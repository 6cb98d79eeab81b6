// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"tidegate/internal/p4/simpleswitch"
	"tidegate/internal/vectors"
)

// TestHalfSipHashKnownAnswer has the switch hash a message of the authors' published
// vectors (vectors_hsip32 of github.com/veorq/SipHash): 00 01 .. 0e under the key
// 00 01 .. 07 gives 74 fe 2b 97. As little-endian numbers that is a SYN from 3.2.1.0
// port 0x0b0a to 7.6.5.4 port 0x0908 whose number ends in 0e0d0c; the cookie shows
// the low 24 bits.
func TestHalfSipHashKnownAnswer(t *testing.T) {
	g := &switchGate{bench: newBench(t, edgeProgram)}
	defer g.close()
	all, err := vectors.Load(edgeVectors + "/syns.yaml")
	if err != nil {
		t.Fatal(err)
	}
	v := all[slices.IndexFunc(all, func(v vectors.Vector) bool { return v.String() == "syns/linux-mss-v4" })]
	v.Keys = nil // none but the one below
	v.Services = slices.Clone(v.Services)
	v.Services[0].Port = 0x0908
	if err := g.Prepare(&v); err != nil {
		t.Fatal(err)
	}
	sw, err := simpleswitch.Dial(context.Background(), thriftAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer sw.Close()
	k0, k1 := []byte{3, 2, 1, 0}, []byte{7, 6, 5, 4}
	always := []any{simpleswitch.LPM{Key: make([]byte, 5), Len: 0}}
	if _, err := sw.Add("EdgeIngress.settings.epochs", always, "EdgeIngress.settings.set_keys", make([]byte, 4), []byte{0}, k0, k1, k0, k1); err != nil {
		t.Fatal(err)
	}
	syn, err := hex.DecodeString("02000000000102000000000a0800" + "450000280000400040060000" + "0302010007060504" +
		"0b0a0908" + "000e0d0c" + "00000000" + "5002ffff00000000")
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Packet(syn)
	if err != nil || r.Verdict != vectors.TX {
		t.Fatalf("%v %v", r.Verdict, err)
	}
	if isn := binary.BigEndian.Uint32(r.Out[14+20+4:]); isn&0xffffff != 0x2bfe74 {
		t.Errorf("the switch's ISN is %08x, want it to end in 2bfe74", isn)
	}
}
