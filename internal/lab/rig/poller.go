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
type Poller struct{ pid int }

// PollOn gives a port a poller on that processor (-1: any). It holds for a port whose NAPI
// runs, and for one program after the other. It comes before processes, and
// shares with them when it is overloaded, as softirqs do; a prompt one does not share.
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
	t := &Poller{mine[0]}
	if cpu >= 0 {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(t.pid, &set); err != nil {
			return nil, fmt.Errorf("pin %s: %w", prefix, err)
		}
	}
	// A short slice (Linux 6.12) has it run as soon as it is woken, as an interrupt would.
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: pressing, Runtime: uint64(100 * time.Microsecond)}
	if prompt {
		attr = unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	}
	if err := unix.SchedSetAttr(t.pid, &attr, 0); err != nil {
		return nil, fmt.Errorf("priority of %s: %w", prefix, err)
	}
	return t, nil
}

// CPU is the processor time that the poller has used, and for how long it was ready and
// somebody else had its processor.
func (t *Poller) CPU() (used, waited time.Duration, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", t.pid))
	if err != nil {
		return 0, 0, fmt.Errorf("the poller has ended: its port's NAPI was stopped: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &used, &waited); err != nil {
		return 0, 0, fmt.Errorf("/proc/%d/schedstat: %w", t.pid, err)
	}
	return used, waited, nil
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
