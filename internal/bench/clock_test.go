// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/bpfcount"
	"tidegate/internal/plane"
	"tidegate/internal/plane/hostbpf"
)

// A packet asks the clock only in a jiffy in which none has asked, and believes no time of another.
func TestClockIsAskedOnceInAJiffy(t *testing.T) {
	gate := hostGate(t)
	onlyOwn(t, gate)
	xdp, _ := gate.Programs()
	maps := bpfcount.MapsOf(t, xdp)
	table, frame := maps[plane.VarSettings], synFrame("v4-ts", nil)
	spec, err := hostbpf.LoadHostXdp()
	if err != nil {
		t.Fatal(err)
	}
	settings := func() (s plane.Settings) {
		t.Helper()
		if err := table.Lookup(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name  string
		spoil func(s *plane.Settings)
		asks  int
	}{
		{"this jiffy's", func(*plane.Settings) {}, 0},
		{"the jiffy before", func(s *plane.Settings) { s.ClockJiffy-- }, 1},
		{"this jiffy with another's time", func(s *plane.Settings) { s.ClockNs++ }, 1},
		{"none", func(s *plane.Settings) { s.ClockJiffy, s.ClockNs = 0, 0 }, 1},
	} {
		if err := rememberEpoch(maps); err != nil {
			t.Fatal(err)
		}
		s := settings()
		c.spoil(&s)
		if err := table.Put(uint32(0), &s); err != nil {
			t.Fatal(err)
		}
		res, err := bpfcount.XDP(spec.Programs[hostbpf.HostXdpProgTgHostXdp], maps, frame, 1)
		if err != nil {
			t.Fatal(err)
		}
		if n := res.Calls["FnKtimeGetCoarseNs"]; n != c.asks || res.Action != xdpTx {
			t.Errorf("what is remembered is %s: the clock was asked %d times, want %d (action %d)", c.name, n, c.asks, res.Action)
		}
	}
	followsTheClock(t, xdp, settings)
}

// followsTheClock lets the kernel run the program until the time that it remembers has changed twice.
func followsTheClock(t *testing.T, xdp *ebpf.Program, settings func() plane.Settings) {
	t.Helper()
	frame, changes, last := synFrame("v4-ts", nil), 0, uint64(0)
	for until := time.Now().Add(5 * time.Second); changes < 3 && time.Now().Before(until); {
		before := uint64(plane.MonotonicNs())
		if _, _, err := xdp.Test(append([]byte(nil), frame...)); err != nil {
			t.Fatal(err)
		}
		s, now := settings(), uint64(plane.MonotonicNs())
		if (s.ClockNs^s.ClockJiffy)&0xffff != 0 {
			t.Fatalf("the time %#x is not marked with its jiffy %#x", s.ClockNs, s.ClockJiffy)
		}
		// Two ticks, and 2^16 ns, but on a machine that is held up by others.
		if ns := s.ClockNs &^ 0xffff; ns > now || before-ns > uint64(time.Second) && before > ns {
			t.Fatalf("the packet path takes %d ns for the time between %d and %d", ns, before, now)
		}
		if s.ClockNs != last {
			changes, last = changes+1, s.ClockNs
		}
	}
	if changes < 3 {
		t.Error("the packet path's clock stands still")
	}
}
