// SPDX-License-Identifier: Apache-2.0

package world

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// LostSegments is how many of the segments that the connection's client retransmitted were really missing, SYNs
// included. Segments that the peer reports as duplicates (D-SACK, RFC 2883) were late, as on a machine that
// gives a peer no processor for 200 ms, and were not dropped. The last reports may be in flight:
// if more than `allowed` are missing, they are checked again for a second.
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
