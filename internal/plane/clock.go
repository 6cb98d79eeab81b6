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

// WallMinusMonoNs is the offset in Settings from that clock to the wall clock.
// Only a step of the wall clock changes it; both clocks are slewed alike.
func WallMinusMonoNs(now time.Time) uint64 { return uint64(now.UnixNano() - MonotonicNs()) }
