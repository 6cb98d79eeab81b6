// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func affinity(t *testing.T, pid int) unix.CPUSet {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
	return set // empty for a thread that has ended
}

// A quiet processor runs neither movable kernel threads nor processes, be they older or younger, but what was bound to it;
// afterwards everything is restored, and Clean does the same for a lab that was killed. Another lab on this
// machine may have moved the same threads meanwhile: then the test starts over.
func TestQuiet(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the lab needs root: run with sudo")
	}
	cpus := allowedCPUs()
	if len(cpus) < 2 {
		t.Skip("one processor: nothing can be moved")
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		complaints := quietOnce(t, cpus[1])
		if len(complaints) == 0 {
			return
		}
		if time.Since(begin) > 3*time.Minute {
			t.Fatal(strings.Join(complaints, "\n"))
		}
	}
}

func quietOnce(t *testing.T, cpu int) (complaints []string) {
	t.Helper()
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	own := affinity(t, os.Getpid())
	kernel, err := movableThreads(cpu, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(kernel) == 0 {
		complain("no kernel thread can be moved")
	}
	stranger, bound := startShell(t, allProcessors()), startShell(t, allBut(cpu))
	w := &Workplace{Dir: t.TempDir()}
	restore, err := w.Quiet(cpu, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range kernel {
		// What the kernel does not let anyone move stays where it is.
		if set := affinity(t, o.pid); set.IsSet(cpu) && o.alive() && unix.SchedSetaffinity(o.pid, allBut(cpu)) == nil {
			complain("kernel thread %v may still run on processor %d", o, cpu)
		}
	}
	child := exec.Command("sleep", "infinity")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	heir := stranger.start(t)
	for _, pid := range []int{os.Getpid(), child.Process.Pid, stranger.pid, heir} {
		if set := affinity(t, pid); set.IsSet(cpu) {
			complain("process %d may still run on processor %d", pid, cpu)
		}
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for _, pid := range []int{stranger.pid, heir} {
			if set := affinity(t, pid); set != *allProcessors() {
				complain("%s: process %d is bound to %v", when, pid, set)
			}
		}
		if set := affinity(t, bound.pid); set != *allBut(cpu) {
			complain("%s: a process that was bound before is bound to %v", when, set)
		}
		for _, o := range kernel {
			if set := affinity(t, o.pid); o.alive() && set != *allProcessors() {
				complain("%s: kernel thread %v is bound to %v", when, o, set)
			}
		}
	}
	check("restored")
	if set := affinity(t, os.Getpid()); set != own {
		complain("this process is bound to %v, before it was to %v", set, own)
	}

	// Killed: only the list is left, in the folder of a dead owner: of process 1, started at another time. It gets
	// its name when it is whole: whoever starts a lab meanwhile cleans up after dead owners.
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(LabDir, self.String()+"-made")
	if err := os.MkdirAll(made, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Workplace{Dir: made}).Quiet(cpu, true); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(made, filepath.Join(LabDir, "1-1")); err != nil {
		t.Fatal(err)
	}
	if err := bindThreads(os.Getpid(), &own); err != nil {
		t.Fatal(err)
	}
	heir = stranger.start(t)
	if set := affinity(t, heir); set.IsSet(cpu) {
		complain("process %d may run on processor %d", heir, cpu)
	}
	if _, err := Clean(); err != nil {
		complain("clean: %v", err) // so may another process's leftovers, while it still ends
	}
	check("cleaned")
	return complaints
}

// shell is a process of somebody else's, who can be told to start another.
type shell struct {
	pid int
	in  io.Writer
	out *bufio.Scanner
}

func startShell(t *testing.T, set *unix.CPUSet) *shell {
	t.Helper()
	cmd := exec.Command("sh")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if err := unix.SchedSetaffinity(cmd.Process.Pid, set); err != nil {
		t.Fatal(err)
	}
	return &shell{pid: cmd.Process.Pid, in: in, out: bufio.NewScanner(out)}
}

// start returns the number of a process that runs until the test ends.
func (s *shell) start(t *testing.T) int {
	t.Helper()
	if _, err := io.WriteString(s.in, "sleep infinity >/dev/null & echo $!\n"); err != nil || !s.out.Scan() {
		t.Fatalf("start a process: %v, %v", err, s.out.Err())
	}
	pid, err := strconv.Atoi(s.out.Text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	return pid
}
