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

// Real-time priorities (SCHED_FIFO) on the generator's processor: it stands for machines that are never late.
const (
	sendPriority    = 1
	receivePriority = 2
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

// WithRealTime runs f on the calling thread before everything without a real-time priority, and after the threads of PromptThread. Where the
// kernel refuses that, it raises the nice value, as WithFavour does.
func WithRealTime(f func() error) error {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: sendPriority, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		return WithFavour(f)
	}
	defer func() { _ = unix.SchedSetAttr(0, before, 0) }()
	return f()
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
