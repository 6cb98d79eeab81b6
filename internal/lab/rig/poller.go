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

// Poller is the kernel thread that takes a port's frames out of its ring: threaded NAPI.
// Without it a veth's frames are received in the softirq of who sent them, so that a
// flood can never send more than its victim bears.
type Poller struct {
	pid      int
	reserved bool
}

// PollOn gives a port a poller on that processor (-1: any). It holds for a port whose NAPI
// runs, and for one program after the other. It comes before processes, and leaves them a tenth
// when it is overloaded (see Reserve); a prompt one leaves them nothing, and yields only to one with a reservation.
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
		attr = unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	}
	return t, schedSetAttr(t.pid, &attr)
}

// nicePoller comes before processes; a short slice (Linux 6.12) has it run soon after it is woken.
var nicePoller = unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: pressing, Runtime: uint64(100 * time.Microsecond)}

// What a poller may use of each period, nanoseconds: nearly everything, and what is left is for the
// processes on its processor, however many packets wait. A period is a tick or more: the kernel looks no
// more often (HRTICK_DL is off).
const (
	pollRuntime = 7_200_000
	pollPeriod  = 8_000_000
)

// Reserve gives it a reservation (SCHED_DEADLINE) of the processor that it is on, so that it runs the moment it is woken,
// whatever process has its processor, as an interrupt would. With a nice value alone (EEVDF, Linux 6.18) it waits up
// to a tick for a process that runs, 4 ms in which a ring of 256 frames overflows many times. The kernel takes no
// reservation of a thread that is bound to a processor; but the only one with a reservation stays where it was. One
// that has been moved all the same is bound again, and has its reservation when it is asked for next. Where the
// kernel refuses, the nice value remains.
func (t *Poller) Reserve(cpu int) error {
	var all, one unix.CPUSet
	for i := range runtime.NumCPU() {
		all.Set(i)
	}
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
	if err := unix.SchedSetaffinity(t.pid, &all); err != nil {
		return err
	}
	if err := schedSetAttr(t.pid, &attr); err != nil {
		return unix.SchedSetaffinity(t.pid, &one)
	}
	t.reserved = true
	return nil
}

func schedSetAttr(pid int, attr *unix.SchedAttr) error {
	if err := unix.SchedSetAttr(pid, attr, 0); err != nil {
		return fmt.Errorf("priority of thread %d: %w", pid, err)
	}
	return nil
}

// CPU is the processor time that the poller has used, and for how long it was ready and
// somebody else had its processor.
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

// LastCPU is the processor that the poller ran on last.
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

// kernelThreads are those whose name begins so.
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

// writeSys writes a file of the port's folder in sysfs, which shows only the devices of the
// namespace that it was mounted in: so it is mounted once more, on a thread that ends after.
func (p *Port) writeSys(file, value string) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never given back: its mounts are its own
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
