// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"testing"
)

// newTagged is a world whose edge tags and whose server translates.
func newTagged(t *testing.T, edge, server []string) *world {
	t.Helper()
	w := newWorld(t, false)
	v4, v6 := w.EdgeAddrs()
	if err := w.YieldServer(); err != nil {
		t.Fatal(err)
	}
	w.Edge.configure("always", append([]string{"protocol: tagged", "edge_id: 3", "learning: 0s"}, edge...)...)
	w.server.configure("always", append([]string{"protocol: tagged", "takeover: translate",
		fmt.Sprintf("edges: [\"3 %s %s\"]", v4, v6)}, server...)...)
	return w
}

// A connection through both, with the real binaries: one setup, one confirmation, and
// no SYN-ACK with the server's own numbers.
func TestTagged(t *testing.T) {
	w := newTagged(t, nil, nil)
	w.serve(echo)
	w.startBoth()
	var n uint64
	for _, ipv6 := range families() {
		for range 5 {
			n++
			if err := w.ping(ipv6); err != nil {
				t.Fatalf("%s: %v; edge %v; server %v", familyName(ipv6), err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
			}
		}
	}
	w.Edge.wantCounters(map[string]uint64{"syn": n, "cookie_sent": n, "drop_ack": 0, "tag_no_room": 0, "confirm_forged": 0})
	w.server.wantCounters(map[string]uint64{"split_opened": n, "split_ready": n, "tag_forged": 0, "tag_foreign": 0,
		"tag_stale": 0, "drop_unmatched_ack": 0, "split_full": 0, "confirm_failed": 0})
	edge, server := w.Edge.counters(), w.server.counters()
	if edge["tag_setup"] < n || edge["confirm_taken"] == 0 || server["confirm_sent"] < n {
		t.Errorf("edge %v; server %v", nonZero(edge), nonZero(server))
	}
}

// Protocol plain before a translating server: no tags, the cookie is verified twice.
func TestPlainTranslated(t *testing.T) {
	w := newTagged(t, nil, nil)
	w.Edge.configure("always")
	w.server.configure("always", "takeover: translate")
	w.serve(echo)
	w.startBoth()
	for _, ipv6 := range families() {
		if err := w.ping(ipv6); err != nil {
			t.Fatalf("%s: %v; edge %v; server %v", familyName(ipv6), err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
		}
	}
	w.server.wantCounters(map[string]uint64{"split_ready": uint64(len(families())), "tag_valid": 0, "drop_unmatched_ack": 0})
}
