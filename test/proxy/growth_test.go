// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"testing"
	"time"

	harness "tidegate/test/world"
)

// A SYN that is shorter than its answer (a window scale and SACK, no MSS) is answered at the
// first attempt, every time, although veth has no room behind a frame of its length.
func TestAnswerLongerThanSYN(t *testing.T) {
	const n = 500
	for _, strategy := range []string{"cookie", "auth-cookie", "cache"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.start(w.config(strategy))
			syns := harness.NewSYNs(t, w.ClientPort, w.LegitPort)
			for _, ipv6 := range families() {
				if strategy != "auth-cookie" { // the server must be known before the test
					if err := w.ping(ipv6); err != nil {
						t.Fatal(err)
					}
				}
				for port := range uint16(n) {
					syns.Send(nobody(ipv6, 10000+port), w.ServiceAddr(ipv6, 80), []byte{1, 3, 3, 7, 1, 1, 4, 2})
				}
				if answered := syns.Answered(500 * time.Millisecond); len(answered) < n {
					t.Errorf("%s: %d of %d SYNs were answered", familyName(ipv6), len(answered), n)
				}
			}
			w.wantCounters(map[string]uint64{"drop_tx": 0})
		})
	}
}
