// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"testing"

	"tidegate/internal/detect"
)

// The detector is on where it should be, in time, and nowhere else, with every seed.
func TestReplay(t *testing.T) {
	for seed := range uint64(2) {
		for _, trace := range All(seed + 1) {
			r := Replay(trace, detect.Default())
			t.Logf("%-22s detected %v after %d ms, off after %d ms, %d false, %d switches, y at most %.1f", r.Name, r.Detected, r.DelayMs, r.OffAfterMs, r.FalseAlarms, r.Switches, r.MaxY)
			if !r.Good() {
				t.Errorf("seed %d, %s: %+v", seed+1, trace.Name, Result{Name: r.Name, Detected: r.Detected, DelayMs: r.DelayMs, FalseAlarms: r.FalseAlarms, OffAfterMs: r.OffAfterMs})
			}
			if r.Attack && r.Switches > 2 {
				t.Errorf("%s: switched %d times in one attack", trace.Name, r.Switches)
			}
			if one := trace.Name == "flood"; one && !r.OnlyPrefix {
				t.Errorf("%s: the whole service was protected, although one address was attacked", trace.Name)
			}
		}
	}
}
