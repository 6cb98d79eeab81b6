// SPDX-License-Identifier: Apache-2.0

package load

import (
	"testing"
	"time"
)

// One call lasts about as long at every rate, and a batch, in which softirqs are off, is short or small.
func TestEvenSizes(t *testing.T) {
	for _, rate := range []Rate{0, 200, 1000, 31_000, 200_000, 1e6, 3e6, RateMax} {
		frames, batch := evenSizes(rate)
		if frames < 100 || frames > batchMax || batch < 1 || batch > evenBatch {
			t.Errorf("%s: %d frames in a call, %d in a batch", rate, frames, batch)
		}
		if gap := time.Duration(1e9 / max(float64(rate), 1)); gap >= evenStep && time.Duration(batch)*evenStep > evenSpan {
			t.Errorf("%s: softirqs wait for %d frames of %s", rate, batch, evenStep)
		}
	}
}
