// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// off runs `tidegate off`, whether or not a process runs.
func (w *world) off(args ...string) string { w.t.Helper(); return w.instance.Off(args...) }

func needKernelPath(t *testing.T) {
	t.Helper()
	if testPlane == rig.PlaneDPDK {
		t.Skip("plane: dpdk has no packet path that could stay when its program ends (docs/dpdk.md)")
	}
}

// The process is stopped and started, and reloaded, while clients stay connected and
// others come, under each strategy and on a bridge: no client notices.
func TestRestart(t *testing.T) {
	needKernelPath(t)
	for _, c := range []struct {
		strategy string
		bridge   bool
	}{{"cookie", false}, {"cookie", true}, {"cache", false}, {"auth-cookie", false}, {"auth-full", false}, {"auth-wrong", false}, {"auth-ttl", false}} {
		name := c.strategy
		if c.bridge {
			name += ", bridge"
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.bridge)
			w.serveFor(10*time.Minute, echo)
			b := w.start(w.config(c.strategy))
			if strings.HasPrefix(c.strategy, "auth") { // the first connection of a source is interrupted
				for _, ipv6 := range families() {
					_ = w.ping(ipv6)
					if err := w.ping(ipv6); err != nil {
						t.Fatal(err)
					}
				}
			}
			l := harness.StartLoad(t, 50, harness.InTurn(w.dial))
			for range 2 {
				l.More(30)
				b.End(syscall.SIGTERM)
				l.More(100)
				if st := w.status(); st.Running || st.Since.IsZero() {
					t.Errorf("status: running %v, without a daemon since %v", st.Running, st.Since)
				}
				b = w.start(w.config(c.strategy))
				l.More(50)
				b.Reread("msg=reloaded")
			}
			l.End("stops, starts and reloads")
			w.off("--now")
		})
	}
}

// Off: SYNs go to the server at once; translated connections continue until they end, and off
// ends with the last; or the drain time passes, and they are cut.
func TestOff(t *testing.T) {
	needKernelPath(t)
	w := newWorld(t, false)
	w.serve(echo)
	config := strings.Replace(w.config("cookie"), "drain: 0s", "drain: 1s", 1)
	b := w.start(config)
	first, second := w.holdConn(false), w.holdConn(true)
	release := harness.HoldACKs(t, w.Client)
	answered, err := w.dial(false) // with a cookie
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() { done <- w.off("--drain", "1m") }()
	w.await("drain", func() bool { return w.status().Draining })
	<-b.Exited
	release()
	if err := harness.Ping(answered, nil); err != nil {
		t.Errorf("a client that had a cookie: %v", err)
	}
	w.pingEach("draining")
	use(t, first)
	use(t, second)
	first.Close()
	use(t, second)
	second.Close()
	if out := <-done; !strings.Contains(out, "translated_connections=2") || strings.Contains(out, "end now") {
		t.Errorf("off says %s", out)
	}

	w.start(config)
	w.holdConn(true)
	if out := w.off(); !strings.Contains(out, "connections=1") { // as configured: it is cut after a second, and off says so
		t.Errorf("off says %s", out)
	}
	w.pingEach("nothing is installed")
}

// pingEach makes a connection over each family.
func (w *world) pingEach(when string) {
	w.t.Helper()
	for _, ipv6 := range families() {
		if err := w.ping(ipv6); err != nil {
			w.t.Errorf("%s, new connection, %s: %v", familyName(ipv6), when, err)
		}
	}
}

// A bridge's interfaces are promiscuous until off, whichever process made them so.
func TestOffBridge(t *testing.T) {
	needKernelPath(t)
	w := newWorld(t, true)
	b := w.start(w.config("cookie"))
	b.End(syscall.SIGTERM)
	b = w.start(w.config("cookie"))
	if n := w.promiscuous(); n != 2 {
		t.Errorf("%d interfaces are promiscuous; the bridge has 2", n)
	}
	b.End(syscall.SIGTERM)
	w.off()
	if n := w.promiscuous(); n != 0 {
		t.Errorf("%d interfaces are left promiscuous", n)
	}
}

// promiscuous counts the box's interfaces that are in that mode.
func (w *world) promiscuous() (n int) {
	w.t.Helper()
	err := w.Proxy.Do(func() error {
		out, err := exec.Command("ip", "-d", "link").Output()
		n = strings.Count(string(out), "promiscuity 1")
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// A table with another layout, as another version may have it, is not taken over: the start
// logs what that loses, and everything else continues.
func TestRestartWithAnotherShape(t *testing.T) {
	needKernelPath(t)
	w := newWorld(t, false)
	w.serve(echo)
	b := w.start(w.config("cookie"))
	if err := w.ping(false); err != nil {
		t.Fatal(err)
	}
	b.End(syscall.SIGTERM)
	pin := filepath.Join("/sys/fs/bpf/tidegate", w.Instance, "tg_closed4")
	if err := os.Remove(pin); err != nil {
		t.Fatal(err)
	}
	other, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 12, ValueSize: 64, MaxEntries: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Pin(pin); err != nil {
		t.Fatal(err)
	}
	b = w.start(w.config("cookie"))
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
	if !strings.Contains(b.Stderr.String(), "tg_closed4") {
		t.Errorf("the start says nothing of the table: %s", b.Stderr.String())
	}
	w.off("--now")
}

// On DPDK, off ends the program and leaves nothing behind.
func TestOffDPDK(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	w := newWorld(t, false)
	w.serve(echo)
	b := w.start(strings.Replace(w.config("cookie"), "drain: 0s", "drain: 5m", 1))
	if err := w.ping(false); err != nil {
		t.Fatal(err)
	}
	w.off("--now")
	<-b.Exited
	for _, left := range []string{".json", ".dpdk", ".lock"} {
		if _, err := os.Stat("/run/tidegate/" + w.Instance + left); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}
