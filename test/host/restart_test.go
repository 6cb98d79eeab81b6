// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/instance"
	harness "tidegate/test/world"
)

// dialTCP connects to the protected port and sends nothing.
func (w *world) dialTCP(ipv6 bool) (c *net.TCPConn, err error) {
	err = w.Client.Do(func() error {
		d := net.Dialer{Timeout: 5 * time.Second}
		d.SetMultipathTCP(false)
		conn, err := d.Dial("tcp", netip.AddrPortFrom(w.ServerAddr(ipv6), webPort).String())
		if err == nil {
			c = conn.(*net.TCPConn)
		}
		return err
	})
	return c, err
}

// The process is stopped and started again, also as another version of the binary, and
// reloaded, while 50 clients stay connected and others come: no client notices. Meanwhile status says that
// no process serves the packet path, and a start takes it over.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	config := w.webConfig(webPort)
	g := w.start(config)
	l := harness.StartLoad(t, 50, harness.InTurn(w.dialTCP))
	for range 2 {
		l.More(50)
		g.Stop()
		before := w.counters()["adopted"]
		l.More(100)
		if after := w.counters()["adopted"]; after < before+50 {
			t.Errorf("without a daemon %d connections were adopted, then %d", before, after)
		}
		text, _, err := w.tidegateRun("status", "--instance", w.Instance)
		if st := w.status(); err != nil || st.Running || time.Since(st.Since) > time.Minute || !strings.Contains(text, "running without a daemon since") ||
			!strings.Contains(text, "then SYNs pass unprotected") {
			t.Errorf("status: since %v, %s, %v", st.Since, text, err)
		}
		g = w.start(config)
		l.More(50)
		g.Reload(config, "msg=reloaded")
	}
	other := filepath.Join(w.dir, "tidegate-next") // an upgrade: another binary takes over from one that was stopped
	if out, err := exec.Command("go", "build", "-o", other, "-ldflags", "-X tidegate/internal/version.Version=99.0.0", "tidegate/cmd/tidegate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	g.Stop()
	g = w.launchBinary(other, config)
	g.Await("ready", func() bool { return strings.Contains(g.Stdout.String(), "ready\n") })
	if v := w.status().Version; v != "99.0.0" {
		t.Errorf("version %q runs", v)
	}
	l.More(50)
	l.End("stops, starts, reloads and another version")
	w.off("--now")
	w.nothingInstalled()
}

// A process that has the instance, and has not replaced what a killed one has left, is not ready: what it will install is not in force, and what
// is counted now it will not count. The process that starts is this test here, so that it stays at that point.
func TestStartingIsNotReady(t *testing.T) {
	w := newWorld(t)
	config := w.webConfig(webPort)
	ready := func() (string, error) {
		_, errs, err := w.tidegateRun("status", "--ready", "--instance", w.Instance)
		return errs, err
	}
	w.start(config).Kill()
	unlock, err := instance.Lock(filepath.Dir(w.statePath()), w.Instance)
	w.must(err)
	if errs, err := ready(); err == nil || !strings.Contains(errs, "is being started") {
		t.Errorf("%v: %s", err, errs)
	}
	if text, errs, err := w.tidegateRun("status", "--instance", w.Instance); err != nil || !strings.Contains(text, "being started") || !w.status().Starting {
		t.Errorf("%v: %s%s", err, text, errs)
	}
	unlock()
	w.start(config)
	if errs, err := ready(); err != nil {
		t.Errorf("it is protecting: %v: %s", err, errs)
	}
}

// Off does not wait for connections that an interrupted drain left: it can be stopped, and either
// off or run completes it.
func TestOffInterrupted(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "drain: 5m"))
	g.Stop()
	for _, end := range []string{"run", "off"} {
		var errs harness.Output
		cmd := exec.Command(tidegate, "off", "-c", w.configPath)
		cmd.Stderr = &errs
		w.must(w.Server.Do(cmd.Start))
		w.await("the drain", func() bool { return strings.Contains(errs.String(), "draining: SYNs pass") })
		w.must(cmd.Process.Signal(syscall.SIGINT))
		if err := cmd.Wait(); err == nil || !strings.Contains(errs.String(), "interrupted: SYNs pass") {
			t.Errorf("%v: %s", err, errs.String())
		}
		text, _, err := w.tidegateRun("status", "--instance", w.Instance)
		if err != nil || !strings.Contains(text, "half taken down") {
			t.Errorf("status: %s, %v", text, err)
		}
		w.mustPingNew(1) // the kernel's
		if end == "run" {
			g = w.start(w.webConfig(webPort, "drain: 5m"))
			w.mustPingNew(1)
			w.wantCounters(map[string]uint64{"adopted": uint64(len(families()))})
			g.Stop()
		}
	}
	w.off("--now")
	w.nothingInstalled()
}
