// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// trialConfig is a configuration whose service is only monitored.
func (w *world) trialConfig() string {
	return w.topConfig("epoch: 1s", "key_horizon: 10m", "drain: 0s", "takeover: adopt", "events: {file: "+w.trialEvents()+"}") +
		fmt.Sprintf("services:\n  - name: web\n    ports: [%d]\n    mode: monitor\n", webPort)
}

func (w *world) trialEvents() string { return filepath.Join(w.dir, "trial.events") }

// A trial protects although the mode is monitor, ends by itself, and leaves nothing behind.
func TestTrialPasses(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.writeConfig(w.trialConfig())
	p := w.in.Start("--trial", "5s")
	w.mustPingNew(6)
	c := w.counters()
	if n := uint64(6 * len(families())); c["adopted"] != n || c["connected"] != n {
		t.Errorf("%d connections were adopted and %d got sockets, of %d", c["adopted"], c["connected"], n)
	}
	select {
	case <-p.Exited:
	case <-time.After(patience):
		t.Fatal("the trial does not end")
	}
	if log := p.Stderr.String(); p.Err != nil || !strings.Contains(log, "trial passed") {
		t.Errorf("the trial ended with %v", p.Err)
	}
	// That its keys end with it is no condition, and nothing stays.
	events, err := os.ReadFile(w.trialEvents())
	if err != nil {
		t.Fatal(err)
	}
	if s := string(events); strings.Contains(s, "keys-stale") || !strings.Contains(s, "stopped and taken down") {
		t.Errorf("events of a trial that passed:\n%s", s)
	}
	w.nothingInstalled()
	w.mustPingNew(1)
}

// A rule that drops new connections without a SYN kills every adopted connection: the trial ends early
// and says so.
func TestTrialFails(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.nft(w.Server, "table inet strict {\n chain c {\n type filter hook input priority 0;\n ct state new tcp flags & syn != syn drop\n}\n}\n")
	w.writeConfig(w.trialConfig())
	p := w.in.Start("--trial", "30s")
	for range 5 {
		w.mustDial(false, webPort)
	}
	select {
	case <-p.Exited:
	case <-time.After(20 * time.Second):
		t.Fatal("the trial does not end early")
	}
	if log := p.Stderr.String(); p.Err == nil || !strings.Contains(log, "only 0 got a socket") {
		t.Errorf("the trial ended with %v:\n%s", p.Err, log)
	}
	w.nothingInstalled()
	w.mustPingNew(1)
}

// The daemon is killed during its trial: the packet path leaves SYNs to the kernel once the trial's
// keys have expired.
func TestTrialOfAKilledDaemonEnds(t *testing.T) {
	w := newWorld(t)
	w.echoServer(webPort)
	w.writeConfig(w.trialConfig())
	p := w.in.Start("--trial", "5s")
	w.mustPingNew(1)
	if err := p.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.Exited
	w.await("SYNs to be left to the kernel", func() bool {
		w.mustPingNew(1)
		return w.counters()["pass_no_key"] > 0
	})
	sent := w.counters()["cookie_sent"]
	w.mustPingNew(3)
	if c := w.counters(); c["cookie_sent"] != sent {
		t.Errorf("%d more SYNs were answered after the trial", c["cookie_sent"]-sent)
	}
}
