// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"
	"time"
)

// A wait polls often at first, and ever less often: a minute is a few hundred polls, where one each 10 ms are 6,000.
func TestLongWaitsPollSeldom(t *testing.T) {
	polls, waited := 0, time.Duration(0)
	for waited < Patience {
		next := untilNextPoll(waited, pause)
		if next < pause || next > longestPause || next > max(pause, waited/waitedShare) {
			t.Fatalf("after %v the next poll is %v off", waited, next)
		}
		waited += next
		polls++
	}
	if polls > 400 {
		t.Errorf("%d polls in %v", polls, Patience)
	}
}
