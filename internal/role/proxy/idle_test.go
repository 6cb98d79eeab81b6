// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"testing"
	"time"

	"tidegate/internal/config"
)

// Flows are swapped after idle_time, or when enough connections were begun to fill a
// quarter of a table, or of the presence bits; never for nothing.
func TestFlowsAreDue(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	p := &config.Proxy{SwapPeriod: 5 * time.Minute, IdleTime: time.Hour, MaxFlows: 1024}
	for _, c := range []struct {
		name   string
		opened uint64
		after  time.Duration
		flows  int
		want   bool
	}{
		{"little, soon", 355, 5 * time.Minute, 1024, false},
		{"a quarter of the table", 356, 5 * time.Minute, 1024, true},
		{"little, just before", 100, 55 * time.Minute, 1024, false},
		{"little, after idle_time", 100, time.Hour, 1024, true},
		{"a ticker that is early", 100, time.Hour - time.Second, 1024, true},
		{"a service and its counters went", 50, 5 * time.Minute, 1024, true},
		{"a large table and its presence bits", 100 + 1<<19 - 1, 5 * time.Minute, 1 << 24, false},
		{"too many for the presence bits", 100 + 1<<19, 5 * time.Minute, 1 << 24, true},
	} {
		a := flowAge{opened: 100, swapped: start}
		p.MaxFlows = c.flows
		now := start.Add(c.after)
		if got := a.due(c.opened, now, p); got != c.want {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
		if c.want && (a.opened != c.opened || !a.swapped.Equal(now)) {
			t.Errorf("%s: not noted: %+v", c.name, a)
		}
	}
	// With idle_time at or below swap_period every period swaps.
	p = &config.Proxy{SwapPeriod: time.Second, IdleTime: time.Second, MaxFlows: 1024}
	a := flowAge{swapped: start}
	for i := range 3 {
		if !a.due(0, start.Add(time.Duration(i+1)*time.Second), p) {
			t.Errorf("period %d: not due", i)
		}
	}
}
