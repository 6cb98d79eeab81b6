// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// LostSegments is how many of the segments that the connection's client sent again were missing, SYNs
// included. What the peer reports to have got twice (D-SACK, RFC 2883) was late, as on a machine that
// gives a peer no processor for 200 ms, and nothing dropped it. Reports of the last ones may be under way:
// more than `allowed` are looked at again for a second.
func LostSegments(t *testing.T, c *net.TCPConn, allowed uint32) (lost, retransmitted uint32) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Second); ; time.Sleep(pause) {
		if ctlErr := raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
				retransmitted = info.Total_retrans
				lost = retransmitted - min(retransmitted, info.Dsack_dups)
			}
		}); ctlErr != nil || err != nil {
			t.Fatal(ctlErr, err)
		}
		if lost <= allowed || time.Now().After(deadline) {
			return lost, retransmitted
		}
	}
}
