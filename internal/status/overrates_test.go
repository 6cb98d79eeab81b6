// SPDX-License-Identifier: Apache-2.0

package status

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// Rates are what has grown since the last look; the first look has none, and one that comes at once repeats the last.
func TestOverRates(t *testing.T) {
	a, b, c := netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("203.0.113.8/32"), netip.MustParsePrefix("203.0.113.9/32")
	began := time.Now()
	var r OverRates
	for i, step := range []struct {
		after time.Duration
		list  []OverLimit
		want  []OverRate
	}{
		{0, []OverLimit{{Prefix: a, Over: 1000}}, nil},
		{10 * time.Second, []OverLimit{{Prefix: a, Over: 1050}, {Prefix: b, Over: 200}}, []OverRate{{b, 20}, {a, 5}}},
		{10*time.Second + time.Millisecond, []OverLimit{{Prefix: a, Over: 9999}}, []OverRate{{b, 20}, {a, 5}}},
		{20 * time.Second, []OverLimit{{Prefix: a, Over: 1050}, {Prefix: b, Over: 30}, {Prefix: c, Over: 10}}, []OverRate{{b, 3}, {c, 1}}}, // b was forgotten in between
		{30 * time.Second, []OverLimit{{Prefix: a, Over: 1060}, {Prefix: b, Over: 50}, {Prefix: c, Over: 40}}, []OverRate{{c, 3}, {b, 2}}},
	} {
		if got := r.Look(step.list, began.Add(step.after), 2); len(got)+len(step.want) > 0 && !reflect.DeepEqual(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
