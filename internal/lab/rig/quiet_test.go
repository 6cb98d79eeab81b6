// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func affinity(t *testing.T, pid int) unix.CPUSet {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

// A quiet processor has neither kernel threads that can move nor this process and its children;
// afterwards everything is as it was, and Clean does the same for a lab that was killed.
func TestQuiet(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("the lab needs root: run with sudo")
	}
	cpus := allowedCPUs()
	if len(cpus) < 2 {
		t.Skip("one processor: nothing can be moved")
	}
	cpu := cpus[1]
	own := affinity(t, os.Getpid())
	kernel, err := movableKernelThreads(cpu)
	if err != nil || len(kernel) == 0 {
		t.Fatalf("kernel threads that can be moved: %v, %v", kernel, err)
	}
	w := &Workplace{Dir: t.TempDir()}
	restore, err := w.Quiet(cpu)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range kernel {
		if set := affinity(t, o.pid); set.IsSet(cpu) && o.alive() {
			t.Errorf("kernel thread %v may still run on processor %d", o, cpu)
		}
	}
	child := exec.Command("sleep", "infinity")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	for _, pid := range []int{os.Getpid(), child.Process.Pid} {
		if set := affinity(t, pid); set.IsSet(cpu) {
			t.Errorf("process %d may still run on processor %d", pid, cpu)
		}
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for _, o := range kernel {
			if set := affinity(t, o.pid); o.alive() && set != *allProcessors() {
				t.Errorf("%s: kernel thread %v is bound to %v", when, o, set)
			}
		}
	}
	check("restored")
	if set := affinity(t, os.Getpid()); set != own {
		t.Errorf("this process is bound to %v, was to %v", set, own)
	}

	// Killed: only the list is left, in the folder of an owner that is dead.
	dead := filepath.Join(LabDir, "1-1") // process 1 started at another time
	if err := os.MkdirAll(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Workplace{Dir: dead}).Quiet(cpu); err != nil {
		t.Fatal(err)
	}
	if err := bindThreads(os.Getpid(), &own); err != nil {
		t.Fatal(err)
	}
	if _, err := Clean(); err != nil {
		t.Fatal(err)
	}
	check("cleaned")
}
