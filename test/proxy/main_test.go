// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
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

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if port := os.Getenv(envIdleServer); port != "" {
		return idleServer(port)
	}
	return labtest.Main(m, &tidegate, buildDPDK)
}

// buildDPDK makes the program of plane dpdk, if that is under test.
func buildDPDK() error {
	if testPlane != rig.PlaneDPDK {
		return nil
	}
	return labtest.BuildDPDK()
}

// testPlane is what the boxes run on: xdp, or dpdk if TIDEGATE_TEST_PLANE says so.
var testPlane = os.Getenv("TIDEGATE_TEST_PLANE")

// What all end-to-end tests have.
var (
	families   = labtest.Families
	familyName = labtest.FamilyName
)

type output = labtest.Output

var worlds atomic.Int32

// world is a client, a box and a server, and a directory for the box's files.
type world struct {
	*rig.ProxyTopology
	t   *testing.T
	dir string
	box *box

	forUserspace bool // the box's kernel has stopped forwarding
	linkLocal    bool // the box's ports have link-local addresses
}

// box is a `tidegate run` in the box.
type box struct {
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
	err            error
}

func newWorld(t *testing.T, bridge bool) *world {
	t.Helper()
	labtest.NeedRoot(t)
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
	if err := os.WriteFile(filepath.Join(w.dir, "secret"), []byte(strings.Repeat("5a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	for _, l := range extra {
		top += l + "\n"
	}
	return top + fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    strategy: %s\n", port, strategy)
}

func (w *world) writeConfig(text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, "tidegate.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// start starts `tidegate run` and waits until it is ready.
func (w *world) start(config string) *box {
	w.t.Helper()
	if testPlane == rig.PlaneDPDK && !w.forUserspace {
		if err := w.ForUserspace(); err != nil {
			w.t.Fatal(err)
		}
		w.forUserspace = true
		if !w.Bridge {
			w.forgetNeighbours() // a router finds them by itself
		}
	}
	b := &box{exited: make(chan struct{})}
	b.cmd = exec.Command(tidegate, "run", "-c", w.writeConfig(config))
	b.cmd.Stdout, b.cmd.Stderr = &b.stdout, &b.stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.Proxy.Do(b.cmd.Start); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.exited)
	}()
	w.box = b
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("counters: %v", some(w.counters()))
		}
		_ = b.cmd.Process.Kill()
		<-b.exited
		_ = os.RemoveAll("/sys/fs/bpf/tidegate/" + w.Instance)
		for _, ext := range []string{".json", ".lock"} {
			_ = os.Remove("/run/tidegate/" + w.Instance + ext)
		}
		if w.t.Failed() {
			w.t.Logf("log of the box:\n%s", b.stderr.String())
		}
	})
	w.await("ready", func() bool {
		select {
		case <-b.exited:
			w.t.Fatalf("tidegate run ended: %v\n%s", b.err, b.stderr.String())
		default:
		}
		return strings.Contains(b.stdout.String(), "ready\n")
	})
	return b
}

// await polls for a state that must come.
func (w *world) await(what string, reached func() bool) {
	w.t.Helper()
	labtest.Await(w.t, what, patience, 10*time.Millisecond, reached)
}

func (w *world) counters() map[string]uint64 {
	w.t.Helper()
	return w.status().Services[0].Counters
}

func (w *world) status() *status.Status {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(tidegate, "status", "--instance", w.Instance, "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := w.Proxy.Do(cmd.Start); err != nil {
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

// wantCounters compares some counters with what must be there.
func (w *world) wantCounters(want map[string]uint64) {
	w.t.Helper()
	got := w.counters()
	for name, n := range want {
		if got[name] != n {
			w.t.Errorf("counter %s is %d, want %d; all: %v", name, got[name], n, some(got))
		}
	}
}

// some are the counters that are not zero.
func some(counters map[string]uint64) map[string]uint64 {
	counters = maps.Clone(counters)
	maps.DeleteFunc(counters, func(_ string, n uint64) bool { return n == 0 })
	return counters
}

// serve listens in the server's namespace and gives each connection to handle.
func (w *world) serve(handle func(*net.TCPConn)) { w.serveFor(patience, handle) }

// serveFor gives connections that long.
func (w *world) serveFor(limit time.Duration, handle func(*net.TCPConn)) {
	w.t.Helper()
	for _, ipv6 := range families() {
		var l net.Listener
		err := w.Server.Do(func() (err error) {
			var lc net.ListenConfig
			lc.SetMultipathTCP(false)
			l, err = lc.Listen(w.t.Context(), "tcp", w.ServiceAddr(ipv6, port).String())
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.SetDeadline(time.Now().Add(limit))
				go handle(c.(*net.TCPConn))
			}
		}()
	}
}

// dial opens a connection from the client.
func (w *world) dial(ipv6 bool) (c *net.TCPConn, err error) { return w.dialFrom(w.Client, ipv6) }

func (w *world) dialFrom(n *rig.Namespace, ipv6 bool) (c *net.TCPConn, err error) {
	err = n.Do(func() error {
		var d net.Dialer
		d.SetMultipathTCP(false)
		d.Timeout = patience
		conn, err := d.Dial("tcp", w.ServiceAddr(ipv6, port).String())
		if err != nil {
			return err
		}
		c = conn.(*net.TCPConn)
		return c.SetDeadline(time.Now().Add(patience))
	})
	return c, err
}

// echo sends back what comes and closes after the end of it.
func echo(c *net.TCPConn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
}

// ping opens a connection, has a word echoed, half-closes, and reads the end.
func (w *world) ping(ipv6 bool) error {
	c, err := w.dial(ipv6)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("tidegate?")); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "tidegate?" {
		return fmt.Errorf("got %q, %w", got, err)
	}
	return nil
}
