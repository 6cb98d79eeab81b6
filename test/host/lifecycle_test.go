// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// The daemon is killed, restarted, stopped and started again while clients
// come and others stay. No client may notice.
func TestKillTakeOverStopUnderLoad(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "drain: 200ms"))
	l := w.startLoad()
	l.more(100)

	g.Kill()
	before := w.counters()["adopted"]
	l.more(100)
	if after := w.counters()["adopted"]; after < before+50 {
		t.Errorf("without a daemon %d connections were adopted, then %d", before, after)
	}
	if st := w.status(); st.Running {
		t.Error("status says that the killed daemon runs")
	}
	text, _, err := w.tidegateRun("status", "--instance", w.Instance)
	if err != nil || !strings.Contains(text, "running without a daemon since") {
		t.Errorf("status says %q, %v", text, err)
	}

	g = w.start(w.webConfig(webPort, "drain: 200ms"))
	l.more(100)
	if st := w.status(); !st.Running || st.PID != g.Cmd.Process.Pid {
		t.Errorf("status shows pid %d, running %t; want %d", st.PID, st.Running, g.Cmd.Process.Pid)
	}
	if c := w.counters(); c["adopted"] == 0 {
		t.Errorf("the new daemon's gate adopts nothing: %v", c)
	}

	w.off() // through the running process
	<-g.Exited
	w.nothingInstalled()
	l.more(100)

	g = w.start(w.webConfig(webPort, "drain: 200ms"))
	l.more(100)
	g.Interrupt()
	w.nothingInstalled()
	l.more(10)
	w.off() // nothing is attached any more
	l.end()
	l.noFailure()
}

// A cookie sent before Ctrl-C is accepted during the drain. A second Ctrl-C cuts the
// drain short.
func TestDrainHonoursCookies(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "drain: 5m"))
	w.lose("output", "tcp flags == ack")
	c := w.mustDial(false, webPort) // its ACK is lost
	w.wantCounters(map[string]uint64{"cookie_sent": 1, "adopted": 0})
	g.Signal(syscall.SIGINT)
	g.AwaitLog("draining: SYNs pass")
	if got := w.attachedPrograms(); got["XDP"] != 0 || got["TC ingress"] == 0 {
		t.Errorf("attached during the drain: %v", got)
	}
	if err := c.ping(); err != nil {
		t.Errorf("the connection begun before the stop: %v", err)
	}
	w.wantCounters(map[string]uint64{"adopted": 1})
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"cookie_sent": 1, "adopted": 1})
	g.Interrupt()
	w.nothingInstalled()
	if err := c.ping(); err != nil {
		t.Errorf("an established connection after the stop: %v", err)
	}
}

// Keys change every second, and no client notices.
func TestRotationUnderLoad(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort, "epoch: 1s", "key_horizon: 3s"))
	first := w.status().Epoch
	l := w.startLoad()
	w.await("five rotations", func() bool { return w.status().Epoch >= first+5 || l.failed() })
	l.end()
	l.noFailure()
	n := l.done.Load() + uint64(len(families())) // and connections that stayed
	w.wantCounters(map[string]uint64{"syn": n, "cookie_sent": n, "adopted": n, "cookie_invalid": 0, "cookie_stale": 0, "pass_no_key": 0})
	if n := netstat(t, w.Client, "TcpExt", "TCPSynRetrans"); n != 0 {
		t.Errorf("%d SYNs had to be sent again", n)
	}
}

// Without a daemon the keys run out at the horizon. Fail open: SYNs go to the
// kernel, and no client notices.
func TestKeysRunOutOpen(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "epoch: 1s", "key_horizon: 2s"))
	l := w.startLoad()
	l.more(20)
	g.Kill()
	w.await("SYNs pass for want of a key", func() bool { return w.counters()["pass_no_key"] > 0 || l.failed() })
	l.more(20)
	if st := w.status(); st.Running || st.KeysUntil.IsZero() {
		t.Errorf("status: running %t, keys until %s", st.Running, st.KeysUntil)
	}
	w.start(w.webConfig(webPort, "epoch: 1s", "key_horizon: 2s"))
	l.more(20)
	l.end()
	l.noFailure()
	if c := w.counters(); c["adopted"] == 0 || c["pass_no_key"] != 0 {
		t.Errorf("after the new start: %v", c)
	}
}

