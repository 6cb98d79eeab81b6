// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// A connection through both: the edge answers and verifies, the server's kernel
// adopts, and no SYN reaches the server.
func TestConnect(t *testing.T) {
	for _, bridge := range []bool{false, true} {
		t.Run(map[bool]string{false: "router", true: "bridge"}[bridge], func(t *testing.T) {
			w := newWorld(t, bridge)
			w.serve(echo)
			w.startBoth()
			var n uint64
			for _, ipv6 := range families() {
				for range 5 {
					n++
					if err := w.ping(ipv6); err != nil {
						t.Fatalf("%s: %v", familyName(ipv6), err)
					}
				}
			}
			w.Edge.wantCounters(map[string]uint64{"syn": n, "cookie_sent": n, "drop_ack": 0, "drop_fin": 0, "drop_rst": 0,
				"edge_unknown": 0, "edge_learning": 0})
			w.server.wantCounters(map[string]uint64{"adopted": n, "adopt_failed": 0, "drop_unmatched_ack": 0, "socket_replaced": 0})
			if got := w.Edge.counters()["cookie_valid"]; got < n {
				t.Errorf("%d cookies verified, want at least %d", got, n)
			}
		})
	}
}

const (
	reusePorts    = 20
	reuseRequests = 1000 // of each kind: every port is used 50 times
	firstPort     = 40000
)

// A client's ports are reused far sooner than a server's
// TIME-WAIT ends, and no SYN, or (without timestamps) hardly any, reaches the server's kernel. No request may fail,
// and none may wait for a second SYN or a retransmission.
func TestPortsReused(t *testing.T) {
	for _, timestamps := range []string{"1", "0"} {
		for who, name := range map[byte]string{serverCloses: "server closes", clientCloses: "client closes"} {
			t.Run(fmt.Sprintf("%s, timestamps %s", name, timestamps), func(t *testing.T) {
				w := newWorld(t, false)
				w.sysctl(w.Client, "net.ipv4.tcp_timestamps", timestamps)
				// No TIME-WAIT at the client, or its kernel would not reuse the port.
				w.sysctl(w.Client, "net.ipv4.tcp_max_tw_buckets", "0")
				w.serve(oneShot)
				w.startBoth()
				for _, ipv6 := range families() {
					w.reuse(ipv6, who)
				}
			})
		}
	}
}

func (w *world) reuse(ipv6 bool, who byte) {
	t := w.t
	t.Helper()
	passed := -w.Edge.counters()["edge_syn_known"]
	before, resent := w.server.counters(), w.netstat(w.Client, "TCPSynRetrans")+w.netstat(w.Client, "TCPTimeouts")
	for i := range reuseRequests {
		from := uint16(firstPort + i%reusePorts)
		err := w.request(ipv6, from, who)
		for tries := 1; errors.Is(err, unix.EADDRNOTAVAIL) && tries < reusePorts; tries++ {
			// The client's own old socket waits for its last ACK. Nothing has been sent.
			from = firstPort + (from-firstPort+1)%reusePorts
			err = w.request(ipv6, from, who)
		}
		if err != nil {
			t.Fatalf("%s, request %d from port %d: %v; %v", familyName(ipv6), i, from, err, nonZero(w.server.counters()))
		}
	}
	after := w.server.counters()
	passed += w.Edge.counters()["edge_syn_known"] // without timestamps: the server's kernel has seen these SYNs itself
	if n := w.netstat(w.Client, "TCPSynRetrans") + w.netstat(w.Client, "TCPTimeouts") - resent; n != 0 {
		t.Errorf("%s: the client waited %d times; %v", familyName(ipv6), n, nonZero(after))
	}
	if n := after["adopted"] - before["adopted"]; n+passed != reuseRequests {
		t.Errorf("%s: %d adopted and %d SYNs passed, want %d; %v", familyName(ipv6), n, passed, reuseRequests, nonZero(after))
	}
	if n := after["socket_replaced"] - before["socket_replaced"]; who == serverCloses && n+passed < reuseRequests-reusePorts {
		t.Errorf("%s: only %d sockets replaced: the server's TIME-WAIT was not met", familyName(ipv6), n)
	}
}
