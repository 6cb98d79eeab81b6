// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoCounters: the machine, often a virtual one, has no performance counters.
var ErrNoCounters = errors.New("this machine has no performance counters")

// Counter counts an event on one processor, as `perf stat -C` does.
type Counter struct{ fd int }

// CountInstructions counts the instructions of one processor, whoever executes them.
func CountInstructions(cpu int) (*Counter, error) {
	return count(cpu, unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS)
}

func count(cpu int, kind uint32, event uint64) (*Counter, error) {
	attr := unix.PerfEventAttr{Type: kind, Config: event, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return nil, ErrNoCounters
	case err != nil:
		return nil, fmt.Errorf("perf_event_open on processor %d: %w", cpu, err)
	}
	return &Counter{fd}, nil
}

// Stop ends counting and returns how often the event happened.
func (c *Counter) Stop() (n uint64, err error) {
	var b [8]byte
	_, err = unix.Read(c.fd, b[:])
	return binary.NativeEndian.Uint64(b[:]), errors.Join(err, unix.Close(c.fd))
}

// Instructions returns how many instructions a processor executes during f; 0 if they cannot be counted here.
func Instructions(cpu int, f func() error) (n uint64, err error) {
	c, err := CountInstructions(cpu)
	if err != nil { // CountInstructions says why, to those who must know
		return 0, f()
	}
	err = f()
	n, stopErr := c.Stop()
	return n, errors.Join(err, stopErr)
}
