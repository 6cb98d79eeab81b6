// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"strings"
	"testing"
)

// A service with mode off passes as if there were no proxy.
func TestForwardUntouched(t *testing.T) {
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			w.serve(echo)
			w.start(strings.Replace(w.config("cookie"), "mode: always", "mode: off", 1))
			for _, ipv6 := range families() {
				if err := w.ping(ipv6); err != nil {
					t.Errorf("%s: %v", familyName(ipv6), err)
				}
			}
			w.wantCounters(map[string]uint64{"syn": 0, "cookie_sent": 0, "flow_opened": 0})
		})
	}
}

func TestCookieEcho(t *testing.T) {
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			w.serve(echo)
			w.start(w.config("cookie"))
			n := uint64(0)
			for _, ipv6 := range families() {
				for range 5 {
					if err := w.ping(ipv6); err != nil {
						t.Fatalf("%s: %v", familyName(ipv6), err)
					}
					n++
				}
			}
			w.wantCounters(map[string]uint64{"syn": n, "cookie_sent": n, "cookie_valid": n,
				"flow_opened": n, "flow_ready": n, "flow_retransmit": 0, "flow_reack": 0})
		})
	}
}
