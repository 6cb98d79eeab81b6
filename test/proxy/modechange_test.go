// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net"
	"strings"
	"testing"

	harness "tidegate/test/world"
)

// A client that has a cookie, or a place in the SYN cache, is served, though the service leaves the mode that gave it before the
// client's ACK arrives; or though that ACK is lost, so that the next is a probe of the SYN-ACK's window of zero.
func TestModeChangeKeepsHandshakes(t *testing.T) {
	for _, strategy := range []string{"cookie", "cache"} {
		for _, mode := range []string{"monitor", "off", "always"} {
			t.Run(strategy+", "+mode, func(t *testing.T) {
				w := newWorld(t, false)
				w.serve(echo)
				config := w.config(strategy)
				b := w.start(config)
				release := harness.HoldACKs(t, w.Client)
				var held []*net.TCPConn
				for _, ipv6 := range families() {
					c, err := w.dial(ipv6)
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, c)
				}
				b.Reload(strings.Replace(config, "mode: always", "mode: "+mode, 1), "reloaded")
				release()
				for _, c := range held {
					if err := harness.Ping(c, nil); err != nil {
						t.Errorf("a connection from before the change: %v", err)
					}
				}
				valid := map[string]string{"cookie": "cookie_valid", "cache": "cache_valid"}[strategy]
				w.wantCounters(map[string]uint64{valid: uint64(len(held))})
				w.pingEach("after the change")
			})
		}
	}
}
