// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net"
	"testing"

	harness "tidegate/test/world"
)

// A client that has an edge's cookie is served, though the edge leaves the mode that gave it before the client's ACK arrives.
func TestModeChangeOfEdgeKeepsHandshakes(t *testing.T) {
	for _, mode := range []string{"monitor", "off"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.startBoth()
			release := harness.HoldACKs(t, w.Client)
			var held []*net.TCPConn
			for _, ipv6 := range families() {
				c, err := w.dial(ipv6, 0)
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, c)
			}
			w.Edge.configure(mode)
			w.Edge.run.Reload(w.Edge.config, "msg=reloaded")
			release()
			for _, c := range held {
				if err := harness.Ping(c, nil); err != nil {
					t.Errorf("a connection from before the change: %v", err)
				}
			}
			for _, ipv6 := range families() {
				if err := w.ping(ipv6); err != nil {
					t.Errorf("%s, a connection after the change: %v", familyName(ipv6), err)
				}
			}
			w.Edge.wantCounters(map[string]uint64{"cookie_valid": uint64(len(held)), "cookie_sent": uint64(len(held))})
		})
	}
}

// A server serves the clients of an edge that answers, in every mode: whether SYNs are answered is the edge's affair.
func TestModesOfServer(t *testing.T) {
	for takeover, served := range map[string]string{"adopt": "adopted", "translate": "split_ready"} {
		for _, mode := range []string{"monitor", "off"} {
			t.Run(takeover+", "+mode, func(t *testing.T) {
				w := newWorld(t, false)
				if takeover == "translate" {
					if err := w.YieldServer(); err != nil {
						t.Fatal(err)
					}
				}
				w.server.configure(mode, "takeover: "+takeover)
				w.serve(echo)
				w.startBoth()
				for _, ipv6 := range families() {
					if err := w.ping(ipv6); err != nil {
						t.Errorf("%s: %v", familyName(ipv6), err)
					}
				}
				w.server.wantCounters(map[string]uint64{served: uint64(len(families())), "would_drop": 0, "drop_unmatched_ack": 0})
			})
		}
	}
}
