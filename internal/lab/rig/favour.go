// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Nice values of what runs before the machine's other work.
const (
	favoured = -10 // processes
	pressing = -19 // receivers of packets, which would run as interrupts
)

// Favour raises the priority of a process, with all its threads, above other work on its processor and
// below the threads that receive packets there.
func Favour(pid int) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			errs = append(errs, unix.Setpriority(unix.PRIO_PROCESS, tid, favoured))
		}
	}
	return errors.Join(errs...)
}

// WithFavour runs f with the priority of the calling thread raised.
func WithFavour(f func() error) error {
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, favoured); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-before) }() // the system call returns 20 minus the nice value
	return f()
}
