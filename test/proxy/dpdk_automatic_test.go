// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"tidegate/internal/api"
	"tidegate/internal/instance"
	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// floodRate is 10,000 SYNs a second: as many may pass until the detector has to have switched on, within a second.
const floodRate = 10000

// autoBox is a box on DPDK whose service has no mode, and so is in mode auto.
type autoBox struct {
	*world
	client *api.Client
}

func newAutoBox(t *testing.T, strategy string) *autoBox {
	t.Helper()
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	w := newWorld(t, false)
	w.serve(echo)
	for _, suffix := range []string{".events", ".events.lock", ".sock", ".attacks", ".modes"} {
		t.Cleanup(func() { _ = os.Remove("/run/tidegate/" + w.Instance + suffix) })
	}
	w.prepare()
	w.instance.Write(strings.Replace(w.config(strategy, "epoch: 2s"), "    mode: always\n", "", 1))
	b := &autoBox{w, api.NewClient("/run/tidegate", w.Instance)}
	t.Cleanup(func() {
		if t.Failed() { // whether the server was found at all
			t.Logf("of no service: %v; neighbours there: %v", harness.NonZero(b.status().Global), b.neighbours("tg-inner"))
		}
	})
	b.run()
	return b
}

func (b *autoBox) run() { b.t.Helper(); b.box = &box{b.instance.Start("--detector-calm", "2s")} }

// state is the detector's.
func (b *autoBox) state() instance.DetectorState {
	b.t.Helper()
	var list []instance.DetectorState
	if err := b.client.Do(b.t.Context(), http.MethodGet, "/v1/detector", nil, &list); err != nil || len(list) != 1 || list[0].Service != "web" {
		b.t.Fatalf("%v: %+v", err, list)
	}
	return list[0]
}

// passed are the SYNs that went to the server unanswered, and how many were answered.
func (b *autoBox) passed() (passed, answered uint64) {
	b.t.Helper()
	c := b.counters()
	passed, answered = c["syn"], c["cookie_sent"]+c["challenge_sent"]
	for name, n := range c {
		if strings.HasPrefix(name, "drop_") {
			passed -= n
		}
	}
	return passed - answered, answered
}

// A crowd whose connections complete is no attack. A flood is, within a second: no more than a second's SYNs pass. After the calm
// period nothing is answered any more.
func TestDPDKAutomatic(t *testing.T) {
	b := newAutoBox(t, "cookie")
	b.await("why to say that SYNs go by", func() bool {
		out, errs, err := b.instance.Run("why", "192.0.2.1", b.ServiceAddr(false, port).String(), "--instance", b.Instance)
		if err != nil {
			t.Fatalf("why: %v: %s", err, errs)
		}
		return strings.Contains(out, "forwarded: the detector sees no attack")
	})
	var crowd sync.WaitGroup
	for i := range 24 {
		crowd.Go(func() {
			for range 60 {
				if err := b.ping(i%2 == 0); err != nil {
					t.Errorf("a client of the crowd: %v", err)
					return
				}
			}
		})
	}
	crowd.Wait()
	calm, answered := b.passed()
	if s := b.state(); s.On || s.Attack != nil || answered != 0 || calm < 24*60 { // some were repeated
		t.Errorf("after the crowd: %+v, %d SYNs passed, %d were answered", s, calm, answered)
	}
	if c := b.counters(); c["handshake"] == 0 || c["detect_syn"] == 0 || c["handshake"] > c["detect_syn"] {
		t.Errorf("of the crowd were counted %v", harness.NonZero(c))
	}

	stop := b.floodAt(floodRate)
	b.await("the attack to be seen", func() bool { return b.state().On })
	b.await("SYNs to be answered", func() bool { _, n := b.passed(); return n > floodRate })
	s := b.state()
	if !s.On || s.Attack == nil || s.Attack.Strategy != "cookie" || !s.All && len(s.Attack.Prefixes) != 1 || s.Attack.Answered == 0 {
		t.Errorf("under the flood: %+v, %+v", s, s.Attack)
	}
	want := netip.PrefixFrom(b.ServiceAddr(false, port).Addr(), 32)
	if len(s.Top) == 0 || s.Top[0].Prefix != want {
		t.Errorf("the most attacked are %+v, not %v", s.Top, want)
	}
	if err := b.ping(false); err != nil {
		t.Errorf("a client under the flood: %v", err)
	}
	sent := stop()
	passed, answered := b.passed()
	t.Logf("%d SYNs of %d passed until they were answered", passed-calm, sent)
	if passed-calm > floodRate {
		t.Errorf("%d SYNs of a flood of %d passed, and %d were answered", passed-calm, sent, answered)
	}

	b.await("the end of the attack", func() bool { return !b.state().On })
	_, before := b.passed()
	for range 20 {
		if err := b.ping(false); err != nil {
			t.Errorf("a client after the flood: %v", err)
		}
	}
	if _, now := b.passed(); now != before {
		t.Errorf("%d SYNs were answered after the attack", now-before)
	}
	for _, mode := range []string{"always", "auto"} {
		if out, errs, err := b.instance.Run("mode", "web", mode, "--instance", b.Instance); err != nil {
			t.Fatalf("mode web %s: %v: %s%s", mode, err, out, errs)
		}
		_, before := b.passed()
		if err := b.ping(false); err != nil {
			t.Errorf("a client in mode %s: %v", mode, err)
		}
		if _, now := b.passed(); (now > before) != (mode == "always") {
			t.Errorf("in mode %s %d SYNs were answered", mode, now-before)
		}
	}
}

// While the daemon stands still, what is answered for stays so. When it has been killed, tidegate-dpdk ends with it; the next start
// answers the whole service from its first SYN, until it is calm.
func TestDPDKAutomaticWithoutDaemon(t *testing.T) {
	b := newAutoBox(t, "auth-cookie")
	stop := b.floodAt(floodRate)
	b.await("the attack to be seen", func() bool { return b.state().On })
	passed, answered := b.passed()
	b.await("all SYNs to be answered", func() bool { // the daemon may be about to answer for more places
		now, n := b.passed()
		if now != passed {
			passed, answered = now, n
		}
		return n > answered+floodRate
	})
	b.box.Halt()
	passed, answered = b.passed()
	b.await("SYNs to be answered without the daemon", func() bool { _, n := b.passed(); return n > answered+2*floodRate })
	if now, _ := b.passed(); now != passed {
		t.Errorf("without the daemon %d SYNs passed", now-passed)
	}
	b.box.Signal(syscall.SIGCONT)
	b.await("the daemon to be back", func() bool { return b.state().On })

	b.box.Kill()
	b.run()
	if s := b.state(); !s.On || !s.All || s.Attack == nil {
		t.Errorf("after the restart: %+v", s)
	}
	b.await("SYNs to be answered after the restart", func() bool { _, n := b.passed(); return n > floodRate })
	if now, n := b.passed(); now != 0 {
		t.Errorf("after the restart %d SYNs passed, and %d were answered", now, n)
	}
	stop()
	b.await("the end of the attack", func() bool { return !b.state().On })
}
