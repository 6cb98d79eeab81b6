// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"
	"time"
)

// Each call sends what is due, few at once, and the calls are few: a made-up sender
// that needs no time for a frame keeps every rate.
func TestEvenCalls(t *testing.T) {
	for _, rate := range []Rate{200, 1000, 16_000, 31_000} {
		next, frames, calls := monotonicNs(), 0, 0
		begin := time.Now()
		for time.Since(begin) < 200*time.Millisecond {
			n := dueNow(rate, &next)
			if n == 0 {
				continue
			}
			if n > evenBurst {
				t.Fatalf("%s: %d frames at once", rate, n)
			}
			frames, calls = frames+n, calls+1
			next += int64(float64(n) * 1e9 / float64(rate))
		}
		most := float64(rate)*time.Since(begin).Seconds() + evenBurst
		if float64(frames) > most || calls > 500 || frames == 0 {
			t.Errorf("%s: %d frames in %d calls, at most %.0f in 500", rate, frames, calls, most)
		}
	}
}
