// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	"tidegate/internal/p4"
)

// Controllers that are killed, and switches that are restarted under one, in both orders:
// the real binary, started as users start it.

const edgeLines = `role: edge
protocol: plain
epoch: 1s
key_horizon: 30s
on_stale_keys: drop
filter_window: 30s
learning: %s
hops: 0
unknown_rate: 0
interfaces: [sw1, sw2]
inside: [sw2]
services: [{name: web, ports: [80]}]
`

// realPorts are the ports of the switch between Linux hosts.
const realPorts = "interfaces: [tg-legit, tg-inner]\ninside: [tg-inner]\n"

func cookieLines() string {
	return fmt.Sprintf("role: proxy\nepoch: 2s\nkey_horizon: 60s\non_stale_keys: drop\nidle_time: 60s\nswap_period: 60s\n"+realPorts+
		"services: [{name: web, ports: [%d]}]\n", realPort)
}

func authLines() string {
	return fmt.Sprintf("role: proxy\nepoch: 2s\nkey_horizon: 60s\nswap_period: 60s\n"+realPorts+
		"services: [{name: web, ports: [%d], strategy: auth-full}]\n", realPort)
}

// newDaemonEdge is an edge with the real controller beside it.
func newDaemonEdge(t *testing.T, learn string) (*attackedEdge, *daemon) {
	e := &attackedEdge{bench: newStoppedBench(t, edgeProgram), t: t}
	return e, newDaemon(t, nil, e.notifications, fmt.Sprintf(edgeLines, learn))
}

func (e *attackedEdge) unknown(n int) []byte {
	ends := attackEnds["ipv4"]
	return frameOf(ends[0], ends[1], uint16(20000+n%30000), 80, 77, uint32(n), 0x10)
}

// TestControllerKilled: killed and restarted under traffic, the controller continues
// with the switch's filter, keys and addresses: flows continue, handshakes begun
// before are completed, and at no time does anything pass that should not.
func TestControllerKilled(t *testing.T) {
	e, d := newDaemonEdge(t, "0s")
	e.startSwitch()
	d.start()
	d.AwaitReady()
	flows := map[string][]byte{}
	for name, ends := range attackEnds {
		ack := e.handshake(ends[0], ends[1], 5000)
		if n := e.send(ack); n != 1 {
			t.Fatalf("%s: %d ACKs came through", name, n)
		}
		at := len(ack) - 20
		flows[name] = frameOf(ends[0], ends[1], 5000, 80, be32(ack[at+4:])+1, be32(ack[at+8:]), 0x18)
	}
	d.Await("both addresses", func() bool { return d.Status().P4.MACs.Outside == 1 })
	check := func(when string) {
		t.Helper()
		for name, flow := range flows {
			if n := e.send(flow); n != 1 {
				t.Errorf("%s: %s: the flow that is known did not pass", when, name)
			}
		}
	}
	handshakes, attacked := 0, 0
	for round := range 3 {
		d.Kill()
		if st := d.Status(); st.Running || !st.P4.Answers || st.Services[0].Counters["cookie_valid"] == 0 {
			t.Errorf("status of a killed one: %+v", st)
		}
		check("without a controller")
		ends := attackEnds["ipv6"]
		begun := e.handshake(ends[0], ends[1], uint16(6000+round))
		d.start()
		for deadline := time.Now().Add(patience); !d.ready(); { // traffic without a pause while it begins
			if d.Ended() || time.Now().After(deadline) {
				t.Fatalf("not ready: %s", d.logs())
			}
			check("while it begins")
			var forged [][]byte
			for range portion {
				forged = append(forged, e.unknown(attacked))
				attacked++
			}
			if n := e.send(forged...); n != 0 {
				t.Fatalf("round %d: %d of %d ACKs of a flood passed while the controller began", round, n, portion)
			}
			for _, ends := range attackEnds { // an epoch's key at any time
				if n := e.send(e.handshake(ends[0], ends[1], uint16(7000+handshakes))); n != 1 {
					t.Fatalf("round %d: handshake %d did not pass", round, handshakes)
				}
				handshakes++
			}
		}
		if n := e.send(begun); n != 1 {
			t.Errorf("a handshake begun without a controller: %d ACKs came through", n)
		}
		check("afterwards")
	}
	if n := d.logged("took over a switch"); n != 3 {
		t.Errorf("it said %d times that it took over, want 3", n)
	}
	if st := d.Status(); !st.Running || st.P4.MACs.Outside != 1 {
		t.Errorf("afterwards: %+v", st.P4)
	}
	d.End(syscall.SIGTERM) // leaves the switch as it is
	if st := d.Status(); st.Running || !st.P4.Answers {
		t.Errorf("after SIGTERM: %+v", st)
	}
	check("after SIGTERM")
	if n := e.send(e.unknown(attacked)); n != 0 {
		t.Error("after SIGTERM, a forged ACK passed")
	}
	attacked++
	d.start()
	d.AwaitReady()
	t.Logf("%d handshakes and %d forged ACKs while controllers began", handshakes, attacked)

	// Keys go on across epochs, laid by three controllers.
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); handshakes++ {
		ends := attackEnds["ipv4"]
		if n := e.send(e.handshake(ends[0], ends[1], uint16(7000+handshakes))); n != 1 {
			t.Fatalf("handshake %d did not pass", handshakes)
		}
	}
	st := d.Status()
	counts := st.Services[0].Counters
	if counts["drop_no_key"] != 0 || counts["pass_no_key"] != 0 || int(counts["drop_ack"]) != attacked {
		t.Errorf("%d ACKs were forged: %v", attacked, counts)
	}
	row := `tidegate_drop_ack_total{service="web"}`
	if got := d.metric(row); got != fmt.Sprint(attacked) {
		t.Errorf("%s is %q, want %d", row, got, attacked)
	}
	d.Interrupt()
	if n := e.send(e.unknown(1)); n != 1 {
		t.Error("stopped, the switch does not forward everything")
	}
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// TestSwitchRestarted: the controller waits for a switch that is not there yet, notices
// that it is gone and back, and configures it again.
func TestSwitchRestarted(t *testing.T) {
	e, d := newDaemonEdge(t, "0s")
	d.start()
	d.AwaitLog("waiting for the switch")
	if st := d.Status(); !st.Running || st.P4.Answers || st.P4.Why == "" {
		t.Errorf("before there is a switch: %+v", st.P4)
	}
	e.startSwitch()
	d.AwaitReady()
	ends := attackEnds["ipv4"]
	for round := range 2 {
		if n := e.send(e.unknown(0)); n != 0 {
			t.Errorf("round %d: a forged ACK came through", round)
		}
		if n := e.send(e.handshake(ends[0], ends[1], uint16(5000+round))); n != 1 {
			t.Errorf("round %d: the ACK did not come through", round)
		}
		d.Await("the address", func() bool { return d.Status().P4.MACs.Outside == 1 })
		e.killSwitch()
		d.AwaitLog("the switch no longer answers")
		d.Await("the status", func() bool { return !d.Status().P4.Answers })
		if got := d.metric("tidegate_switch_answers"); got != "0" {
			t.Errorf("tidegate_switch_answers is %q", got)
		}
		e.startSwitch()
		d.Await("everything is told again", func() bool {
			return d.logged("its state was programmed again") == round+1
		})
		if st := d.Status(); !st.P4.Answers || st.P4.Restarts != uint64(round+1) {
			t.Errorf("round %d: afterwards %+v", round, st.P4)
		}
	}
	e.killSwitch()
	d.AwaitLog("the switch no longer answers")
	d.Interrupt() // without a switch, too
}

