// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"testing"
)

// Handshakes of one source are added over processors, destination by destination; those of others, and of slots that change hands, are not.
func TestHandshakesOf(t *testing.T) {
	words := func(a string) (w [2]uint64) {
		raw := [16]byte{}
		copy(raw[:], netip.MustParseAddr(a).AsSlice())
		return [2]uint64{binary.NativeEndian.Uint64(raw[:8]), binary.NativeEndian.Uint64(raw[8:])}
	}
	row := func(src, dst string, n uint32, first, last uint64) Proven {
		return Proven{Src: words(src), Dst: words(dst), Family: 4, Handshakes: n, FirstNs: first, LastNs: last}
	}
	torn := row("192.0.2.7", "198.51.100.1", 100, 1, 90)
	torn.TurnBefore = 1
	got := HandshakesOf([]Proven{row("192.0.2.7", "198.51.100.1", 3, 20, 30), row("192.0.2.8", "198.51.100.1", 50, 1, 99), torn,
		row("192.0.2.7", "198.51.100.1", 4, 10, 25), row("192.0.2.7", "198.51.100.2", 1, 40, 40), {}}, netip.MustParseAddr("192.0.2.7"))
	want := []Handshakes{{netip.MustParseAddr("198.51.100.2"), 1, 40, 40}, {netip.MustParseAddr("198.51.100.1"), 7, 10, 30}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
