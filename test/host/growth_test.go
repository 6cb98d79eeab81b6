// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// growing are the options of a SYN that is shorter than its answer: a window scale and
// SACK, and no MSS, which the answer always has.
var growing = []byte{1, 3, 3, 7, 1, 1, 4, 2}

// stranger is an address beside the client that no machine has.
func stranger(ipv6 bool, port uint16) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(netip.MustParseAddr("fd7d:7467:4::77"), port)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("198.18.3.77"), port)
}

// A SYN that is shorter than its answer is answered at the first attempt, every time, although
// veth has no room behind a frame of its length.
func TestAnswerLongerThanSYN(t *testing.T) {
	const n = 2003
	for _, mode := range []plane.XDPMode{plane.XDPNative, plane.XDPGeneric} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			w.knowStranger()
			w.start(w.webConfig(webPort, "xdp_mode: "+string(mode)))
			syns := harness.NewSYNs(t, w.ClientPort, w.ServerPort)
			for i, ipv6 := range families() {
				to := netip.AddrPortFrom(w.ServerAddr(ipv6), webPort)
				for port := range uint16(n) {
					syns.Send(stranger(ipv6, 10000+port), to, growing)
				}
				answered := syns.Answered(500 * time.Millisecond)
				if len(answered) != n {
					t.Errorf("%s: %d of %d SYNs were answered", familyName(ipv6), len(answered), n)
				}
				w.wantCounters(map[string]uint64{"syn": uint64(n * (i + 1)), "cookie_sent": uint64(n * (i + 1)), "drop_tx": 0})
			}
		})
	}
}
