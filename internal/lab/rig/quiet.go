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

// movedFile, in a workplace's folder, lists the threads that Quiet moved, so that Clean can
// move them back for a lab that was killed.
const movedFile = "moved-threads"

// Flags of a task, field 9 of /proc/PID/stat (the kernel's include/linux/sched.h).
const (
	flagKernelThread  = 0x00200000
	flagNoSetAffinity = 0x04000000
)

// Quiet keeps a processor free of everything that can run elsewhere: of this process and the children that it
// starts from now on, unless they are bound to the processor, of kernel threads that are not bound, and with alone
// also of all other processes' threads that are not.
//
// What works inside the kernel yields only voluntarily, unless the kernel is preemptible: DAMON's thread holds its processor for
// up to 0.7 ms, a process that reads much of /proc for 2 to 4 ms. A ring of 256 frames overflows in 0.1 ms at
// two million frames a second, a queue of 4,096 in 2 ms.
//
// restore undoes it, also for threads that were started meanwhile and have inherited it.
// With one processor nothing can be moved.
func (w *Workplace) Quiet(cpu int, alone bool) (restore func() error, err error) {
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
	since, err := ticksSinceBoot()
	if err != nil {
		return nil, err
	}
	threads, err := movableThreads(cpu, alone)
	if err != nil {
		return nil, err
	}
	var record bytes.Buffer
	fmt.Fprintln(&record, cpu, since)
	for _, o := range threads {
		fmt.Fprintln(&record, o)
	}
	if err := os.WriteFile(path, record.Bytes(), 0o600); err != nil {
		return nil, err
	}
	restore = func() error {
		return errors.Join(bindThreads(os.Getpid(), &own), putBack(path))
	}
	others := allBut(cpu)
	for _, o := range threads {
		_ = unix.SchedSetaffinity(o.pid, others) // a thread that has ended or cannot be moved does no harm
	}
	if err := bindThreads(os.Getpid(), &rest); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// movableThreads returns those that may run on every processor, including cpu, and whose affinity the kernel
// allows to change: the kernel's own, and if asked for those of all processes but this one.
func movableThreads(cpu int, ofProcesses bool) ([]Owner, error) {
	every := allProcessors()
	if !every.IsSet(cpu) {
		return nil, nil
	}
	return threadsWith(every, func(pid int, ofKernel bool) bool {
		return ofKernel || ofProcesses && pid != os.Getpid()
	})
}

// threadsWith returns the threads with exactly this affinity, except those that the kernel has bound,
// of the processes that wanted chooses.
func threadsWith(affinity *unix.CPUSet, wanted func(pid int, ofKernel bool) bool) ([]Owner, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Owner
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		flags, err := taskFlags(pid)
		if err != nil || flags&flagNoSetAffinity != 0 || !wanted(pid, flags&flagKernelThread != 0) {
			continue
		}
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // none if it has ended
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			var set unix.CPUSet
			if err != nil || unix.SchedGetaffinity(tid, &set) != nil || set != *affinity {
				continue // of those that differ, somebody has bound them on purpose
			}
			if o, err := OwnerOf(tid); err == nil {
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// putBack lets the listed threads run on every processor again, and those that have inherited from them: whatever was started since, and
// may run everywhere but on the processor that was kept quiet. Without a list it does nothing.
func putBack(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	first, list, _ := strings.Cut(string(text), "\n")
	var cpu int
	var since uint64
	if _, err := fmt.Sscan(first, &cpu, &since); err != nil {
		return errors.Join(fmt.Errorf("%s: line 1: want a processor and a time: %w", path, err), os.Remove(path))
	}
	moved := []Owner{}
	for line := range strings.Lines(list) {
		if o, _, ok := parseOwner(strings.TrimSpace(line)); ok {
			moved = append(moved, o)
		}
	}
	heirs, err := threadsWith(allBut(cpu), func(int, bool) bool { return true })
	errs := []error{err}
	for _, o := range heirs {
		if o.startTicks >= since {
			moved = append(moved, o)
		}
	}
	for _, o := range moved {
		if !o.alive() {
			continue
		}
		if err := unix.SchedSetaffinity(o.pid, allProcessors()); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("reset the affinity of thread %d: %w", o.pid, err))
		}
	}
	return errors.Join(append(errs, os.Remove(path))...)
}

// ticksSinceBoot is the present in the unit of Owner.
func ticksSinceBoot() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, err
	}
	return uint64(now.Nano()) / (1e9 / userHZ), nil
}

// userHZ is how many ticks a second has in /proc, on every architecture that Tidegate is built for.
const userHZ = 100

// allBut are the processors that are online, except one.
func allBut(cpu int) *unix.CPUSet {
	set := allProcessors()
	set.Clear(cpu)
	return set
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
