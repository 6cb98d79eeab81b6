// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"testing"

	harness "tidegate/test/world"
)

// A client's SYN comes at once behind the last ACK of its connection before, in one batch: when the packet path judges the SYN, the stack
// has not met the ACK, and its socket is there. It is not there any more when the SYN comes to the stack. Here, a rule drops
// the ACK behind the packet path, so that the socket stays: the SYN is answered as any other, and the client is served.
func TestSYNBehindALastACK(t *testing.T) {
	for _, timestamps := range []string{"1", "0"} {
		t.Run("timestamps "+timestamps, func(t *testing.T) {
			w := newTagged(t, nil, nil)
			w.Edge.configure("always", "learning: 0s")
			w.server.configure("always", "takeover: translate")
			w.sysctl(w.place.Client, "net.ipv4.tcp_timestamps", timestamps)
			w.sysctl(w.place.Client, "net.ipv4.tcp_max_tw_buckets", "0") // the port is free at once
			w.serve(oneShot)
			w.startBoth()
			harness.NFT(t, w.place.Server, "table ip last {\n chain in {\n type filter hook input priority 0\n tcp dport 80 tcp flags == ack drop\n}\n}\n")
			if err := w.request(false, firstPort, clientCloses); err != nil {
				t.Fatal(err)
			}
			w.await("the entry is closed", func() bool { return w.server.counters()["split_closed"] == 1 })
			harness.NFT(t, w.place.Server, "delete table ip last\n")
			if err := w.requestFrom(firstPort, 1, clientCloses); err != nil {
				t.Errorf("%v; edge %v; server %v", err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
			}
			w.server.wantCounters(map[string]uint64{"syn_challenged": 0, "split_opened": 2})
		})
	}
}
