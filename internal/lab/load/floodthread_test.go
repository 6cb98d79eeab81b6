// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"
	"time"

	"tidegate/internal/lab/rig"
)

// A flood's thread may have started a child, which dies with that
// thread (Pdeathsig): the thread must not end with the flood.
func TestFloodLeavesChildrenAlive(t *testing.T) {
	p, f := floodOnPair(t)
	for range 20 {
		child, err := rig.StartProcess(p.Far.NS, -1, nil, nil, "sleep", "60")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Burst(64); err != nil {
			t.Fatal(err)
		}
		select {
		case <-child.Exited:
			t.Fatalf("a child died with the flood: %v", child.Failure())
		case <-time.After(20 * time.Millisecond):
		}
		child.Stop(time.Second)
	}
}
