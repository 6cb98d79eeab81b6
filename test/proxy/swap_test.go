// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net"
	"testing"
	"time"

	harness "tidegate/test/world"
)

// Connections that are opened while the flow tables are being swapped are in the tables afterwards, as all others are.
func TestOpenedDuringSwaps(t *testing.T) {
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) { openDuringSwaps(t, newWorld(t, bridge)) })
	}
}

func openDuringSwaps(t *testing.T, w *world) {
	const (
		swaps = 4
		more  = 50                   // connections after a swap has begun, so that it has ended
		every = 2 * time.Millisecond // some connections in each swap
	)
	w.serve(echo)
	w.start(w.config("cookie", "swap_period: 1s", "idle_time: 1s"))
	tick := time.NewTicker(every)
	defer tick.Stop()
	n := 0
	for range swaps {
		var opened []*net.TCPConn
		now, left := w.flowsGen(), more
		for left > 0 {
			<-tick.C
			c, err := w.dial(false)
			if err == nil {
				err = harness.Word(c)
			}
			if err != nil {
				t.Fatalf("connection %d: %v", n, err)
			}
			opened = append(opened, c)
			n++
			if w.flowsGen() != now {
				left--
			}
		}
		for i, c := range opened[max(0, len(opened)-2*more):] { // no other has been idle for less than a tenth of a second
			if err := harness.Word(c); err != nil {
				t.Fatalf("of %d connections that were opened about a swap, %d is lost: %v", 2*more, i, err)
			}
		}
		for _, c := range opened {
			c.Close()
		}
	}
	t.Logf("%d connections opened, those about each of %d swaps have outlived it", n, swaps)
}
