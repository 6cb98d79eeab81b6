// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net"
	"strings"
	"testing"

	harness "tidegate/test/world"
)

// A client that has a cookie is served, though the service leaves the mode that gave it before the client's ACK arrives.
func TestModeChangeKeepsHandshakes(t *testing.T) {
	for _, mode := range []string{"monitor", "off", "auto"} {
		for how, change := range map[string]func(w *world, g *gate, config string) *gate{
			"reload":  func(_ *world, g *gate, config string) *gate { g.Reload(config, "msg=reloaded"); return g },
			"restart": func(w *world, g *gate, config string) *gate { g.Kill(); return w.start(config) },
			"command": func(w *world, g *gate, _ string) *gate {
				if _, stderr, err := w.tidegateRun("mode", "web", mode, "--instance", w.Instance); err != nil {
					w.t.Errorf("mode web %s: %v: %s", mode, err, stderr)
				}
				return g
			},
		} {
			t.Run(mode+" by "+how, func(t *testing.T) {
				w := newWorld(t)
				w.echoServer(webPort)
				config := w.webConfig(webPort)
				g := w.start(config)
				release := harness.HoldACKs(t, w.Client)
				var held []*net.TCPConn
				for _, ipv6 := range families() {
					c, err := w.dialTCP(ipv6)
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, c)
				}
				w.wantCounters(map[string]uint64{"cookie_sent": uint64(len(held)), "adopted": 0})
				changed := strings.Replace(config, "mode: always", "mode: "+mode, 1)
				if changed == config {
					t.Fatalf("no `mode: always` in %s", config)
				}
				change(w, g, changed)
				release()
				for _, c := range held {
					if err := harness.Ping(c, nil); err != nil {
						t.Errorf("a connection from before the change: %v", err)
					}
				}
				for _, ipv6 := range families() {
					if err := w.pingNew(ipv6, webPort); err != nil {
						t.Errorf("%s, a connection after the change: %v", familyName(ipv6), err)
					}
				}
				// A restart begins to count anew.
				w.wantCounters(map[string]uint64{"adopted": uint64(len(held))})
			})
		}
	}
}
