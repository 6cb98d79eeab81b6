// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/instance"
	harness "tidegate/test/world"
)

func (w *world) signedFlood() harness.SignedFlood {
	return harness.SignedFlood{SYNs: harness.NewSYNs(w.place.t, w.ClientPort, w.LegitPort), From: stranger, Server: w.place.Server,
		To: func(ipv6 bool) netip.AddrPort { return w.address(ipv6, port) }, Counters: w.Edge.counters}
}

// edges are kinds of an edge, each with its server.
func edges(t *testing.T, kinds []string, run func(t *testing.T, w *world)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var w *world
			if kind == "tagged" {
				w = newTagged(t, nil, nil)
			} else {
				w = newWorld(t, false)
			}
			if kind == "smartcookie" {
				w.Edge.configure("always", "cookie_layout: smartcookie")
				w.server.configure("always", "cookie_layout: smartcookie")
			}
			run(t, w)
		})
	}
}

// No SYN reaches a server behind an edge because of an option that it carries.
func TestSignedFlood(t *testing.T) {
	edges(t, []string{"plain", "tagged", "smartcookie"}, func(t *testing.T, w *world) {
		w.serve(echo)
		w.startBoth()
		w.signedFlood().NothingPasses(t, 30, false)
	})
}

// What passes an edge stays within the allowance. (An edge that tags passes none.)
func TestSignedAllowance(t *testing.T) {
	edges(t, []string{"plain", "smartcookie"}, func(t *testing.T, w *world) {
		w.Edge.config = strings.Replace(w.Edge.config, "    mode: always\n", "    mode: always\n    signed: pass\n    signed_rate: 50\n", 1)
		w.serve(echo)
		w.startBoth()
		w.signedFlood().PassesWithin(t, 1000, 50, instance.OnlineCPUs())
	})
}

// A peer with a TCP-MD5 key connects through an edge with `signed: pass`.
func TestSignedPeer(t *testing.T) {
	edges(t, []string{"plain", "smartcookie"}, func(t *testing.T, w *world) {
		w.Edge.config = strings.Replace(w.Edge.config, "    mode: always\n", "    mode: always\n    signed: pass\n", 1)
		w.startBoth()
		var from netip.Addr
		err := w.Client.Do(func() error {
			c, err := net.Dial("udp4", w.address(false, port).String()) // sends nothing
			if err != nil {
				return err
			}
			from = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
			return c.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := harness.SignedPing(t, w.Client, w.place.Server, from, w.address(false, port)); err != nil {
			t.Errorf("connect: %v; edge %v", err, nonZero(w.Edge.counters()))
		}
	})
}
