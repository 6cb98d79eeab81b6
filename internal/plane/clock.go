// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"time"

	"golang.org/x/sys/unix"
)

// MonotonicNs is the clock that the packet paths read.
func MonotonicNs() int64 {
	var mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) // cannot fail
	return mono.Nano()
}

// WallMinusMonoNs is what Settings say has to be added to that clock to get the wall's.
// Only a stepped wall clock changes it; both clocks are slewed alike.
func WallMinusMonoNs(now time.Time) uint64 { return uint64(now.UnixNano() - MonotonicNs()) }
