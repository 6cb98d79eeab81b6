// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/status"
	"tidegate/test/labtest"
)

// patience bounds every wait for a state that must come.
const patience = time.Minute

const port = 80

var tidegate string // the binary under test

func TestMain(m *testing.M) { os.Exit(labtest.Main(m, &tidegate)) }

// What all end-to-end tests have.
var (
	families   = labtest.Families
	familyName = labtest.FamilyName
	needRoot   = labtest.NeedRoot
)

type output = labtest.Output

var worlds atomic.Int32

// place is where a test happens: a client's and a server's namespace, what is
// between them, and a directory for files.
type place struct {
	t              *testing.T
	dir            string
	Client, Server *rig.Namespace
	address        func(ipv6 bool, port uint16) netip.AddrPort
}

// world is a client, an edge, a server and an attacker.
type world struct {
	*place
	*rig.ProxyTopology
	Edge   *node
	server *node
}

// node is a `tidegate run` in one namespace; it may be started again.
type node struct {
	w        *place
	top      string // lines of the configuration that it always has
	ns       *rig.Namespace
	instance string
	config   string
	skew     time.Duration
	step     time.Duration // what SIGUSR1 steps its clock by
	run      *process
}

// process is one `tidegate run`.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
	err            error
}

func newPlace(t *testing.T, topology *rig.Topology, address func(bool, uint16) netip.AddrPort) *place {
	t.Helper()
	w := &place{t: t, dir: t.TempDir(), Client: topology.Client, Server: topology.Server, address: address}
	if err := os.WriteFile(filepath.Join(w.dir, "secret"), []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "1")
	return w
}

// newWorld makes one with both roles configured and nothing started.
func newWorld(t *testing.T, bridge bool) *world {
	t.Helper()
	needRoot(t)
	t.Parallel()
	p, err := rig.NewProxyTopology(fmt.Sprintf("-s%d", worlds.Add(1)), bridge)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{ProxyTopology: p, place: newPlace(t, p.Topology, p.ServiceAddr)}
	top := "role: edge\ninterfaces: [tg-flood, tg-legit, tg-inner]\ninside: [tg-inner]\n"
	if bridge {
		top = "role: edge\nforwarding: bridge\ninterfaces: [tg-legit, tg-inner]\ninside: [tg-inner]\n"
	}
	w.Edge = &node{w: w.place, ns: w.Proxy, instance: w.Instance + "-e", top: top}
	w.server = &node{w: w.place, ns: w.place.Server, instance: w.Instance + "-s",
		top: "role: server\ninterfaces: [tg-server]\n"}
	w.Edge.configure("always")
	w.server.configure("always")
	return w
}

// configure writes a configuration; extra are lines of the top level.
func (n *node) configure(mode string, extra ...string) {
	top := n.top
	for _, line := range extra {
		top += line + "\n"
	}
	n.config = top + fmt.Sprintf("instance: %s\nsecret_file: secret\ndrain: 0s\nservices:\n  - name: web\n    ports: [%d]\n    mode: %s\n",
		n.instance, port, mode)
}

// startBoth starts server and edge.
func (w *world) startBoth() {
	w.place.t.Helper()
	w.server.start()
	w.Edge.start()
}

func (n *node) writeConfig() (path string) {
	path = filepath.Join(n.w.dir, n.instance+".yaml")
	if err := os.WriteFile(path, []byte(n.config), 0o600); err != nil {
		n.w.t.Fatal(err)
	}
	return path
}

// start starts `tidegate run` and waits until it is ready.
func (n *node) start() *process {
	w := n.w
	w.t.Helper()
	path := n.writeConfig()
	p := &process{exited: make(chan struct{})}
	p.cmd = exec.Command(tidegate, "run", "-c", path, "--clock-offset", n.skew.String(), "--clock-step", n.step.String())
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.ns.Do(p.cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	n.run = p
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		_ = os.RemoveAll("/sys/fs/bpf/tidegate/" + n.instance)
		for _, ext := range []string{".json", ".lock"} {
			_ = os.Remove("/run/tidegate/" + n.instance + ext)
		}
		if w.t.Failed() {
			w.t.Logf("log of %s:\n%s", n.instance, p.stderr.String())
		}
	})
	w.await("ready", func() bool {
		select {
		case <-p.exited:
			w.t.Fatalf("tidegate run ended: %v\n%s", p.err, p.stderr.String())
		default:
		}
		return strings.Contains(p.stdout.String(), "ready\n")
	})
	return p
}

// stop ends the process, which leaves its packet path in place.
func (n *node) stop() { n.w.t.Helper(); n.end(syscall.SIGTERM) }

// off runs `tidegate off` with these arguments, whether or not the process runs.
func (n *node) off(args ...string) {
	n.w.t.Helper()
	var out output
	cmd := exec.Command(tidegate, append([]string{"off", "--instance", n.instance}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.ns.Do(cmd.Start); err != nil {
		n.w.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		n.w.t.Fatalf("off: %v: %s", err, out.String())
	}
	if _, err := os.Stat("/sys/fs/bpf/tidegate/" + n.instance); err == nil {
		n.w.t.Errorf("%s: there are pins after off: %s", n.instance, out.String())
	}
}

// end ends the process by a signal and waits for it.
func (n *node) end(s syscall.Signal) {
	n.w.t.Helper()
	_ = n.run.cmd.Process.Signal(s)
	select {
	case <-n.run.exited:
	case <-time.After(patience):
		n.w.t.Fatal("tidegate run does not end")
	}
	if n.run.err != nil {
		n.w.t.Fatalf("tidegate run: %v\n%s", n.run.err, n.run.stderr.String())
	}
}

// kill ends it without asking.
func (n *node) kill() {
	_ = n.run.cmd.Process.Kill()
	<-n.run.exited
}

// await polls for a state that must come.
func (w *place) await(what string, reached func() bool) {
	w.t.Helper()
	labtest.Await(w.t, what, patience, 10*time.Millisecond, reached)
}

func (n *node) status() *status.Status {
	w := n.w
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(tidegate, "status", "--instance", n.instance, "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := n.ns.Do(cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		w.t.Fatalf("status: %v: %s", err, errs.String())
	}
	var st status.Status
	if err := json.Unmarshal(out.Bytes(), &st); err != nil {
		w.t.Fatalf("status: %v in %s", err, out.String())
	}
	return &st
}

func (n *node) counters() map[string]uint64 {
	n.w.t.Helper()
	return n.status().Services[0].Counters
}

// wantCounters compares some counters with what must be there.
func (n *node) wantCounters(want map[string]uint64) {
	w := n.w
	w.t.Helper()
	got := n.counters()
	for name, v := range want {
		if got[name] != v {
			w.t.Errorf("%s: counter %s is %d, want %d; all: %v", n.instance, name, got[name], v, nonZero(got))
		}
	}
}

func nonZero(c map[string]uint64) map[string]uint64 {
	some := map[string]uint64{}
	for k, v := range c {
		if v != 0 {
			some[k] = v
		}
	}
	return some
}
