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
		idle  = time.Second          // a connection may be forgotten then
	)
	w.serve(echo)
	w.start(w.config("cookie", "swap_period: 1s", "idle_time: "+idle.String()))
	tick := time.NewTicker(every)
	defer tick.Stop()
	type opened struct {
		*net.TCPConn
		spoke time.Time // not after its last segments
	}
	n, lived := 0, 0
	for range swaps {
		var conns []opened
		now, left := w.flowsGen(), more
		for left > 0 {
			<-tick.C
			spoke := time.Now()
			c, err := w.dial(false)
			if err == nil {
				err = harness.Word(c)
			}
			if err != nil {
				t.Fatalf("connection %d: %v", n, err)
			}
			conns = append(conns, opened{c, spoke})
			n++
			if w.flowsGen() != now {
				left--
			}
		}
		for i, c := range conns[max(0, len(conns)-2*more):] {
			if time.Since(c.spoke) > idle/2 {
				continue // this machine was slow, and the proxy may be about to forget it
			}
			if err := harness.Word(c); err != nil {
				t.Fatalf("of %d connections that were opened about a swap, %d is lost: %v", 2*more, i, err)
			}
			lived++
		}
		for _, c := range conns {
			c.Close()
		}
	}
	if lived < swaps {
		t.Fatalf("%d connections were seen to outlive %d swaps: this machine is too slow", lived, swaps)
	}
	t.Logf("%d connections opened, %d of those about each of %d swaps have outlived it", n, lived, swaps)
}
