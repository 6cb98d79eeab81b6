// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/test/world"
)

// tidegate is the program under test.
var tidegate string

// envRunLab makes the test binary run a lab until it is killed.
const envRunLab = "TIDEGATE_TEST_RUN_LAB"

func TestMain(m *testing.M) {
	if code, is := load.IsChild(os.Args); is {
		os.Exit(code)
	}
	if os.Getenv(envRunLab) != "" {
		os.Exit(runLabUntilKilled())
	}
	os.Exit(world.Main(m, &tidegate))
}

func runLabUntilKilled() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := DefaultOptions()
	o.Defence, o.Rate, o.Load, o.Duration = defences.Kernel, 1000, 50, time.Minute
	o.Server = load.ServerBuiltin
	o.Progress = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		fmt.Println("lab ended:", err)
		return 1
	}
	return 0
}

// runUndisturbed runs an experiment, and repeats it a few times if other work on the
// machine voided it.
func runUndisturbed(t *testing.T, o Options) (*Result, error) {
	t.Helper()
	for try := 1; ; try++ {
		r, err := Run(t.Context(), o)
		if try == 5 || !errors.Is(err, ErrDisturbed) {
			return r, err
		}
		t.Log(err)
	}
}

func TestFloodKernelServesNoneDoesNot(t *testing.T) {
	world.NeedRoot(t)
	for _, c := range []struct {
		defence string
		ipv6    bool
		ok      func(*Result) bool
		want    string
	}{
		{defences.None, false, func(r *Result) bool { return r.Success < 0.05 && r.CookiesSent == 0 }, "under 5 % and no cookie"},
		{defences.Kernel, false, func(r *Result) bool { return r.Success > 0.95 && r.CookiesSent > 0 }, "over 95 % and cookies"},
		{defences.Kernel, true, func(r *Result) bool { return r.Success > 0.95 && r.CookiesSent > 0 }, "over 95 % and cookies"},
	} {
		o := DefaultOptions()
		o.Defence, o.IPv6, o.Rate, o.Load, o.Duration, o.Timeout = c.defence, c.ipv6, 20000, 100, 2*time.Second, time.Second
		o.Server = load.ServerBuiltin
		r, err := runUndisturbed(t, o)
		if err != nil {
			t.Fatalf("%s: %v", c.defence, err)
		}
		if !c.ok(r) || r.SYNSent == 0 || r.Requests != 200 || r.ServerSynRecv == 0 {
			t.Errorf("%s: %+v, want %s", c.defence, *r, c.want)
		}
	}
	noTraceOf(t, os.Getpid())
}

// Every SYN of the flood must be answered: an unanswered one was malformed when
// it was sent or misjudged when it arrived.
func TestFloodHostServesAll(t *testing.T) {
	world.NeedRoot(t)
	for _, c := range []struct {
		name   string
		change func(*Options)
	}{
		{"ipv4", func(*Options) {}},
		{"ipv6", func(o *Options) { o.IPv6 = true }},
		{"no timestamps, client closes", func(o *Options) { o.NoTimestamps, o.ClientCloses = true, true }},
		{"ipv6, no timestamps", func(o *Options) { o.IPv6, o.NoTimestamps = true, true }},
	} {
		o := DefaultOptions()
		o.Defence, o.Rate, o.Load, o.Duration, o.Server, o.Exe = defences.Host, 20000, 200, 2*time.Second, load.ServerBuiltin, tidegate
		c.change(&o)
		r, err := runUndisturbed(t, o)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.Success != 1 || r.CookiesSent < r.SYNSent || r.ServerSynRecv > 50 {
			t.Errorf("%s: %+v, want every request served and every SYN answered by a cookie", c.name, *r)
		}
	}
	noTraceOf(t, os.Getpid())
}

// startVictim starts a lab in a process of its own and waits for its flood.
func startVictim(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envRunLab+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	buf, text := make([]byte, 4096), ""
	for !strings.Contains(text, "half-open") {
		n, err := out.Read(buf)
		text += string(buf[:n])
		if err != nil {
			t.Fatalf("the lab ended early: %s", text)
		}
	}
	return cmd
}

// tracesOf lists what has the pid in its name.
func tracesOf(pid int) []string {
	var all []string
	for _, pattern := range []string{
		fmt.Sprintf("/run/netns/tg-%d-*", pid), fmt.Sprintf("%s/%d-*", rig.LabDir, pid),
		fmt.Sprintf("%s/%s%d-*", rig.RunDir, rig.InstPrefix, pid), fmt.Sprintf("/sys/fs/bpf/tidegate/%s%d-*", rig.InstPrefix, pid),
	} {
		found, _ := filepath.Glob(pattern)
		all = append(all, found...)
	}
	return all
}

func noTraceOf(t *testing.T, pid int) {
	t.Helper()
	if left := tracesOf(pid); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// noProcessOf checks that the children have died with their lab.
func noProcessOf(t *testing.T, namespaces []string) {
	t.Helper()
	for _, ns := range namespaces {
		if pids := rig.PIDsInside(ns); len(pids) > 0 {
			t.Errorf("processes %v still run inside %s", pids, ns)
		}
	}
}

func TestInterruptLeavesNothing(t *testing.T) {
	world.NeedRoot(t)
	cmd := startVictim(t)
	pid := cmd.Process.Pid
	if len(tracesOf(pid)) != 4 {
		t.Errorf("while it runs: %q, want three namespaces and a directory", tracesOf(pid))
	}
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted lab: %v", err)
	}
	noTraceOf(t, pid)
}

func TestNextStartCleansAfterKill(t *testing.T) {
	world.NeedRoot(t)
	cmd := startVictim(t)
	pid := cmd.Process.Pid
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	left, _ := filepath.Glob(fmt.Sprintf("/run/netns/tg-%d-*", pid))
	if len(left) != 3 {
		t.Fatalf("kill -9 left %q: the test expects three namespaces to clean", left)
	}
	world.Await(t, "children die with their lab", 10*time.Second, 10*time.Millisecond, func() bool {
		for _, ns := range left {
			if len(rig.PIDsInside(ns)) > 0 {
				return false
			}
		}
		return true
	})
	noProcessOf(t, left)
	env, err := NewEnv(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	noTraceOf(t, pid)
}
