// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	harness "tidegate/test/world"
)

// Under the layout smartcookie a cookie is worth 24 bits, whatever options accompany it:
// a valid one for another ISN with the same addresses and ports, which an attacker may
// have guessed, does not end a live connection.
func TestWeakCookieEndsNothing(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "learning: 0s", "unknown_rate: 0", "cookie_layout: smartcookie")
	w.server.configure("always", "takeover: adopt", "cookie_layout: smartcookie")
	w.startBoth()
	const localPort = 41000
	// The cookie of another ISN, as if guessed: it is requested before the connection exists, since an
	// edge leaves SYNs of known flows to the server.
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	other, err := w.dial(false, 0) // gives the client's address
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	client := other.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr().Unmap()
	syn := load.Segment{Src: netip.AddrPortFrom(client, localPort), Dst: w.address(false, port), Flags: load.FlagSYN, Seq: 0x12345678, Window: 64000,
		Options: []byte{2, 4, 5, 180}}
	if err := load.SendSegment(w.Client, syn); err != nil {
		t.Fatal(err)
	}
	answer, ok := tap.Next(time.Now().Add(patience), func(s load.Segment) bool {
		return s.Src == syn.Dst && s.Dst == syn.Src && s.Flags == load.FlagSYN|load.FlagACK && s.Ack == syn.Seq+1
	})
	if !ok {
		t.Fatal("the edge did not answer")
	}
	c, err := w.dial(false, localPort)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := say(c, "before"); err != nil {
		t.Fatal(err)
	}
	ack := syn
	ack.Flags, ack.Seq, ack.Ack = load.FlagACK, syn.Seq+1, answer.Seq+1
	ack.Options = []byte{1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}
	before := w.server.counters()
	if err := load.SendSegment(w.Client, ack); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the server has met it", patience, 10*time.Millisecond, func() bool {
		after := w.server.counters()
		return after["ack_existing"]+after["socket_replaced"] > before["ack_existing"]+before["socket_replaced"]
	})
	if err := say(c, "after"); err != nil {
		t.Errorf("the live connection: %v; %v", err, nonZero(w.server.counters()))
	}
	w.server.wantCounters(map[string]uint64{"socket_replaced": 0})
}
