// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// movedFile, in a workplace's folder, lists the kernel threads that Quiet moved, so that Clean can
// move them back for a lab that was killed.
const movedFile = "moved-kernel-threads"

// Flags of a task, field 9 of /proc/PID/stat (the kernel's include/linux/sched.h).
const (
	flagKernelThread  = 0x00200000
	flagNoSetAffinity = 0x04000000
)

// Quiet keeps a processor free of everything that can run elsewhere: of this process and the children that it
// starts from now on, unless they are bound to the processor, and of kernel threads that are not bound.
// A kernel thread yields only voluntarily: DAMON's holds its processor for up to 0.7 ms, in which
// a ring of 256 frames overflows five times at two million frames a second. restore undoes it.
// With one processor nothing can be moved.
func (w *Workplace) Quiet(cpu int) (restore func() error, err error) {
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &own); err != nil {
		return nil, fmt.Errorf("processors of this process: %w", err)
	}
	rest := own
	rest.Clear(max(cpu, 0))
	if cpu < 0 || rest.Count() == 0 {
		return func() error { return nil }, nil
	}
	path := filepath.Join(w.Dir, movedFile)
	threads, err := movableKernelThreads(cpu)
	if err != nil {
		return nil, err
	}
	var record bytes.Buffer
	for _, o := range threads {
		fmt.Fprintln(&record, o)
	}
	if err := os.WriteFile(path, record.Bytes(), 0o600); err != nil {
		return nil, err
	}
	restore = func() error {
		return errors.Join(bindThreads(os.Getpid(), &own), putBack(path, allProcessors()))
	}
	for _, o := range threads {
		others := allProcessors()
		others.Clear(cpu)
		_ = unix.SchedSetaffinity(o.pid, others) // a thread that has ended or cannot be moved does no harm
	}
	if err := bindThreads(os.Getpid(), &rest); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// movableKernelThreads returns those that may run on every processor, including cpu, and whose affinity the kernel
// allows to change.
func movableKernelThreads(cpu int) ([]Owner, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	every := allProcessors()
	var found []Owner
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		flags, err := taskFlags(pid)
		if err != nil || flags&flagKernelThread == 0 || flags&flagNoSetAffinity != 0 {
			continue
		}
		var set unix.CPUSet
		if unix.SchedGetaffinity(pid, &set) != nil || set != *every || !set.IsSet(cpu) {
			continue // bound on purpose
		}
		if o, err := OwnerOf(pid); err == nil {
			found = append(found, o)
		}
	}
	return found, nil
}

// putBack restores the affinity of the listed kernel threads. Without a list it does nothing.
func putBack(path string, set *unix.CPUSet) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	errs := []error{}
	for line := range strings.Lines(string(text)) {
		o, _, ok := parseOwner(strings.TrimSpace(line))
		if !ok || !o.alive() {
			continue
		}
		if err := unix.SchedSetaffinity(o.pid, set); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("reset the affinity of kernel thread %d: %w", o.pid, err))
		}
	}
	return errors.Join(append(errs, os.Remove(path))...)
}

// allProcessors are those that are online.
func allProcessors() *unix.CPUSet {
	var set unix.CPUSet
	text, err := os.ReadFile("/sys/devices/system/cpu/online") // such as 0-3,6
	if err != nil {
		return &set
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA != nil || errB != nil {
			continue
		}
		for i := a; i <= b; i++ {
			set.Set(i)
		}
	}
	return &set
}

// bindThreads binds each thread of a process to these processors; threads that they start inherit it.
func bindThreads(pid int, set *unix.CPUSet) error {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(tid, set); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("bind thread %d: %w", tid, err))
		}
	}
	return errors.Join(errs...)
}

// taskFlags is field 9 of /proc/PID/stat.
func taskFlags(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	return strconv.ParseUint(fields[6], 10, 64)
}
