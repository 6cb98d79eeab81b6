// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"path/filepath"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Of a server's SYN-ACK, XDP sends both packets where all ports run it in native mode: the server has its ACK without another SYN-ACK. In
// generic mode, where a frame and its twin would share their bytes, TC makes them.
func TestTwins(t *testing.T) {
	if testPlane == rig.PlaneDPDK {
		t.Skip("DPDK makes two packets of one without twins")
	}
	for _, bridge := range []bool{false, true} {
		for mode, hook := range map[string]string{"native": "xdp", "generic": "tc ingress"} {
			t.Run(fmt.Sprintf("bridge %v, %s", bridge, mode), func(t *testing.T) {
				w := newWorld(t, bridge)
				w.serve(echo)
				if mode == "generic" {
					for _, port := range []*rig.Port{w.LegitPort, w.InnerPort} { // as docs/proxy.md has it
						if err := port.SetOffload("rx-gro", false); err != nil {
							t.Fatal(err)
						}
					}
				}
				w.start(w.config("cookie", "xdp_mode: "+mode))
				file := filepath.Join(w.dir, "twins.pcapng")
				p := w.instance.Capture("-w", file)
				const each = 3
				for range each {
					for _, ipv6 := range harness.Families() {
						c, err := w.dial(ipv6)
						if err != nil {
							t.Fatal(err)
						}
						defer c.Close()
						if err := harness.Word(c); err != nil {
							t.Error(err)
						}
					}
				}
				w.await("answers of the server", func() bool { return w.counters()["flow_ready"] == uint64(each*len(harness.Families())) })
				p.Interrupt()
				for _, family := range []string{"ip", "ipv6"} {
					harness.WantComment(t, file, family+" && tcp.flags == 0x012", "redirect: flow_ready; service web; "+hook)
				}
				w.wantCounters(map[string]uint64{"flow_reack": 0})
			})
		}
	}
}