// TestControllerKilledUnderConnections: connections of the translating program, of both
// families, continue while their controller is killed and restarted, with data in
// flight; so do those that began without one.
func TestControllerKilledUnderConnections(t *testing.T) {
	var socket string
	w := newRealWorldWithout(t, p4.ProgramCookie, cookieProgram, &socket)
	d := newDaemon(t, w.Proxy, socket, cookieLines())
	d.start()
	d.AwaitReady()
	w.serve(echo)
	type talk struct {
		c    *net.TCPConn
		sent int
	}
	var talks []*talk
	dial := func(n int) {
		t.Helper()
		for _, ipv6 := range realFamilies() {
			for range n {
				c, err := w.dial(ipv6, realPort)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				talks = append(talks, &talk{c: c})
			}
		}
	}
	speak := func(when string) {
		t.Helper()
		for i, k := range talks {
			text := fmt.Appendf(nil, "%s, word %d of %d", when, k.sent, i)
			k.sent++
			got := make([]byte, len(text))
			_ = k.c.SetDeadline(time.Now().Add(patience))
			_, err := k.c.Write(text)
			if err == nil {
				_, err = io.ReadFull(k.c, got)
			}
			if err != nil || !bytes.Equal(got, text) {
				t.Fatalf("%s: connection %d: %q %v", when, i, got, err)
			}
		}
	}
	dial(3)
	speak("with the first controller")
	d.Await("their entries", func() bool { return d.Status().P4.Entries == len(talks) })
	for round := range 2 {
		d.Kill()
		speak("without a controller")
		dial(2) // in registers, for 17 s; no controller knows it
		speak("new without a controller")
		d.start()
		for !d.ready() {
			if d.Ended() {
				t.Fatalf("not ready: %s", d.logs())
			}
			speak("while it begins")
		}
		time.Sleep(1100 * time.Millisecond) // the switch sends its digest again in the next second that it counts
		speak("with the next controller")
		d.Await("entries of all", func() bool { return d.Status().P4.Entries == len(talks) })
		t.Logf("round %d: %d connections go on", round, len(talks))
	}
	row := "tidegate_flows"
	if got := d.metric(row); got != fmt.Sprint(len(talks)) {
		t.Errorf("%s is %q, want %d", row, got, len(talks))
	}
	d.Interrupt()
}

// TestWhitelistSurvives: sources in the whitelist's table stay in it when the controller is killed and
// restarted; a source that proves itself meanwhile is added when a controller runs again.
func TestWhitelistSurvives(t *testing.T) {
	var socket string
	w := newRealWorldWithout(t, p4.ProgramAuthFull, authProgram, &socket)
	d := newDaemon(t, w.Proxy, socket, authLines())
	d.start()
	d.AwaitReady()
	w.serve(echo)
	resets := w.accepted(false)
	d.Await("its entry", func() bool { return d.Status().P4.Entries == 1 })
	d.Kill()
	for range 3 {
		if err := w.exchange(false, []byte("known")); err != nil {
			t.Errorf("without a controller: %v", err)
		}
		if !rig.HaveIPv6() {
			continue
		}
		if err := w.exchange(true, []byte("proven to nobody")); !wasReset(err) {
			t.Errorf("a newcomer without a controller: %v, want a reset", err)
		}
	}
	d.start()
	d.AwaitReady()
	if err := w.exchange(false, []byte("still known")); err != nil {
		t.Errorf("with the next controller: %v", err)
	}
	for _, ipv6 := range realFamilies() {
		resets += w.accepted(ipv6)
	}
	d.Await("entries of all", func() bool { return d.Status().P4.Entries == len(realFamilies()) })
	if counts := d.Status().Services[0].Counters; int(counts["white_reset"]) < resets {
		t.Errorf("%d resets, counted %v", resets, counts)
	}
	d.Interrupt()
}
