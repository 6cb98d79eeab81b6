// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	"tidegate/internal/status"
	"tidegate/test/labtest"
)

// patience bounds every wait for a state that must come. It is far longer than
// anything takes; a test that needs it has failed.
const patience = time.Minute

// pollPause leaves the processors to what is waited for: many a look starts a
// process.
const pollPause = 25 * time.Millisecond

var tidegate string // the binary under test

func TestMain(m *testing.M) { os.Exit(labtest.Main(m, &tidegate)) }

// What all end-to-end tests have.
var (
	families   = labtest.Families
	familyName = labtest.FamilyName
)

type output = labtest.Output

var worlds atomic.Int32

// world is a client, a server, and a directory for the gate's files.
type world struct {
	*rig.Hosts
	t          *testing.T
	dir        string
	secret     string
	configPath string
	nextPort   uint16 // the next client port, beginning at firstPort, that a test of handshakes takes
}

// newWorld makes one for this test, which then runs beside others.
func newWorld(t *testing.T) *world {
	t.Helper()
	labtest.NeedRoot(t)
	t.Parallel()
	h, err := rig.NewHosts(fmt.Sprintf("t%d", worlds.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Hosts: h, t: t, dir: t.TempDir()}
	w.secret = filepath.Join(w.dir, "secret")
	w.configPath = filepath.Join(w.dir, "tidegate.yaml")
	w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "1")
	if err := os.WriteFile(w.secret, []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) sysctl(n *rig.Namespace, name, value string) {
	w.t.Helper()
	if err := n.SetSysctl(name, value); err != nil {
		w.t.Fatal(err)
	}
}

// webConfig protects one port; extra are lines for the top level.
func (w *world) webConfig(port uint16, extra ...string) string {
	return w.topConfig(extra...) + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n", port)
}

func (w *world) topConfig(extra ...string) string {
	return fmt.Sprintf("instance: %s\ninterfaces: [tg-server]\nsecret_file: secret\n", w.Instance) +
		lines(extra...)
}

func lines(l ...string) string {
	if len(l) == 0 {
		return ""
	}
	return strings.Join(l, "\n") + "\n"
}

func (w *world) writeConfig(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.configPath, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// gate is a `tidegate run` in the server's namespace.
type gate struct {
	w              *world
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
	err            error
}

// launch starts `tidegate run` and does not wait for anything.
func (w *world) launch(config string) *gate {
	w.t.Helper()
	return w.launchBinary(tidegate, config)
}

func (w *world) launchBinary(binary, config string) *gate {
	w.t.Helper()
	w.writeConfig(config)
	g := &gate{w: w, exited: make(chan struct{})}
	g.cmd = exec.Command(binary, "run", "-c", w.configPath)
	g.cmd.Stdout, g.cmd.Stderr = &g.stdout, &g.stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.Server.Do(g.cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		g.err = g.cmd.Wait()
		close(g.exited)
	}()
	w.t.Cleanup(g.cleanup)
	return g
}

// start starts `tidegate run` and waits until it is ready.
func (w *world) start(config string) *gate {
	w.t.Helper()
	g := w.launch(config)
	g.await("ready", func() bool { return strings.Contains(g.stdout.String(), "ready\n") })
	return g
}

// await waits for a state of the gate; its end is a failure.
func (g *gate) await(what string, reached func() bool) {
	g.w.t.Helper()
	g.w.await(what, func() bool {
		if reached() {
			return true
		}
		select {
		case <-g.exited:
			if !reached() {
				g.w.t.Fatalf("tidegate run ended before: %s\n%s", what, g.stderr.String())
			}
			return true
		default:
			return false
		}
	})
}

// await polls for a state that must come.
func (w *world) await(what string, reached func() bool) {
	w.t.Helper()
	labtest.Await(w.t, what, patience, pollPause, reached)
}

// awaitLog waits for a line on the gate's stderr with all of these words.
func (g *gate) awaitLog(words ...string) {
	g.w.t.Helper()
	g.await(fmt.Sprintf("a log line with %q", words), func() bool { return len(g.logLines(words...)) > 0 })
}

func (g *gate) logLines(words ...string) (found []string) {
	for line := range strings.Lines(g.stderr.String()) {
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

func (g *gate) signal(s syscall.Signal) {
	g.w.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.w.t.Fatal(err)
	}
}

// reload gives the gate a new configuration and waits for its word on it.
func (g *gate) reload(config string, words ...string) {
	g.w.t.Helper()
	before := len(g.logLines(words...))
	g.w.writeConfig(config)
	g.signal(syscall.SIGHUP)
	g.await(fmt.Sprintf("a new log line with %q", words), func() bool { return len(g.logLines(words...)) > before })
}

// kill ends the process without giving it a chance.
func (g *gate) kill() {
	g.w.t.Helper()
	g.signal(syscall.SIGKILL)
	<-g.exited
}

// stop ends the process, which leaves the packet path in place.
func (g *gate) stop() { g.w.t.Helper(); g.end(syscall.SIGTERM) }

// interrupt is Ctrl-C: the packet path goes, too.
func (g *gate) interrupt() { g.w.t.Helper(); g.end(syscall.SIGINT) }

// off runs `tidegate off`, whether or not a process runs.
func (w *world) off(args ...string) {
	w.t.Helper()
	if _, errs, err := w.tidegateRun(append([]string{"off", "--instance", w.Instance}, args...)...); err != nil {
		w.t.Fatalf("off: %v: %s", err, errs)
	}
}

func (g *gate) end(s syscall.Signal) {
	g.w.t.Helper()
	g.signal(s)
	g.await("its end", func() bool {
		select {
		case <-g.exited:
			return true
		default:
			return false
		}
	})
	if g.err != nil {
		g.w.t.Errorf("tidegate run ended with %v:\n%s", g.err, g.stderr.String())
	}
}

// cleanup ends what still runs and removes what a killed gate has left.
func (g *gate) cleanup() {
	_ = g.cmd.Process.Kill()
	<-g.exited
	_ = os.RemoveAll(g.w.pinDir())
	_ = os.Remove(g.w.statePath())
	_ = os.Remove(g.w.lockPath())
	if g.w.t.Failed() {
		g.w.t.Logf("log of the gate:\n%s", g.stderr.String())
	}
}

func (w *world) pinDir() string    { return plane.PinDir("/sys/fs/bpf", w.Instance) }
func (w *world) statePath() string { return "/run/tidegate/" + w.Instance + ".json" }
func (w *world) lockPath() string  { return "/run/tidegate/" + w.Instance + ".lock" }

// tidegateRun runs a subcommand in the server's namespace to its end.
func (w *world) tidegateRun(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(tidegate, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.Server.Do(cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	err = cmd.Wait()
	return out.String(), errs.String(), err
}

// status is `tidegate status --json`.
func (w *world) status() *status.Status {
	w.t.Helper()
	out, errs, err := w.tidegateRun("status", "--instance", w.Instance, "--json")
	if err != nil {
		w.t.Fatalf("status: %v: %s", err, errs)
	}
	var st status.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		w.t.Fatalf("status: %v in %s", err, out)
	}
	return &st
}

// service is one service of the status.
func (w *world) service(name string) status.Service {
	w.t.Helper()
	for _, s := range w.status().Services {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("status shows no service %q", name)
	return status.Service{}
}

// counters of the service web.
func (w *world) counters() map[string]uint64 {
	w.t.Helper()
	return w.service("web").Counters
}

// wantCounters compares some counters of the service web with what must be there.
func (w *world) wantCounters(want map[string]uint64) {
	w.t.Helper()
	got := w.counters()
	for name, n := range want {
		if got[name] != n {
			w.t.Errorf("counter %s is %d, want %d; all: %v", name, got[name], n, got)
		}
	}
}

// awaitListener waits until the status calls the service's listener that.
func (w *world) awaitListener(service, listener string) {
	w.t.Helper()
	w.await("listener of "+service+" is "+listener, func() bool { return w.service(service).Listener == listener })
}
