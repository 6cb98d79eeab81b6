// SPDX-License-Identifier: Apache-2.0

package offender

import (
	"testing"
	"time"

	"tidegate/internal/plane"
	"tidegate/internal/routers"
)

// Only handshakes count for routers: neither segments that carry a codepoint, nor what cannot be read whole.
func TestCrowd(t *testing.T) {
	for name, c := range map[string]struct {
		before, after plane.Proven
		want          float64
	}{
		"quiet":       {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 1, 60, 0, 0), 0},
		"connections": {row("10.1.0.7", 1, 10, 0, 0), row("10.1.0.7", 1, 310, 0, 0), 300},
		"invalid":     {row("10.1.0.7", 1, 10, 0, 5), row("10.1.0.7", 1, 11, 0, 1_000_000), 0},
		"a new owner": {row("10.1.0.8", 1, 10, 0, 0), row("10.1.0.7", 2, 300, 0, 0), 0},
		"moving in":   {row("10.1.0.7", 1, 10, 0, 0), func() plane.Proven { p := row("10.1.0.7", 1, 300, 0, 0); p.TurnBefore++; return p }(), 0},
	} {
		w, at := &crowd{rate: 100}, time.Unix(1000, 0)
		if list := w.judge([]plane.Proven{c.before}, at); len(list) != 0 {
			t.Errorf("%s: the first look knows no rate", name)
		}
		list := w.judge([]plane.Proven{c.after}, at.Add(time.Second))
		if (len(list) == 1) != (c.want > 0) || len(list) == 1 && list[0].PerSecond != c.want {
			t.Errorf("%s: %v, want %v", name, list, c.want)
		}
	}
}

// By source, a source's handshakes with all addresses are summed; by pair, each address stands for itself.
func TestCrowdSums(t *testing.T) {
	rows := func(n uint32) []plane.Proven {
		a, b := row("10.1.0.7", 1, n, 0, 0), row("10.1.0.7", 3, n, 0, 0)
		b.Dst, _ = words("203.0.113.2")
		return []plane.Proven{a, b}
	}
	for byPair, want := range map[bool]int{false: 1, true: 0} {
		w, at := &crowd{rate: 100, byPair: byPair}, time.Unix(1000, 0)
		w.judge(rows(0), at)
		var list []routers.Offence
		if list = w.judge(rows(60), at.Add(time.Second)); len(list) != want {
			t.Errorf("by pair %v: %v", byPair, list)
		}
		if want == 1 && (list[0].PerSecond != 120 || list[0].Dst.IsValid()) {
			t.Errorf("%+v", list[0])
		}
	}
}
