// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// change replaces text in the daemon's configuration and reloads it.
func (d *daemon) change(old, new, answer string) {
	d.T.Helper()
	text, err := os.ReadFile(d.Config)
	if err != nil {
		d.T.Fatal(err)
	}
	changed := strings.Replace(string(text), old, new, 1)
	if changed == string(text) {
		d.T.Fatalf("%q is not in the configuration", old)
	}
	if err := os.WriteFile(d.Config, []byte(changed), 0o600); err != nil {
		d.T.Fatal(err)
	}
	before := d.logged(answer)
	if err := d.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		d.T.Fatal(err)
	}
	d.Await(answer, func() bool { return d.logged(answer) > before })
}

// TestReload: services are added and removed without losing a flow or a count; impossible changes are
// refused, and everything stays as it was.
func TestReload(t *testing.T) {
	e, d := newDaemonEdge(t, "0s")
	e.startSwitch()
	d.start()
	d.AwaitReady()
	ends := attackEnds["ipv6"]
	ack := e.handshake(ends[0], ends[1], 5000)
	check := func(when string, api bool) {
		t.Helper()
		if n := e.send(ack); n != 1 {
			t.Errorf("%s: the flow that is known did not pass", when)
		}
		if n := e.send(e.unknown(0)); n != 0 {
			t.Errorf("%s: a forged ACK passed", when)
		}
		on, back, err := e.through(e.outside, e.inside, frameOf(ends[0], ends[1], 5001, 81, 1, 0, 2))
		if err != nil || len(on)+len(back) != 1 || (len(back) == 1) != api {
			t.Errorf("%s: a SYN to port 81: %d went on, %d were answered, %v", when, len(on), len(back), err)
		}
	}
	check("before", false)
	const one, two = "services: [{name: web, ports: [80]}]", "services: [{name: api, ports: [81]}, {name: web, ports: [80]}]"
	d.change(one, two, "the configuration was reloaded")
	check("with another service before it", true)
	st := d.Status()
	if len(st.Services) != 2 || st.Services[0].Name != "api" || st.Services[0].Counters["syn"] != 1 ||
		st.Services[1].Counters["cookie_valid"] != 1 || st.Services[1].Counters["drop_ack"] != 2 {
		t.Errorf("counters: %+v", st.Services)
	}
	d.change("epoch: 1s", "epoch: 2s", "epoch changed")
	check("after an epoch that cannot be", true)
	d.change("epoch: 2s", "epoch: 1s", "the configuration was reloaded")
	d.change("interfaces: [sw1, sw2]", "interfaces: [sw1, sw2, sw9]", "the switch does not take it")
	check("after a port that there is not", true)
	d.change("interfaces: [sw1, sw2, sw9]", "interfaces: nonsense: [", "reload refused")
	check("after nonsense", true)
	d.change("interfaces: nonsense: [", "interfaces: [sw1, sw2]", "the configuration was reloaded")
	d.change(two, one, "the configuration was reloaded")
	check("as at first", false)
	d.Interrupt()
}

// TestSecretChanges: another secret replaces the first in some epoch, while handshakes
// are under way; those begun with the first are completed after the change.
func TestSecretChanges(t *testing.T) {
	e, d := newDaemonEdge(t, "0s")
	e.startSwitch()
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.Config), "next"), []byte(strings.Repeat("c3", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start()
	d.AwaitReady()
	from := time.Now().Add(3 * time.Second)
	d.change("secret_file: secret\n", fmt.Sprintf("secret_file: secret\nnext_secret_file: next\nnext_secret_from: %s\n", from.UTC().Format(time.RFC3339Nano)),
		"the configuration was reloaded")
	type waiting struct {
		ack  []byte
		from time.Time
	}
	var queue []waiting
	var last time.Time
	done, ends := 0, attackEnds["ipv4"]
	for end := from.Add(2500 * time.Millisecond); time.Now().Before(end) || len(queue) > 0; {
		if now := time.Now(); now.Before(end) && now.Sub(last) > 10*time.Millisecond { // so that none waits for another
			last = now
			queue = append(queue, waiting{e.handshake(ends[0], ends[1], uint16(10000+done+len(queue))), time.Now()})
		}
		time.Sleep(time.Millisecond)
		for len(queue) > 0 && time.Since(queue[0].from) > 900*time.Millisecond {
			if n := e.send(queue[0].ack); n != 1 {
				t.Fatalf("handshake %d, begun %v after the change: %d ACKs came through", done, queue[0].from.Sub(from), n)
			}
			queue, done = queue[1:], done+1
		}
	}
	if counts := d.Status().Services[0].Counters; int(counts["cookie_valid"]) != done || done < 50 {
		t.Errorf("%d handshakes, %v", done, counts)
	}
	// The keys are those of the new secret alone: with it as the only one, the handshake completes.
	begun := e.handshake(ends[0], ends[1], 9000)
	d.change("secret_file: secret\nnext_secret_file: next\nnext_secret_from:", "secret_file: next\n#", "the configuration was reloaded")
	if n := e.send(begun); n != 1 {
		t.Error("a handshake of the new secret did not end when that was the only one")
	}
	begun = e.handshake(ends[0], ends[1], 9001)
	d.change("secret_file: next\n", "secret_file: secret\n", "the configuration was reloaded")
	if n := e.send(begun); n != 0 {
		t.Error("a handshake of the new secret ended with the old one as the only one")
	}
	t.Logf("%d handshakes, each 0.9 s old, while the secret changed", done)
	d.Interrupt()
}
