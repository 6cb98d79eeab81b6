// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"net/netip"
	"testing"
	"time"

	harness "tidegate/test/world"
)

// stranger is an address of the clients' network that no machine has.
func stranger(ipv6 bool, port uint16) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(netip.MustParseAddr("fd7d:7467:2::77"), port)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("198.18.2.77"), port)
}

// A SYN that is shorter than its answer is answered at the first attempt, every time, although
// veth has no room behind a frame of its length. (Under the layout smartcookie, which negotiates
// less, IPv4 frames that grow still find room: it tests only the growth.)
func TestAnswerLongerThanSYN(t *testing.T) {
	const n = 500
	for layout, options := range map[string][]byte{
		"tidegate":    {1, 3, 3, 7, 1, 1, 4, 2},
		"smartcookie": {1, 3, 3, 7},
	} {
		t.Run(layout, func(t *testing.T) {
			w := newWorld(t, false)
			w.Edge.configure("always", "cookie_layout: "+layout)
			w.Edge.start()
			syns := harness.NewSYNs(t, w.ClientPort, w.LegitPort)
			for _, ipv6 := range families() {
				for port := range uint16(n) {
					syns.Send(stranger(ipv6, 10000+port), w.address(ipv6, 80), options)
				}
				if answered := syns.Answered(500 * time.Millisecond); len(answered) != n {
					t.Errorf("%s: %d of %d SYNs were answered", familyName(ipv6), len(answered), n)
				}
			}
			w.Edge.wantCounters(map[string]uint64{"drop_tx": 0})
		})
	}
}
