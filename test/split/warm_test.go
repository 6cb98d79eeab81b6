// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net"
	"testing"
	"time"

	"tidegate/internal/plane"
)

const strict = "unknown_rate: 0" // the edge drops unknown packets

// prefill puts random flows into a node's filter.
func (w *world) prefill(n *node, flows int) {
	w.t.Helper()
	state := uint64(99)
	next := func() uint64 { // splitmix64
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	if err := plane.PrefillFilter(plane.PinDir("/sys/fs/bpf", n.instance), flows, next); err != nil {
		w.t.Fatal(err)
	}
}

// open makes a long-lived connection.
func (w *place) open(ipv6 bool) *net.TCPConn {
	w.t.Helper()
	c, err := w.dial(ipv6, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	if err := say(c, "first"); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// still has words echoed for a while, so that the server's packets pass through the edge.
func (w *place) still(c *net.TCPConn, what string) {
	w.t.Helper()
	for range 5 {
		if err := say(c, "still there?"); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
	}
}

// Connections older than the edge survive: a newly started edge forwards
// unknown packets to the server.
func TestOlderConnections(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	c := w.open(false)
	w.startBoth()
	w.still(c, "after the start")
	if e := w.Edge.counters(); e["edge_learning"] == 0 {
		t.Errorf("learned nothing: %v", nonZero(e))
	}
	if !w.Edge.status().Edge.Learning {
		t.Error("status does not say that the edge is learning")
	}
}

// An idle edge keeps its filter warm: switched on in the middle of traffic, and configured to drop
// unknown packets, it knows the connections that passed through it.
func TestIdleEdgeIsWarm(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("monitor", strict, "learning: 0s")
	w.startBoth()
	var open []*net.TCPConn
	for _, ipv6 := range families() {
		c := w.open(ipv6)
		w.still(c, "in mode monitor")
		open = append(open, c)
	}
	w.Edge.wantCounters(map[string]uint64{"cookie_sent": 0, "drop_ack": 0})
	w.Edge.configure("always", strict, "learning: 0s")
	w.Edge.reload()
	for _, c := range open {
		w.still(c, "after it was switched on")
	}
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
	w.Edge.wantCounters(map[string]uint64{"drop_ack": 0, "drop_fin": 0, "edge_unknown": 0})
}

// A killed edge's packet path keeps running; the next process takes the filter
// over; an edge that is switched off leaves traffic as if it had never been there.
func TestLife(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", strict, "learning: 0s")
	w.startBoth()
	c := w.open(false)
	w.Edge.kill()
	w.still(c, "the edge's process is dead")
	if err := w.ping(false); err != nil {
		t.Errorf("new connection, the edge's process is dead: %v", err)
	}
	w.Edge.start()
	w.still(c, "a new process")
	w.server.kill()
	w.still(c, "the server's process is dead")
	if err := w.ping(true); err != nil {
		t.Errorf("new connection, the server's process is dead: %v", err)
	}
	w.server.start()
	w.Edge.wantCounters(map[string]uint64{"drop_ack": 0, "edge_unknown": 0})
	// SYNs that bypass the edge are answered by the server's kernel; the final ACK check
	// must not drop their ACKs.
	w.Edge.off()
	w.still(c, "no edge")
	if err := w.ping(false); err != nil {
		t.Errorf("new connection without an edge: %v", err)
	}
	w.server.off()
	w.still(c, "no server role")
}

// The window: an idle connection is forgotten after it, and the server judges what it
// sends then; a connection is kept whose server sends.
func TestWindow(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "filter_window: 1s", "learning: 0s")
	w.startBoth()
	idle, busy := w.open(false), w.open(false)
	begin := w.Edge.counters()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err := say(busy, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if e := w.Edge.counters(); e["edge_unknown"] != begin["edge_unknown"] || e["edge_refreshed"] == begin["edge_refreshed"] {
		t.Errorf("the busy connection was not kept: %v", nonZero(e))
	}
	if err := say(idle, "again"); err != nil {
		t.Fatal(err)
	}
	if e := w.Edge.counters(); e["edge_unknown"] == begin["edge_unknown"] {
		t.Errorf("the idle connection was not forgotten after three windows: %v", nonZero(e))
	}
}

// A client that reconnects while the server still has its old connection (after a crash, say) gets its new one at once: through
// the challenge of the old socket, or, where a SYN is answered with a cookie, in its place.
func TestComesAnew(t *testing.T) {
	for challenge, replaced := range map[string]bool{"all": false, "weak": true} {
		t.Run(challenge, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.Edge.configure("always", "challenge: "+challenge)
			w.startBoth()
			for _, ipv6 := range families() {
				c, err := w.dial(ipv6, 41000)
				if err != nil {
					t.Fatal(err)
				}
				if err := say(c, "old"); err != nil {
					t.Fatal(err)
				}
				vanish(t, c)
				if err := w.request(ipv6, 41000, 'x'); err != nil {
					t.Errorf("%s: %v; %v", familyName(ipv6), err, nonZero(w.server.counters()))
				}
			}
			if n := w.server.counters()["socket_replaced"]; replaced != (n >= uint64(len(families()))) {
				t.Errorf("%d sockets replaced", n)
			}
		})
	}
}
