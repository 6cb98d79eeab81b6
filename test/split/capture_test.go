// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"path/filepath"
	"testing"

	harness "tidegate/test/world"
)

// A capture at an edge, in both layouts, and at the server behind it.
func TestCapture(t *testing.T) {
	for _, layout := range []string{"tidegate", "smartcookie"} {
		t.Run(layout, func(t *testing.T) {
			w := newWorld(t, false)
			w.Edge.configure("always", "cookie_layout: "+layout)
			w.server.configure("always", "cookie_layout: "+layout)
			w.serve(echo)
			w.startBoth()
			edge, server := filepath.Join(w.dir, "edge.pcapng"), filepath.Join(w.dir, "server.pcapng")
			atEdge, atServer := w.Edge.in().Capture("-w", edge), w.server.in().Capture("-w", server)
			for _, ipv6 := range harness.Families() {
				if err := w.ping(ipv6); err != nil {
					t.Error(err)
				}
			}
			atEdge.Interrupt()
			atServer.Interrupt()
			for _, family := range []string{"ip", "ipv6"} {
				harness.WantComment(t, edge, family+" && tcp.flags == 0x002", "tx: syn, cookie_sent; service web; xdp")
				harness.WantComment(t, server, family+" && tcp.flags == 0x010", "pass: cookie_valid, adopted; service web; tc ingress")
			}
		})
	}
}

// A server with both kinds of takeover has two gates: a capture is of both.
func TestCaptureAuto(t *testing.T) {
	w := newAuto(t)
	w.serve(echo)
	w.listen(w.place.Server, w.address(false, mptcpPort), true)
	w.startBoth()
	file := filepath.Join(w.dir, "server.pcapng")
	p := w.server.in().Capture("-w", file)
	for _, ipv6 := range harness.Families() {
		if err := w.ping(ipv6); err != nil {
			t.Error(err)
		}
	}
	w.openAt(w.address(false, mptcpPort))
	p.Interrupt()
	harness.WantComment(t, file, "tcp.dstport == 81", "pass: cookie_valid, split_opened; service web; xdp")
	harness.WantComment(t, file, "tcp.srcport == 81", "redirect: split_ready; service web; tc egress")
	for _, family := range []string{"ip", "ipv6"} {
		harness.WantComment(t, file, family+" && tcp.flags == 0x010", "pass: cookie_valid, adopted; service web; tc ingress")
	}
}
