// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	"tidegate/internal/status"
)

// Instance is an instance of tidegate in a namespace: its configuration, its status, and the files it leaves.
type Instance struct {
	T      *testing.T
	NS     *rig.Namespace // nil: that of the calling thread
	Binary string
	Name   string
	Config string // path of the file
}

// WriteSecret writes the secret that all tests use to the file `secret` in a directory.
func WriteSecret(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// xdpMode is added to every configuration that names no mode and is not a manager's, if it is set.
var xdpMode = os.Getenv("TIDEGATE_TEST_XDP_MODE")

// GenericXDP: all tests run in generic mode that ask for none.
var GenericXDP = xdpMode == string(plane.XDPGeneric)

// Write writes the configuration.
func (i *Instance) Write(text string) {
	i.T.Helper()
	if xdpMode != "" && !strings.Contains(text, "xdp_mode:") && !strings.Contains(text, "plane: dpdk") && !strings.Contains(text, "role: filter-manager") {
		text = strings.TrimRight(text, "\n") + "\nxdp_mode: " + xdpMode + "\n"
	}
	if err := os.WriteFile(i.Config, []byte(text), 0o600); err != nil {
		i.T.Fatal(err)
	}
}

// PinDir is where its maps and links are pinned.
func (i *Instance) PinDir() string { return plane.PinDir("/sys/fs/bpf", i.Name) }

// StatePath is its state file.
func (i *Instance) StatePath() string { return "/run/tidegate/" + i.Name + ".json" }

// LockPath is its lock.
func (i *Instance) LockPath() string { return "/run/tidegate/" + i.Name + ".lock" }

// In runs f in the namespace.
func (i *Instance) In(f func() error) error {
	if i.NS == nil {
		return f()
	}
	return i.NS.Do(f)
}

// Run runs a subcommand in the namespace until it ends.
func (i *Instance) Run(args ...string) (stdout, stderr string, err error) {
	i.T.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(i.Binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := i.In(cmd.Start); err != nil {
		i.T.Fatal(err)
	}
	err = cmd.Wait()
	return out.String(), errs.String(), err
}

// Off runs `tidegate off`, whether or not a process runs, and returns its output.
func (i *Instance) Off(args ...string) string {
	i.T.Helper()
	out, errs, err := i.Run(append([]string{"off", "--instance", i.Name}, args...)...)
	if err != nil {
		i.T.Fatalf("off: %v: %s", err, errs)
	}
	if _, err := os.Stat(i.PinDir()); err == nil {
		i.T.Errorf("%s: there are pins after off: %s", i.Name, out+errs)
	}
	return out + errs
}

// Status is `tidegate status --json`.
func (i *Instance) Status() *status.Status {
	i.T.Helper()
	out, errs, err := i.Run("status", "--instance", i.Name, "--json")
	if err != nil {
		i.T.Fatalf("status: %v: %s", err, errs)
	}
	var st status.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		i.T.Fatalf("status: %v in %s", err, out)
	}
	return &st
}

// Counters are those of the first service.
func (i *Instance) Counters() map[string]uint64 {
	i.T.Helper()
	return i.Status().Services[0].Counters
}

// WantCounters compares some counters of the first service with the expected values.
func (i *Instance) WantCounters(want map[string]uint64) {
	i.T.Helper()
	got := i.Counters()
	for name, n := range want {
		if got[name] != n {
			i.T.Errorf("%s: counter %s is %d, want %d; all: %v", i.Name, name, got[name], n, NonZero(got))
		}
	}
}

// NonZero returns the counters that are not zero.
func NonZero(counters map[string]uint64) map[string]uint64 {
	counters = maps.Clone(counters)
	maps.DeleteFunc(counters, func(_ string, n uint64) bool { return n == 0 })
	return counters
}

// Process is one `tidegate run`, or another subcommand that prints "ready", from its start to its end.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr Output
	Exited         chan struct{} // closed at its end; then Err is its result
	Err            error

	i *Instance
}

// Launch starts `tidegate run -c FILE` with further arguments and does not wait. The end of the test
// ends it and removes what a killed process leaves.
func (i *Instance) Launch(args ...string) *Process {
	i.T.Helper()
	return i.LaunchCommand(append([]string{"run", "-c", i.Config}, args...)...)
}

