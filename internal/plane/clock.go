// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MonotonicNs is the clock that the packet paths read: CLOCK_MONOTONIC as it is outside of all time namespaces.
func MonotonicNs() int64 {
	var mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) // cannot fail
	return mono.Nano() - timeNamespaceNs()
}

// timeNamespaceNs is what this process's time namespace (time_namespaces(7)) adds to CLOCK_MONOTONIC. It stays the same from
// the namespace's first process on. A container that was moved from another machine while it ran has one.
var timeNamespaceNs = sync.OnceValue(func() int64 {
	offsets, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0 // a kernel without time namespaces
	}
	return monotonicOffsetNs(string(offsets))
})

// monotonicOffsetNs reads the file timens_offsets: a line for each clock, its name, seconds and nanoseconds.
func monotonicOffsetNs(offsets string) int64 {
	for line := range strings.Lines(offsets) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "monotonic" {
			continue
		}
		seconds, err1 := strconv.ParseInt(fields[1], 10, 64)
		ns, err2 := strconv.ParseInt(fields[2], 10, 64)
		if err1 == nil && err2 == nil {
			return seconds*int64(time.Second) + ns
		}
	}
	return 0
}

// WallMinusMonoNs is the offset in Settings from that clock to the wall clock.
// Only a step of the wall clock changes it; both clocks are slewed alike.
func WallMinusMonoNs(now time.Time) uint64 { return uint64(now.UnixNano() - MonotonicNs()) }
