// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"time"

	"tidegate/internal/plane"
)

// learning is how long a new filter forwards what it does not know: from its beginning for `learning`, as it is now set.
type learning struct {
	began int64         // ns of CLOCK_MONOTONIC; 0: an earlier process has begun the filter, and its end stays
	least time.Duration // longer than `learning`, where flows of a filter before have to be learned again
}

// begin is called for a filter that knows no flow.
func (l *learning) begin(least time.Duration) { l.began, l.least = plane.MonotonicNs(), least }

// until is the end, in ns of CLOCK_MONOTONIC; `was` is the end of a filter that is not ours.
func (l *learning) until(set time.Duration, was uint64) uint64 {
	if l.began == 0 {
		return was
	}
	return uint64(l.began + max(set, l.least).Nanoseconds())
}
