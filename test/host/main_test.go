// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"tidegate/internal/api"
	"tidegate/internal/lab/rig"
	"tidegate/internal/status"
	harness "tidegate/test/world"
	"tidegate/test/world/natsd"
)

// patience bounds every wait for a state that must come.
const patience = harness.Patience

var tidegate string // the binary under test

func TestMain(m *testing.M) {
	natsd.Main()
	os.Exit(harness.Main(m, &tidegate))
}

// What all end-to-end tests have.
var (
	families   = harness.Families
	familyName = harness.FamilyName
)

var worlds atomic.Int32

// world is a client, a server, and a directory for the gate's files.
type world struct {
	*rig.Hosts
	t          *testing.T
	dir        string
	secret     string
	configPath string
	in         *harness.Instance // of the server's namespace
	client     *api.Client       // see apiClient
	nextPort   uint16            // the next client port, from firstPort on, for a test of handshakes
}

// newWorld makes a world for this test, which then runs in parallel with others.
func newWorld(t *testing.T) *world {
	t.Helper()
	harness.NeedRoot(t)
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
	w.secret = harness.WriteSecret(t, w.dir)
	w.configPath = filepath.Join(w.dir, "tidegate.yaml")
	w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "1")
	w.in = &harness.Instance{T: t, NS: h.Server, Binary: tidegate, Name: h.Instance, Config: w.configPath}
	return w
}

func (w *world) sysctl(n *rig.Namespace, name, value string) {
	w.t.Helper()
	if err := n.SetSysctl(name, value); err != nil {
		w.t.Fatal(err)
	}
}

// adopting is for tests of a gate that only adopts.
const adopting = "takeover: adopt"

// webConfig protects one port; extra are lines for the top level.
func (w *world) webConfig(port uint16, extra ...string) string {
	return w.topConfig(extra...) + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    mode: always\n", port)
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

func (w *world) writeConfig(text string) { w.t.Helper(); w.in.Write(text) }

// gate is a `tidegate run` in the server's namespace.
type gate struct{ *harness.Process }

// launch starts `tidegate run` and does not wait for anything.
func (w *world) launch(config string) *gate {
	w.t.Helper()
	return w.launchBinary(tidegate, config)
}

func (w *world) launchBinary(binary, config string) *gate {
	w.t.Helper()
	in := *w.in
	in.Binary = binary
	in.Write(config)
	return &gate{in.Launch()}
}

// start starts `tidegate run` and waits until it is ready.
func (w *world) start(config string) *gate {
	w.t.Helper()
	g := w.launch(config)
	g.AwaitReady()
	return g
}

// await polls for a state that must come.
func (w *world) await(what string, reached func() bool) {
	w.t.Helper()
	harness.Until(w.t, what, reached)
}

// off runs `tidegate off`, whether or not a process runs.
func (w *world) off(args ...string) { w.t.Helper(); w.in.Off(args...) }

func (w *world) pinDir() string    { return w.in.PinDir() }
func (w *world) statePath() string { return w.in.StatePath() }
func (w *world) lockPath() string  { return w.in.LockPath() }

// tidegateRun runs a subcommand in the server's namespace until it ends.
func (w *world) tidegateRun(args ...string) (stdout, stderr string, err error) {
	w.t.Helper()
	return w.in.Run(args...)
}

// status is `tidegate status --json`.
func (w *world) status() *status.Status { w.t.Helper(); return w.in.Status() }

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

// wantCounters compares some counters of the service web with the expected values.
func (w *world) wantCounters(want map[string]uint64) {
	w.t.Helper()
	got := w.counters()
	for name, n := range want {
		if got[name] != n {
			w.t.Errorf("counter %s is %d, want %d; all: %v", name, got[name], n, got)
		}
	}
}

// awaitListener waits until status shows the service's listener in this state.
func (w *world) awaitListener(service, listener string) {
	w.t.Helper()
	w.await("listener of "+service+" is "+listener, func() bool { return w.service(service).Listener == listener })
}
