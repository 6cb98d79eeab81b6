// SPDX-License-Identifier: Apache-2.0

package filterman_test

import (
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/ifp"
	"tidegate/internal/role/filterman"
)

// A floor reaches the patrol: the request's own, else the manager's.
func TestFloorReachesThePatrol(t *testing.T) {
	n := start(t, 0)
	m := filterman.NewManager(filterman.Options{Engine: n.Engine, Authority: n.Authority, Own: own, Expires: time.Minute, Floor: 100, Log: slog.New(slog.DiscardHandler)})
	for src, floor := range map[string]uint32{"10.1.0.1/32": 0, "10.1.0.2/32": 8, "10.1.0.3/32": 1 << 30} {
		if _, err := add(t, m, filterman.Request{Src: prefix(src), Dst: prefix("198.51.100.1/32"), Witness: filterman.SeenTS, Floor: floor}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]uint8{"10.1.0.1/32": 7, "10.1.0.2/32": 4, "10.1.0.3/32": ifp.MaxFloorLog2}
	n.Tables[0].Each(monotonicS(t), func(f ifp.Filter, _ ifp.Stat) bool {
		if f.FloorLog2 != want[f.Src.String()] || f.WindowS != 10 {
			t.Errorf("%s: floor 2^%d packets/s over %d s, want 2^%d over 10 s", f.Src, int(f.FloorLog2)-1, f.WindowS, int(want[f.Src.String()])-1)
		}
		delete(want, f.Src.String())
		return true
	})
	if len(want) > 0 {
		t.Errorf("not at the patrol: %v", want)
	}
}

// monotonicS is the clock by which filters expire.
func monotonicS(t *testing.T) uint32 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now); err != nil {
		t.Fatal(err)
	}
	return uint32(now.Sec)
}