// LaunchCommand is Launch with all arguments.
func (i *Instance) LaunchCommand(args ...string) *Process {
	i.T.Helper()
	p := &Process{i: i, Exited: make(chan struct{}), Cmd: exec.Command(i.Binary, args...)}
	p.Cmd.Stdout, p.Cmd.Stderr = &p.Stdout, &p.Stderr
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := i.In(p.Cmd.Start); err != nil {
		i.T.Fatal(err)
	}
	go func() {
		p.Err = p.Cmd.Wait()
		close(p.Exited)
	}()
	i.T.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		<-p.Exited
		i.Forget()
		if i.T.Failed() {
			i.T.Logf("log of %s:\n%s", i.Name, p.Stderr.String())
		}
	})
	return p
}

// Forget removes what a killed process of the instance leaves: pins, and every file named after the instance in the
// state directory (state, lock, events and their lock, modes, socket).
func (i *Instance) Forget() {
	_ = os.RemoveAll(i.PinDir())
	left, _ := filepath.Glob("/run/tidegate/" + i.Name + ".*")
	for _, path := range left {
		_ = os.Remove(path)
	}
}

// Start starts `tidegate run` and waits until it is ready.
func (i *Instance) Start(args ...string) *Process {
	i.T.Helper()
	p := i.Launch(args...)
	p.AwaitReady()
	return p
}

// AwaitReady waits until the process prints ready.
func (p *Process) AwaitReady() {
	p.i.T.Helper()
	p.Await("ready", func() bool { return strings.Contains(p.Stdout.String(), "ready\n") })
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Exited:
		return true
	default:
		return false
	}
}

// Await waits for a state; if the process ends before that, the test fails.
func (p *Process) Await(what string, reached func() bool) {
	p.i.T.Helper()
	Until(p.i.T, what, func() bool {
		ended := p.Ended()
		if reached() {
			return true
		}
		if ended {
			p.i.T.Fatalf("tidegate ended before: %s: %v\n%s", what, p.Err, p.Stderr.String())
		}
		return false
	})
}

// Log returns the lines on stderr that contain all of these words.
func (p *Process) Log(words ...string) (found []string) {
	for line := range strings.Lines(p.Stderr.String()) {
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			found = append(found, line)
		}
	}
	return found
}

// AwaitLog waits for a line on stderr that contains all of these words.
func (p *Process) AwaitLog(words ...string) {
	p.i.T.Helper()
	p.Await(fmt.Sprintf("a log line with %q", words), func() bool { return len(p.Log(words...)) > 0 })
}

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) {
	p.i.T.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil {
		p.i.T.Fatal(err)
	}
}

// Halt stops the process with SIGSTOP, and waits until it has stopped.
func (p *Process) Halt() {
	p.i.T.Helper()
	p.Signal(syscall.SIGSTOP)
	p.Await("a halt", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

// Reload writes a new configuration, reloads it, and waits for a new log line with these words.
func (p *Process) Reload(config string, words ...string) {
	p.i.T.Helper()
	p.i.Write(config)
	p.Reread(words...)
}

// Reread reloads the configuration and waits for a new log line with these words.
func (p *Process) Reread(words ...string) {
	p.i.T.Helper()
	before := len(p.Log(words...))
	p.Signal(syscall.SIGHUP)
	p.Await(fmt.Sprintf("a new log line with %q", words), func() bool { return len(p.Log(words...)) > before })
}

// End ends the process by a signal and waits; it must end without an error.
func (p *Process) End(s os.Signal) {
	p.i.T.Helper()
	p.Signal(s)
	p.AwaitEnd()
}

// AwaitEnd waits for the end of the process, which must be without an error.
func (p *Process) AwaitEnd() {
	p.i.T.Helper()
	Until(p.i.T, "the end of tidegate", p.Ended)
	if p.Err != nil {
		p.i.T.Errorf("%s: tidegate ended with %v:\n%s", p.i.Name, p.Err, p.Stderr.String())
	}
}

// Stop ends the process by SIGTERM, which leaves the packet path in place.
func (p *Process) Stop() { p.i.T.Helper(); p.End(syscall.SIGTERM) }

// Interrupt ends the process by SIGINT, which also detaches the packet path.
func (p *Process) Interrupt() { p.i.T.Helper(); p.End(syscall.SIGINT) }

// Kill ends the process by SIGKILL.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}
