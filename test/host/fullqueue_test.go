// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	harness "tidegate/test/world"
)

// The tests' own SYNs all leave, however short the queue: a machine under load has long been full when a flood's frame
// is refused (ENOBUFS), and that must not end a test.
func TestSYNsWaitForAFullQueue(t *testing.T) {
	w := newWorld(t)
	const n = 200
	dev := w.ClientPort.Name
	sent := func() (packets uint64) {
		w.must(w.Client.Do(func() error {
			l, err := netlink.LinkByName(dev)
			if err == nil {
				packets = l.Attrs().Statistics.TxPackets
			}
			return err
		}))
		return packets
	}
	w.must(w.Client.Do(func() error { // a queue of some thirty SYNs, 4,000 a second
		out, err := exec.Command("tc", strings.Fields("qdisc add dev "+dev+" root tbf rate 2mbit burst 2000 limit 2000")...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("tc: %w: %s", err, out)
		}
		return nil
	}))
	before := sent()
	syns := harness.NewSYNs(t, w.ClientPort, w.ServerPort)
	for i := range n {
		syns.Send(netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 3, 3}), uint16(2000+i)), netip.AddrPortFrom(w.ServerAddr(false), webPort), nil)
	}
	w.await("every SYN to leave", func() bool { return sent() >= before+n })
}
