// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/lab/load"
)

// A SYN with timestamps on a live connection, forged or from a client that has lost its state, reaches the server
// through an edge: what comes back is the challenge ACK of the connection's socket (RFC 5961), as without an edge, not a
// cookie. A connection of which a SYN was forged goes on; a client that has lost its state is served.
func TestSYNOnALiveConnection(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T) *world{
		"adopt":     func(t *testing.T) *world { return newSplit(t, false, nil, nil) },
		"translate": func(t *testing.T) *world { return newSplit(t, false, nil, []string{"takeover: translate"}) },
		"tagged":    func(t *testing.T) *world { return newTagged(t, nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.serve(echoLong)
			w.startBoth()
			w.forgedSYN()
			for i, ipv6 := range families() {
				challenged, known := w.netstat(w.place.Server, "TCPChallengeACK"), w.Edge.counters()["edge_syn_known"]
				took, err := w.reconnect(ipv6, 44000+uint16(i))
				challenged, known = w.netstat(w.place.Server, "TCPChallengeACK")-challenged, w.Edge.counters()["edge_syn_known"]-known
				if err != nil || challenged == 0 || known == 0 {
					t.Errorf("%s: served after %v, %v; %d challenge ACKs, %d SYNs of known flows; edge %v; server %v", familyName(ipv6), took, err,
						challenged, known, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
				}
			}
			w.server.wantCounters(map[string]uint64{"socket_replaced": 0, "split_replaced": 0})
		})
	}
}

// forgedSYN sends a SYN of a live connection.
func (w *world) forgedSYN() {
	t := w.place.t
	t.Helper()
	tap, err := load.NewTap(w.ClientPort)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	c := w.open(false)
	w.still(c, "before")
	syn := load.Segment{Src: c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort(), Dst: w.address(false, port), Flags: load.FlagSYN,
		Seq: 0x12345678, Window: 64000, Options: []byte{2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7}}
	tap.All()
	if err := load.SendSegment(w.Client, syn); err != nil {
		t.Fatal(err)
	}
	answer, ok := tap.Next(time.Now().Add(patience), func(s load.Segment) bool {
		return s.Src.Port() == port && s.Dst.Port() == syn.Src.Port()
	})
	if !ok || answer.Flags != load.FlagACK || answer.Ack == syn.Seq+1 {
		t.Errorf("a forged SYN on a live connection was answered by flags %#x, ack %#x (%v); edge %v; server %v", answer.Flags, answer.Ack, ok,
			nonZero(w.Edge.counters()), nonZero(w.server.counters()))
	}
	w.still(c, "after a SYN")
}
