// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/status"
	harness "tidegate/test/world"
)

// patience bounds every wait for a state that must come.
const patience = harness.Patience

const port = 80

var tidegate string // the binary under test

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if port := os.Getenv(envIdleServer); port != "" {
		return idleServer(port)
	}
	return harness.Main(m, &tidegate, buildDPDK)
}

// buildDPDK builds the program of plane dpdk, if that is under test.
func buildDPDK() error {
	if testPlane != rig.PlaneDPDK {
		return nil
	}
	return harness.BuildDPDK()
}

// testPlane is the boxes' plane: xdp, or that of TIDEGATE_TEST_PLANE.
var testPlane = os.Getenv("TIDEGATE_TEST_PLANE")

// What all end-to-end tests have.
var (
	families   = harness.Families
	familyName = harness.FamilyName
)

var worlds atomic.Int32

// world is a client, a box and a server, and a directory for the box's files.
type world struct {
	*rig.ProxyTopology
	t        *testing.T
	dir      string
	instance *harness.Instance // in the box
	box      *box

	forUserspace bool // the box's kernel has stopped forwarding
	linkLocal    bool // the box's ports have link-local addresses
}

// box is a `tidegate run` in the box.
type box struct{ *harness.Process }

func newWorld(t *testing.T, bridge bool) *world {
	t.Helper()
	harness.NeedRoot(t)
	t.Parallel()
	p, err := rig.NewProxyTopology(fmt.Sprintf("-p%d", worlds.Add(1)), bridge)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{ProxyTopology: p, t: t, dir: t.TempDir()}
	harness.WriteSecret(t, w.dir)
	w.instance = &harness.Instance{T: t, NS: p.Proxy, Binary: tidegate, Name: p.Instance, Config: filepath.Join(w.dir, "tidegate.yaml")}
	return w
}

// config protects port 80 with a strategy; extra are lines of the top level.
func (w *world) config(strategy string, extra ...string) string {
	interfaces, forwarding := "tg-flood, tg-legit, tg-inner", "router"
	if w.Bridge {
		interfaces, forwarding = "tg-legit, tg-inner", "bridge"
	}
	top := fmt.Sprintf("role: proxy\ninstance: %s\ninterfaces: [%s]\nforwarding: %s\nsecret_file: secret\ndrain: 0s\n",
		w.Instance, interfaces, forwarding)
	if testPlane == rig.PlaneDPDK {
		top += "plane: dpdk\ndpdk: {memory_mib: 128}\n"
	}
	small := "max_flows: 65536\n" // the default's million costs each start a tenth of a second, for pages that no test uses
	for _, l := range extra {
		top += l + "\n"
		if strings.HasPrefix(l, "max_flows:") {
			small = ""
		}
	}
	return top + small + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    mode: always\n    strategy: %s\n", port, strategy)
}

func (w *world) writeConfig(text string) string {
	w.t.Helper()
	w.instance.Write(text)
	return w.instance.Config
}

// start starts `tidegate run` and waits until it is ready.
func (w *world) start(config string) *box {
	w.t.Helper()
	w.prepare()
	w.instance.Write(config)
	w.box = &box{w.instance.Launch()}
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("counters: %v", harness.NonZero(w.counters()))
		}
	})
	w.box.AwaitReady()
	return w.box
}

// prepare stops the kernel's forwarding where the plane needs that.
func (w *world) prepare() {
	w.t.Helper()
	if testPlane == rig.PlaneDPDK && !w.forUserspace {
		if err := w.ForUserspace(); err != nil {
			w.t.Fatal(err)
		}
		w.forUserspace = true
		if !w.Bridge {
			w.forgetNeighbours() // a router must find them itself
		}
	}
}

// await polls for a state that must come.
func (w *world) await(what string, reached func() bool) {
	w.t.Helper()
	harness.Until(w.t, what, reached)
}

func (w *world) counters() map[string]uint64 { w.t.Helper(); return w.instance.Counters() }

func (w *world) status() *status.Status { w.t.Helper(); return w.instance.Status() }

// wantCounters compares some counters with the expected values.
func (w *world) wantCounters(want map[string]uint64) { w.t.Helper(); w.instance.WantCounters(want) }

// serve listens in the server's namespace and gives each connection to handle.
func (w *world) serve(handle func(*net.TCPConn)) { w.t.Helper(); w.serveFor(patience, handle) }

// serveFor limits connections to that time.
func (w *world) serveFor(limit time.Duration, handle func(*net.TCPConn)) {
	w.t.Helper()
	for _, ipv6 := range families() {
		harness.Server{Limit: limit}.Serve(w.t, w.Server, w.ServiceAddr(ipv6, port).String(), handle)
	}
}

// dial opens a connection from the client.
func (w *world) dial(ipv6 bool) (*net.TCPConn, error) { return w.dialFrom(w.Client, ipv6) }

func (w *world) dialFrom(n *rig.Namespace, ipv6 bool) (*net.TCPConn, error) {
	return harness.Dial(n, w.ServiceAddr(ipv6, port))
}

// ping opens a connection, has a word echoed, half-closes, and reads end of file.
func (w *world) ping(ipv6 bool) error { return harness.Ping(w.dial(ipv6)) }

// wasReset tells whether a connection that ping opened was reset: that shows in the call that comes next, a read, a write or a shutdown.
func wasReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN)
}

// echo sends back what it receives and closes after end of file.
func echo(c *net.TCPConn) { harness.Echo(c) }