// Fail closed: SYNs are dropped and counted. Established connections survive.
func TestKeysRunOutClosed(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	config := w.webConfig(webPort, "epoch: 1s", "key_horizon: 2s", "on_stale_keys: drop")
	g := w.start(config)
	stays := w.mustDial(false, webPort)
	w.must(stays.ping())
	g.Kill()
	st := w.status()
	w.await("the keys' end", func() bool { return w.status().Epoch > st.Epoch+2 })
	kept := make(chan error, 1)
	go func() { kept <- w.pingNew(false, webPort) }()
	w.await("a SYN is dropped for want of a key", func() bool { return w.counters()["drop_no_key"] > 0 })
	w.must(stays.ping())
	w.wantCounters(map[string]uint64{"pass_no_key": 0})
	w.start(config)
	w.mustPingNew(1)
	<-kept // served or not: depends on when the client gave up
}

// monitor counts what always would do, and judges how it would take connections over; off counts nothing.
func TestMonitorAndOff(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	n := uint64(2 * len(families()))
	mode := func(mode string) string {
		return strings.Replace(w.webConfig(webPort), "mode: always", "mode: "+mode, 1)
	}
	g := w.start(mode(`"off"`))
	w.mustPingNew(2)
	for name, v := range w.counters() {
		if v != 0 {
			t.Errorf("mode off counts %s: %d", name, v)
		}
	}
	g.Reload(mode("monitor"), "msg=reloaded")
	w.mustPingNew(2)
	want := map[string]uint64{"syn": n, "would_answer": n, "connected": n}
	for name, v := range w.counters() {
		if v != want[name] {
			t.Errorf("mode monitor counts %s: %d, want %d", name, v, want[name])
		}
	}
	for _, c := range [][2]string{{"", "adopt"}, {obstacles[1].rules, "translate"}, {"", "adopt"}} {
		w.nft(w.Server, "flush ruleset\n"+c[0])
		w.await("mode monitor: would "+c[1], func() bool { how, why := w.how(webPort); return how == c[1] && why != "" })
	}
	g.Reload(mode("always"), "msg=reloaded")
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"syn": 2 * n, "would_answer": n, "cookie_sent": n, "adopted": n})
}

// A start, even one that takes over, uses the XDP mode that was requested; and
// status shows the mode that the kernel uses.
func TestXDPModes(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	for _, c := range []struct {
		asked, got plane.XDPMode
	}{{plane.XDPNative, plane.XDPNative}, {plane.XDPGeneric, plane.XDPGeneric}, {plane.XDPAuto, plane.XDPGeneric}, {plane.XDPNative, plane.XDPNative}} {
		g := w.start(w.webConfig(webPort, "xdp_mode: "+string(c.asked)))
		if got := w.status().XDP["tg-server"]; got != c.got {
			t.Errorf("asked for %s, status shows %s, want %s", c.asked, got, c.got)
		}
		out, err := w.ipLink("tg-server")
		if generic := strings.Contains(out, "xdpgeneric"); err != nil || generic != (c.got == plane.XDPGeneric) {
			t.Errorf("asked for %s, ip link shows %s, %v", c.asked, out, err)
		}
		w.mustPingNew(2)
		w.wantCounters(map[string]uint64{"adopted": uint64(2 * len(families()))})
		g.Kill()
	}
}

// The far end of a veth loses the program that native answers need: auto goes over to generic XDP, and clients are served.
func TestFarEndLosesItsProgram(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort, "xdp_mode: auto"))
	if got := w.status().XDP["tg-server"]; got != plane.XDPNative {
		t.Fatalf("status shows %s", got)
	}
	w.mustPingNew(1)
	w.must(w.ClientPort.DetachXDP())
	w.await("generic XDP", func() bool { return w.status().XDP["tg-server"] == plane.XDPGeneric })
	if w.status().Refused["tg-server"] == "" {
		t.Error("status does not say why")
	}
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"adopted": uint64(3 * len(families()))})
	if out, err := w.ipLink("tg-server"); err != nil || !strings.Contains(out, "xdpgeneric") {
		t.Errorf("ip link shows %s, %v", out, err)
	}
	w.must(w.ClientPort.AttachXDPAgain())
	t.Cleanup(func() { _ = w.ClientPort.DetachXDP() })
	w.await("native XDP", func() bool { return w.status().XDP["tg-server"] == plane.XDPNative })
	if why := w.status().Refused["tg-server"]; why != "" {
		t.Errorf("status still says %q", why)
	}
	w.mustPingNew(2)
	w.wantCounters(map[string]uint64{"adopted": uint64(5 * len(families()))})
	g.Kill()
	w.start(w.webConfig(webPort, "xdp_mode: auto")).Interrupt() // what was attached anew is found by the next start, and removed
	w.nothingInstalled()
}

