// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	harness "tidegate/test/world"
)

// A start that takes over a packet path and then fails leaves it as it was: with its programs, its
// tables and its keys, whatever the cause of the failure. No client notices.
func TestFailedStart(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	config := w.webConfig(webPort, "xdp_mode: native")
	w.must(w.Server.Do(func() error {
		return exec.Command("ip", "link", "add", "tg-more", "type", "veth", "peer", "name", "tg-morep").Run()
	}))
	harness.OccupyXDP(t, w.Server, "tg-more")
	var taken net.Listener
	w.must(w.Server.Do(func() (err error) {
		taken, err = net.Listen("tcp", "127.0.0.1:9100")
		return err
	}))
	defer taken.Close()

	g := w.start(config)
	l := harness.StartLoad(t, 20, harness.InTurn(w.dialTCP))
	keysUntil := w.status().KeysUntil
	for i, c := range []struct{ name, config, says string }{
		{"the metrics port is taken", w.webConfig(webPort, "xdp_mode: native", "metrics: 127.0.0.1:9100"), "metrics"},
		{"the state file cannot be written", config, "json.new"},
		{"another program has an interface", strings.Replace(config, "[tg-server]", "[tg-server, tg-more]", 1), "another XDP program"},
		{"another mode, and another program has an interface",
			strings.Replace(w.webConfig(webPort, "xdp_mode: generic"), "[tg-server]", "[tg-more, tg-server]", 1), "another XDP program"},
	} {
		l.More(20)
		if i%2 == 0 {
			g.Kill()
		} else {
			g.Stop()
		}
		unblock := func() {}
		if c.says == "json.new" {
			unblock = harness.BlockState(t, w.Instance)
		}
		w.writeConfig(c.config)
		if output := harness.FailedStart(t, w.Server, tidegate, w.configPath); !strings.Contains(output, c.says) {
			t.Errorf("%s: says %s", c.name, output)
		}
		unblock()
		w.leftAsItWas(l, c.name)
		if st := w.status(); st.Running || st.KeysUntil.Before(keysUntil) {
			t.Errorf("%s: running %v, keys until %v, before %v", c.name, st.Running, st.KeysUntil, keysUntil)
		}
		g = w.start(config)
	}
	// Killed when everything is attached and nothing committed: its programs keep running, and the next start succeeds.
	g.Kill()
	w.writeConfig(config)
	harness.KilledStart(t, w.Server, tidegate, w.configPath, w.Instance)
	l.More(50)
	g = w.start(config)
	w.leftAsItWas(l, "killed before it was final")
	l.More(20)
	l.End("failed starts")
	g.Stop()
	w.off("--now")
	w.nothingInstalled()
}

// leftAsItWas: everything is attached as before, new connections are protected and counted.
func (w *world) leftAsItWas(l *harness.Load, when string) {
	w.t.Helper()
	if got := w.attachedPrograms(); got["XDP"] == 0 || got["TC ingress"] == 0 {
		w.t.Errorf("%s: attached is %v", when, got)
	}
	if out, err := w.ipLink("tg-server"); err != nil || strings.Contains(out, "xdpgeneric") {
		w.t.Errorf("%s: no longer in the driver: %s, %v", when, out, err)
	}
	before := w.counters()
	l.More(50)
	after := w.counters()
	if after["cookie_sent"] < before["cookie_sent"]+45 || after["adopted"] < before["adopted"]+45 {
		w.t.Errorf("%s: %d cookies, then %d; %d adopted, then %d", when, before["cookie_sent"], after["cookie_sent"], before["adopted"], after["adopted"])
	}
}
