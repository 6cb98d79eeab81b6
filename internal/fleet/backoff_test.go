// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"
)

// Pauses double up to a bound, are never longer than that, and differ from node to node: of 5,000 that lose a server at once, no tenth of the time sees more than a fifth.
func TestBackoffSpreads(t *testing.T) {
	const first = 2 * time.Second
	for again, most := range []time.Duration{first, 2 * first, 4 * first, 8 * first, 8 * first, 8 * first} {
		var tenths [10]int
		for range 5000 {
			p := backoff(first, again)
			if p < most/2 || p > most {
				t.Fatalf("attempt %d: %v, want %v to %v", again, p, most/2, most)
			}
			tenths[min(9, int(10*(p-most/2)/(most/2)))]++
		}
		for i, n := range tenths {
			if n > 1000 {
				t.Errorf("attempt %d: %d of 5000 nodes in tenth %d", again, n, i)
			}
		}
	}
	if p := backoff(first, 1<<30); p > longest*first {
		t.Errorf("%v", p)
	}
}
