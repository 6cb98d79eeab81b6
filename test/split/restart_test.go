// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	harness "tidegate/test/world"
)

const liveConns = 50

// Edge and server are stopped and started, and reloaded, one after the other, while
// clients stay connected and others come: no client notices.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name         string
		tagged       bool
		edge, server []string
	}{
		{"adopt", false, nil, nil},
		{"adopt, answering", false, nil, []string{"without_edge: answer"}},
		{"translate", false, nil, []string{"takeover: translate"}},
		{"auto", false, nil, []string{"takeover: auto"}},
		{"tagged", true, nil, nil},
		{"smartcookie", false, []string{"cookie_layout: smartcookie"}, []string{"cookie_layout: smartcookie"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newSplit(t, c.tagged, c.edge, c.server)
			w.serve(echoLong)
			w.startBoth()
			l := harness.StartLoad(t, liveConns, w.inTurn())
			l.More(50)
			for _, n := range []*node{w.server, w.Edge} {
				n.stop()
				l.More(100)
				if st := n.status(); st.Running || st.Since.IsZero() {
					t.Errorf("%s: status says running %v, without a daemon since %v", n.instance, st.Running, st.Since)
				}
				n.start()
				l.More(50)
				n.reload()
				l.More(20)
			}
			l.End("stops, starts and reloads of both")
		})
	}
}

// inTurn dials over each family in turn.
func (w *world) inTurn() func() (*net.TCPConn, error) {
	return harness.InTurn(func(ipv6 bool) (*net.TCPConn, error) { return w.dial(ipv6, 0) })
}

func newSplit(t *testing.T, tagged bool, edge, server []string) *world {
	if tagged {
		return newTagged(t, edge, server)
	}
	w := newWorld(t, false)
	if strings.Contains(fmt.Sprint(server), "takeover: ") || strings.Contains(fmt.Sprint(server), "without_edge: answer") { // it has an XDP program of its own
		if err := w.YieldServer(); err != nil {
			t.Fatal(err)
		}
	}
	w.Edge.configure("always", append([]string{"learning: 0s", "unknown_rate: 0"}, edge...)...)
	w.server.configure("always", server...)
	return w
}

// Without an edge, servers that translate, or adopt and are configured to, answer SYNs themselves, with their own cookies:
// clients are served and protected as before, and again when an edge is back.
func TestEdgeAway(t *testing.T) {
	for _, c := range []struct {
		name         string
		tagged       bool
		edge, server []string
	}{
		{"adopt, answering", false, nil, []string{"without_edge: answer"}},
		{"translate", false, nil, []string{"takeover: translate"}},
		{"auto", false, nil, []string{"takeover: auto"}},
		{"tagged", true, nil, nil},
		{"smartcookie", false, []string{"cookie_layout: smartcookie"}, []string{"cookie_layout: smartcookie", "takeover: translate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 25
			w := newSplit(t, c.tagged, c.edge, c.server)
			w.serve(echo)
			w.startBoth()
			kept := w.open(false)
			serve := func(when string) {
				t.Helper()
				for _, ipv6 := range families() {
					for i := range n {
						if err := w.ping(ipv6); err != nil {
							t.Fatalf("%s: %s, connection %d: %v; server %v", when, familyName(ipv6), i, err, nonZero(w.server.counters()))
						}
					}
				}
				w.still(kept, when)
			}
			serve("with the edge")
			w.Edge.off()
			standIn, err := w.WithoutBox()
			if err != nil {
				t.Fatal(err)
			}
			before := w.server.counters()
			serve("without")
			after := w.server.counters()
			if got := after["cookie_sent"] - before["cookie_sent"]; got != uint64(n*len(families())) || after["drop_unmatched_ack"] != before["drop_unmatched_ack"] {
				t.Errorf("%d SYNs answered by the server; %v", got, nonZero(after))
			}
			if err := w.upload(false); err != nil {
				t.Errorf("an upload without an edge: %v", err)
			}
			standIn.Close()
			w.Edge.start()
			if err := w.ping(false); err != nil {
				t.Errorf("the edge is back: %v", err)
			}
		})
	}
}

// A translating server whose keys have expired, with no process to load others and no edge in front,
// leaves clients to its kernel (on_stale_keys: pass), and protects again when it is started.
func TestStaleServer(t *testing.T) {
	w := newSplit(t, false, nil, []string{"takeover: translate", "epoch: 1s", "key_horizon: 2s"})
	w.serve(echo)
	w.server.start()
	standIn, err := w.WithoutBox()
	if err != nil {
		t.Fatal(err)
	}
	defer standIn.Close()
	w.pingEach("with keys")
	w.server.stop()
	w.await("the keys' end", func() bool { return time.Now().After(w.server.status().KeysUntil) })
	w.pingEach("no keys")
	if c := w.server.counters(); c["pass_no_key"] == 0 || c["drop_unmatched_ack"] != 0 {
		t.Errorf("no keys: %v", nonZero(c))
	}
	w.server.start()
	w.pingEach("started again")
	if c := w.server.counters(); c["cookie_sent"] == 0 {
		t.Errorf("started again: %v", nonZero(c))
	}
}

// Off detaches everything, whether the process runs or not, and can be repeated. Adopted connections survive;
// translated ones survive until they end or the drain time passes.
func TestOff(t *testing.T) {
	for _, tagged := range []bool{false, true} {
		name := "adopt"
		if tagged {
			name = "tagged"
		}
		t.Run(name, func(t *testing.T) {
			w := newSplit(t, tagged, nil, nil)
			w.serve(echo)
			w.startBoth()
			c, c6 := w.open(false), w.open(true)
			w.Edge.off() // through the running process
			<-w.Edge.run.Exited
			w.still(c, "no edge")
			w.still(c6, "IPv6, no edge")
			w.server.stop()
			if !tagged {
				w.server.off()
				w.still(c, "adopted, and nothing is installed")
				w.still(c6, "IPv6, adopted, and nothing is installed")
			} else {
				done := make(chan struct{})
				go func() { w.server.off("--drain", "1m"); close(done) }()
				w.await("drain", func() bool { return w.server.status().Draining })
				w.still(c, "translated, draining")
				w.still(c6, "IPv6, translated, draining")
				w.pingEach("draining")
				c.Close()
				w.still(c6, "IPv6, translated, the other has ended")
				c6.Close()
				select {
				case <-done: // with the last connection
				case <-t.Context().Done():
				}
			}
			w.server.off()
			w.Edge.off()
			w.pingEach("nothing is installed")
		})
	}
}

// pingEach makes a connection over each family.
func (w *world) pingEach(when string) {
	w.place.t.Helper()
	for _, ipv6 := range families() {
		if err := w.ping(ipv6); err != nil {
			w.place.t.Errorf("%s, new connection, %s: %v; server %v", familyName(ipv6), when, err, nonZero(w.server.counters()))
		}
	}
}
