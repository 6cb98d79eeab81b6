// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/plane"
)

// The secret is replaced on edge and server while clients come and go: no request fails
// and none waits, whether by restart or by SIGHUP. A server that keeps the old secret loses
// every connection from then on, or this test would prove nothing.
func TestSecretRoll(t *testing.T) {
	for _, c := range []struct {
		name     string
		takeover string
		live     bool // by SIGHUP
		notified bool
	}{
		{"adopt", "adopt", false, true},
		{"tagged", "tagged", false, true},
		{"adopt, reloaded", "adopt", true, true},
		{"auto, reloaded", "auto", true, true},
		{"tagged, reloaded", "tagged", true, true},
		{"a server that is not told", "adopt", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newRolling(t, c.takeover)
			if err := os.WriteFile(filepath.Join(w.dir, "next"), []byte(strings.Repeat("c3", 32)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.serve(echo)
			edge, server := "epoch: 1s\n"+w.Edge.config, "epoch: 1s\n"+w.server.config
			if c.live {
				w.Edge.config, w.server.config = edge, server
				w.startBoth()
			}
			var from time.Time
			for margin := 5 * time.Second / 2; ; margin *= 2 { // longer than both need to reload on this machine
				from = time.Now().Add(margin)
				lines := fmt.Sprintf("next_secret_file: next\nnext_secret_from: %s\n", from.UTC().Format(time.RFC3339Nano))
				w.Edge.config, w.server.config = lines+edge, server
				if c.notified {
					w.server.config = lines + server
				}
				if c.live {
					w.server.reload()
					w.Edge.reload()
				} else {
					w.startBoth()
				}
				if time.Now().Before(from) {
					break
				}
				w.Edge.stop()
				w.server.stop()
				if c.live {
					w.Edge.config, w.server.config = edge, server
					w.startBoth()
				}
			}
			before := w.netstat(w.Client, "TCPTimeouts") + w.netstat(w.Client, "TCPSynRetrans")
			rolled := from.Truncate(time.Second).Add(time.Second) // the next epoch begins
			refused, after, lost := 0, 0, 0
			for end := rolled.Add(time.Second); time.Now().Before(end) || after < 5; time.Sleep(20 * time.Millisecond) {
				late := time.Now().After(rolled.Add(50 * time.Millisecond))
				conn, err := w.dial(false, 0)
				if err != nil {
					t.Fatal(err)
				}
				patience := 10 * time.Second
				if !c.notified { // most are in vain
					patience = 100 * time.Millisecond
				}
				_ = conn.SetDeadline(time.Now().Add(patience))
				served := say(conn, "now?") == nil
				conn.Close()
				if late {
					after++
				}
				if !served {
					refused++
				}
				if late && !served {
					lost++
				}
			}
			if waited := w.netstat(w.Client, "TCPTimeouts") + w.netstat(w.Client, "TCPSynRetrans") - before; c.notified && (refused != 0 || waited != 0) {
				t.Errorf("%d requests failed, the client waited %d times; server %v", refused, waited, nonZero(w.server.counters()))
			}
			if !c.notified && lost < after/2 {
				t.Errorf("only %d of %d requests failed with a server that has the first secret only", lost, after)
			}
		})
	}
}

func newRolling(t *testing.T, takeover string) *world {
	if takeover == "tagged" {
		return newTagged(t, nil, nil)
	}
	w := newWorld(t, false)
	if takeover == "auto" {
		if err := w.YieldServer(); err != nil {
			t.Fatal(err)
		}
	}
	w.Edge.configure("always", "learning: 0s", "unknown_rate: 0")
	w.server.configure("always", "takeover: "+takeover)
	return w
}

// An edge that starts with an empty filter after the secret has been replaced, beside one that was running
// before, hashes flows as that one does: it can use what the other announces, and a connection survives when its
// route moves to it.
func TestColdEdgeAfterRoll(t *testing.T) {
	for _, other := range []string{"warm", "cold, too"} {
		t.Run(other, func(t *testing.T) {
			f := newTaggedFleet(t, true, "0")
			if err := os.WriteFile(filepath.Join(f.dir, "next"), []byte(strings.Repeat("c3", 32)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			lines := fmt.Sprintf("next_secret_file: next\nnext_secret_from: %s\n", time.Now().UTC().Add(-time.Hour).Format(time.RFC3339))
			for _, n := range append([]*node{f.server}, f.edges...) {
				n.config = lines + n.config // the roll is over; these still have both
			}
			f.edges[1].config = strings.Replace(f.edges[1].config, lines, "", 1)
			f.edges[1].config = strings.Replace(f.edges[1].config, "secret_file: secret", "secret_file: next", 1)
			f.serve(echo)
			f.server.start()
			if other == "warm" { // a filter that a previous process has begun
				f.edges[0].start()
				f.edges[0].stop()
				f.edges[0].start()
				f.edges[1].start()
			} else {
				f.edges[1].start()
				f.edges[0].start()
			}
			f.await("one key of both filters", func() bool {
				a, _, errA := plane.ReadEdge(f.edges[0].pins())
				b, _, errB := plane.ReadEdge(f.edges[1].pins())
				return errA == nil && errB == nil && a.BloomKey == b.BloomKey
			})
			conn := f.established()
			f.await("edge 1 to be told", func() bool { return f.knows(1) })
			if err := f.Through(1); err != nil {
				t.Fatal(err)
			}
			f.still(conn.(*net.TCPConn), "the route has moved")
			if c := f.edges[1].counters(); c["edge_known"] == 0 || c["drop_ack"] != 0 {
				t.Errorf("edge 1 %v", nonZero(c))
			}
		})
	}
}
