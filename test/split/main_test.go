// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/status"
	harness "tidegate/test/world"
	"tidegate/test/world/natsd"
)

// patience bounds every wait for a state that must come.
const patience = harness.Patience

const port = 80

var tidegate string // the binary under test

func TestMain(m *testing.M) {
	natsd.Main()
	os.Exit(harness.Main(m, &tidegate))
}

// What all end-to-end tests have.
var (
	families   = harness.Families
	familyName = harness.FamilyName
	needRoot   = harness.NeedRoot
)

var worlds atomic.Int32

// place is where a test runs: a client's and a server's namespace, what is
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

// node is a `tidegate run` in one namespace; it can be restarted.
type node struct {
	w        *place
	top      string // configuration lines that every configuration of it has
	ns       *rig.Namespace
	instance string
	config   string
	skew     time.Duration
	step     time.Duration // what SIGUSR1 steps its clock by
	run      *harness.Process
}

func newPlace(t *testing.T, topology *rig.Topology, address func(bool, uint16) netip.AddrPort) *place {
	t.Helper()
	w := &place{t: t, dir: t.TempDir(), Client: topology.Client, Server: topology.Server, address: address}
	harness.WriteSecret(t, w.dir)
	w.sysctl(w.Server, "net.ipv4.tcp_syncookies", "1")
	return w
}

// newWorld makes a world with both roles configured and nothing started.
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

// in is the instance of tidegate that the node runs.
func (n *node) in() *harness.Instance {
	return &harness.Instance{T: n.w.t, NS: n.ns, Binary: tidegate, Name: n.instance, Config: filepath.Join(n.w.dir, n.instance+".yaml")}
}

func (n *node) writeConfig() (path string) {
	in := n.in()
	in.Write(n.config)
	return in.Config
}

// start starts `tidegate run` and waits until it is ready.
func (n *node) start() *harness.Process {
	n.w.t.Helper()
	n.writeConfig()
	n.run = n.in().Start("--clock-offset", n.skew.String(), "--clock-step", n.step.String())
	return n.run
}

// reload writes the configuration and waits until the node logs that it is in force.
func (n *node) reload() { n.w.t.Helper(); n.run.Reload(n.config, "msg=reloaded") }

// stop ends the process, which leaves its packet path in place.
func (n *node) stop() { n.w.t.Helper(); n.run.Stop() }

// kill ends the process by SIGKILL.
func (n *node) kill() { n.run.Kill() }

// off runs `tidegate off` with these arguments, whether or not the process runs.
func (n *node) off(args ...string) { n.w.t.Helper(); n.in().Off(args...) }

// await polls for a state that must come.
func (w *place) await(what string, reached func() bool) {
	w.t.Helper()
	harness.Until(w.t, what, reached)
}

func (n *node) status() *status.Status { n.w.t.Helper(); return n.in().Status() }

func (n *node) counters() map[string]uint64 { n.w.t.Helper(); return n.in().Counters() }

// wantCounters compares some counters with the expected values.
func (n *node) wantCounters(want map[string]uint64) { n.w.t.Helper(); n.in().WantCounters(want) }

func nonZero(c map[string]uint64) map[string]uint64 { return harness.NonZero(c) }
