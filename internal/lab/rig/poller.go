// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Poller is the kernel thread that polls a port's ring: threaded NAPI.
// Without it a veth receives frames in the sender's softirq, so that a
// flood can never send more than its victim can process.
type Poller struct {
	pid      int
	reserved bool
}

// PollOn gives a port a poller on that processor (-1: any). It lasts while the port's NAPI
// runs, and across changes of program. It runs before processes, and leaves them a tenth
// when it is overloaded (see Reserve); a prompt poller leaves them nothing, and yields only to one with a reservation.
func (p *Port) PollOn(cpu int, prompt bool) (*Poller, error) {
	prefix := "napi/" + p.Name + "-"
	before := kernelThreads(prefix)
	if err := p.writeSys("threaded", "1"); err != nil {
		return nil, fmt.Errorf("threaded NAPI on %s: %w", p.Name, err)
	}
	var mine []int
	for pid := range kernelThreads(prefix) {
		if !before[pid] {
			mine = append(mine, pid)
		}
	}
	if len(mine) != 1 {
		return nil, fmt.Errorf("threaded NAPI on %s: %d new threads named %s, want one", p.Name, len(mine), prefix)
	}
	t := &Poller{pid: mine[0]}
	if cpu >= 0 {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(t.pid, &set); err != nil {
			return nil, fmt.Errorf("pin %s: %w", prefix, err)
		}
	}
	attr := nicePoller
	if prompt {
		attr = promptThread
	}
	return t, schedSetAttr(t.pid, &attr)
}

// promptThread yields to nothing without a real-time priority.
var promptThread = unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}

// nicePoller runs before processes; with a short slice (Linux 6.12) it runs soon after it wakes.
var nicePoller = unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: pressing, Runtime: uint64(100 * time.Microsecond)}

// What a poller may use of each period, in nanoseconds: nearly everything; the rest is for the
// processes on its processor, however many packets wait. The kernel notices only at a tick (HRTICK_DL is off) that a thread has
// used more, every 4 ms; but a thread that has then is held up to the end of its period, so that is short.
const (
	pollRuntime = 900_000
	pollPeriod  = 1_000_000
)

// Reserve gives the poller a reservation (SCHED_DEADLINE) on its processor, so that it runs as soon as it wakes,
// whatever process runs there, as an interrupt would. With a nice value alone (EEVDF, Linux 6.18) it waits up
// to a tick for a running process: 4 ms, in which a ring of 256 frames overflows many times. The kernel refuses a
// reservation for a thread bound to a processor, but leaves the only thread with a reservation where it was. A
// thread that was moved nevertheless is bound again, and gets its reservation at the next call. If the
// kernel refuses, the nice value remains.
func (t *Poller) Reserve(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	at, err := t.LastCPU()
	if err != nil {
		return fmt.Errorf("the poller has exited because its port's NAPI was stopped: %w", err)
	}
	if at != cpu {
		t.reserved = false
		attr := nicePoller
		return errors.Join(schedSetAttr(t.pid, &attr), unix.SchedSetaffinity(t.pid, &one))
	}
	if t.reserved {
		return nil
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_DEADLINE, Runtime: pollRuntime, Deadline: pollPeriod, Period: pollPeriod}
	if err := unix.SchedSetaffinity(t.pid, allProcessors()); err != nil {
		return err
	}
	if err := schedSetAttr(t.pid, &attr); err != nil {
		return unix.SchedSetaffinity(t.pid, &one)
	}
	t.reserved = true
	return nil
}

// PromptThread calls start, which makes a kernel thread whose name has this prefix, and lets that thread run before everything but a
// poller with a reservation.
func PromptThread(prefix string, start func() error) error {
	before := kernelThreads(prefix)
	if err := start(); err != nil {
		return err
	}
	n := 0
	for pid := range kernelThreads(prefix) {
		if before[pid] {
			continue
		}
		n++
		if err := schedSetAttr(pid, &promptThread); err != nil {
			return err
		}
	}
	if n != 1 {
		return fmt.Errorf("%d new kernel threads named %s, want one", n, prefix)
	}
	return nil
}

func schedSetAttr(pid int, attr *unix.SchedAttr) error {
	if err := unix.SchedSetAttr(pid, attr, 0); err != nil {
		return fmt.Errorf("priority of thread %d: %w", pid, err)
	}
	return nil
}

// CPU returns the processor time that the poller has used, and how long it was runnable while
// another thread ran on its processor.
func (t *Poller) CPU() (used, waited time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", t.pid))
	if err != nil {
		return 0, 0, fmt.Errorf("the poller has exited because its port's NAPI was stopped: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &used, &waited); err != nil {
		return 0, 0, fmt.Errorf("/proc/%d/schedstat: %w", t.pid, err)
	}
	return used, waited, nil
}

// LastCPU is the processor that the poller last ran on.
func (t *Poller) LastCPU() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.pid))
	if err != nil {
		return -1, err
	}
	_, after, _ := strings.Cut(string(text), ") ") // state is field 3, processor 39 (proc_pid_stat(5))
	f := strings.Fields(after)
	if len(f) < 37 {
		return -1, fmt.Errorf("/proc/%d/stat: %q", t.pid, text)
	}
	return strconv.Atoi(f[36])
}

// kernelThreads returns the kernel threads whose name has this prefix.
func kernelThreads(prefix string) map[int]bool {
	found := map[int]bool{}
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), prefix) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found[pid] = true
		}
	}
	return found
}

// writeSys writes a file of the port's folder in sysfs. A sysfs mount shows only the devices of the
// namespace it was mounted in, so sysfs is mounted again, on a thread that ends afterwards.
func (p *Port) writeSys(file, value string) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has mounts of its own
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("mount namespace: %w", err)
			}
			if err := netns.Set(p.NS.fd); err != nil {
				return err
			}
			err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
				unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
			if err != nil {
				return fmt.Errorf("mount sysfs: %w", err)
			}
			return os.WriteFile(filepath.Join("/sys/class/net", p.Name, file), []byte(value), 0)
		}()
	}()
	return <-done
}