// The far end has no program until the host has started.
func TestFarEndGainsAProgram(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.must(w.ClientPort.DetachXDP())
	w.start(w.webConfig(webPort, "xdp_mode: auto"))
	if got := w.status().XDP["tg-server"]; got != plane.XDPGeneric {
		t.Fatalf("status shows %s", got)
	}
	w.mustPingNew(1)
	w.must(w.ClientPort.AttachXDPAgain())
	t.Cleanup(func() { _ = w.ClientPort.DetachXDP() })
	w.await("native XDP", func() bool { return w.status().XDP["tg-server"] == plane.XDPNative })
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(2 * len(families()))})
}

func (w *world) ipLink(dev string) (string, error) {
	var out []byte
	err := w.Server.Do(func() (err error) {
		out, err = exec.Command("ip", "link", "show", "dev", dev).Output()
		return err
	})
	return string(out), err
}

// A BPF file system allows no dots in names; interfaces and instances have them.
func TestDottedNames(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.must(w.Server.Do(func() error {
		return exec.Command("ip", "link", "add", "tg.100", "type", "veth", "peer", "name", "tg.100p").Run()
	}))
	plain := w.Instance
	config := strings.Replace(w.webConfig(webPort), "[tg-server]", "[tg-server, tg.100]", 1)
	config = strings.Replace(config, "instance: "+plain, "instance: "+plain+".d", 1)
	w.Instance += ".d"
	w.in.Name = w.Instance
	for range 2 { // the second start takes over
		g := w.start(config)
		w.mustPingNew(1)
		w.wantCounters(map[string]uint64{"adopted": uint64(len(families()))})
		g.Kill()
	}
	g := w.start(config)
	g.Interrupt()
	w.nothingInstalled()
}

// A start that takes over detaches from an interface that is no longer configured.
func TestInterfaceDropped(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.must(w.Server.Do(func() error {
		return exec.Command("ip", "link", "add", "tg-more", "type", "veth", "peer", "name", "tg-morep").Run()
	}))
	g := w.start(strings.Replace(w.webConfig(webPort), "[tg-server]", "[tg-server, tg-more]", 1))
	if out, err := w.ipLink("tg-more"); err != nil || !strings.Contains(out, "prog/xdp") {
		t.Errorf("not attached: %s, %v", out, err)
	}
	g.Kill()
	w.start(w.webConfig(webPort))
	if out, err := w.ipLink("tg-more"); err != nil || strings.Contains(out, "prog/xdp") {
		t.Errorf("still attached: %s, %v", out, err)
	}
	w.mustPingNew(1)
}

// An instance of this name in another network namespace is left alone.
func TestInstanceOfAnotherNamespace(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	g := w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	g.Kill()
	w.sysctl(w.Client, "net.ipv4.tcp_syncookies", "1")
	w.writeConfig(strings.Replace(w.webConfig(webPort), "tg-server", "tg-client", 1))
	var out, errs harness.Output
	cmd := exec.Command(tidegate, "run", "-c", w.configPath)
	cmd.Stdout, cmd.Stderr = &out, &errs
	w.must(w.Client.Do(cmd.Start))
	err := cmd.Wait()
	_, last, _ := strings.Cut(errs.String(), "tidegate: ") // after a warning: nothing listens there
	w.wantOneLine(err, out.String(), "tidegate: "+last, "another network namespace", "instance:")
	w.mustPingNew(1)
	w.wantCounters(map[string]uint64{"adopted": uint64(2 * len(families()))})
}

// The gate leaves alone everything but SYNs to a protected service.
func TestOthersUntouched(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.echoServer(81)
	w.start(w.webConfig(webPort))
	for _, ipv6 := range families() {
		name := familyName(ipv6)
		w.must(w.pingNew(ipv6, 81))
		if err := w.serverDials(ipv6); err != nil {
			t.Errorf("%s: the server's own connection: %v", name, err)
		}
		if err := w.overLoopback(ipv6); err != nil {
			t.Errorf("%s: over loopback: %v", name, err)
		}
		if err := w.udpEcho(ipv6); err != nil {
			t.Errorf("%s: UDP to the protected port: %v", name, err)
		}
		if err := w.icmpEcho(ipv6); err != nil {
			t.Errorf("%s: ICMP: %v", name, err)
		}
	}
	for name, n := range w.counters() {
		if n != 0 && name != "connected" { // which counts what comes over loopback, too
			t.Errorf("%s: %d", name, n)
		}
	}
	for name, n := range w.status().Global {
		if n != 0 {
			t.Errorf("global %s: %d", name, n)
		}
	}
}
