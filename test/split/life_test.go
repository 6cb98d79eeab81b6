// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Translated connections outlive the server's process, and the drain after Ctrl-C waits for
// them: none is cut early, and when the last has ended the drain ends.
func TestTranslatedLife(t *testing.T) {
	for _, protocol := range []string{"plain", "tagged"} {
		t.Run(protocol, func(t *testing.T) {
			w := newTagged(t, nil, nil)
			if protocol == "plain" {
				w.Edge.configure("always", "learning: 0s")
				w.server.configure("always", "takeover: translate")
			}
			w.server.config = strings.Replace(w.server.config, "drain: 0s", "drain: 60s", 1)
			w.serve(echo)
			w.startBoth()
			c := w.open(false)
			w.server.kill()
			w.still(c, "the server's process is dead")
			if err := w.ping(true); err != nil {
				t.Errorf("new connection, the server's process is dead: %v", err)
			}
			w.server.start()
			w.still(c, "a new process")
			if err := w.ping(false); err != nil {
				t.Errorf("new connection, a new process: %v", err)
			}
			w.server.wantCounters(map[string]uint64{"drop_unmatched_ack": 0, "tag_forged": 0, "split_full": 0})
			w.Edge.off() // first: its cookies would no longer be accepted
			_ = w.server.run.Cmd.Process.Signal(syscall.SIGINT)
			w.await("drain", func() bool { return strings.Contains(w.server.run.Stderr.String(), "draining") })
			w.still(c, "draining")
			if err := w.ping(false); err != nil {
				t.Errorf("new connection, its SYN from the client, draining: %v", err)
			}
			select {
			case <-w.server.run.Exited:
				t.Fatal("the drain did not wait for the connection")
			default:
			}
			c.Close()
			select {
			case <-w.server.run.Exited:
			case <-time.After(patience):
				t.Fatal("the drain goes on after the last connection has ended")
			}
		})
	}
}

// Clocks that differ by a whole epoch, in either direction, in protocol tagged: connections begun
// at any point of an epoch, even its boundaries, are all served.
func TestTaggedSkew(t *testing.T) {
	const epoch = time.Second
	for _, skew := range []time.Duration{epoch, -epoch} {
		t.Run(skew.String(), func(t *testing.T) {
			line := fmt.Sprintf("epoch: %s", epoch)
			w := newTagged(t, []string{line}, []string{line})
			w.serve(echo)
			w.Edge.skew = skew
			w.startBoth()
			const steps = 15 // over more than an epoch
			for i := range steps {
				if err := w.ping(false); err != nil {
					t.Fatalf("connection %d: %v; edge %v; server %v", i, err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
				}
				time.Sleep(epoch / steps) // the clock is what is tested
			}
			w.server.wantCounters(map[string]uint64{"tag_stale": 0, "tag_forged": 0, "drop_unmatched_ack": 0})
		})
	}
}

// The same in protocol plain, to a server that translates and tolerates the skew.
func TestPlainTranslatedSkew(t *testing.T) {
	for _, skew := range []time.Duration{time.Second, -time.Second} {
		t.Run(skew.String(), func(t *testing.T) {
			w := newTagged(t, nil, nil)
			w.Edge.configure("always", "learning: 0s", "epoch: 1s")
			w.server.configure("always", "takeover: translate", "epoch: 1s", "clock_skew: 1s")
			w.serve(echo)
			w.Edge.skew = skew
			w.startBoth()
			for i := range 15 {
				if err := w.ping(false); err != nil {
					t.Fatalf("connection %d: %v; server %v", i, err, nonZero(w.server.counters()))
				}
				time.Sleep(70 * time.Millisecond) // the clock is what is tested
			}
			w.server.wantCounters(map[string]uint64{"drop_unmatched_ack": 0})
		})
	}
}

// Edges with the layout smartcookie before a server that adopts, and one that translates.
func TestSmartcookie(t *testing.T) {
	for _, takeover := range []string{"adopt", "translate"} {
		t.Run(takeover, func(t *testing.T) {
			w := newWorld(t, false)
			if takeover == "translate" {
				if err := w.YieldServer(); err != nil {
					t.Fatal(err)
				}
			}
			w.Edge.configure("always", "learning: 0s", "unknown_rate: 0", "cookie_layout: smartcookie")
			w.server.configure("always", "takeover: "+takeover, "cookie_layout: smartcookie")
			w.serve(echo)
			w.startBoth()
			var n uint64
			for _, ipv6 := range families() {
				for range 3 {
					n++
					if err := w.ping(ipv6); err != nil {
						t.Fatalf("%s: %v; edge %v; server %v", familyName(ipv6), err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
					}
				}
			}
			if err := w.upload(false); err != nil {
				t.Error(err)
			}
			n++
			done := map[string]string{"adopt": "adopted", "translate": "split_ready"}[takeover]
			w.server.wantCounters(map[string]uint64{done: n, "drop_unmatched_ack": 0})
			w.Edge.wantCounters(map[string]uint64{"cookie_sent": n, "drop_ack": 0})
		})
	}
}
