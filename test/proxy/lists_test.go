// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// Options of SYNs as Linux orders them, without and with timestamps.
var (
	common      = []byte{2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7}
	timestamped = []byte{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}
)

// clientOf is the address from which the client connects.
func (w *world) clientOf(ipv6 bool) netip.Addr {
	w.t.Helper()
	c, err := w.dial(ipv6)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Addr()
}

// Under plane: dpdk, prefixes by hand are in force at once, across a restart of the program, and expire by themselves.
func TestDPDKListsByHand(t *testing.T) {
	if testPlane != rig.PlaneDPDK {
		t.Skip("is about plane: dpdk; the stage dpdk_net of test/run runs it with TIDEGATE_TEST_PLANE=dpdk")
	}
	w := newWorld(t, false)
	w.serve(echo)
	config := w.config("cookie")
	b := w.start(config)
	four, six := w.clientOf(false), w.clientOf(true)
	tg := func(args ...string) {
		t.Helper()
		if out, errs, err := w.instance.Run(append(args, "--instance", w.Instance)...); err != nil {
			t.Fatalf("%v: %v: %s%s", args, err, out, errs)
		}
	}
	syns, client := harness.NewSYNs(t, w.ClientPort, w.LegitPort), uint16(6000)
	// denied sends a SYN, awaits its count, and says whether that is the one of denied sources.
	denied := func(from netip.Addr) (was bool) {
		t.Helper()
		before := w.counters()
		client++
		syns.Send(netip.AddrPortFrom(from, client), w.ServiceAddr(from.Is6(), port), timestamped)
		w.await("the SYN is counted", func() bool {
			now := w.counters()
			was = now["drop_denied"] > before["drop_denied"]
			return was || now["cookie_sent"] > before["cookie_sent"]
		})
		return was
	}
	if denied(four) || denied(six) {
		t.Fatal("denied without a list")
	}
	why := func(want ...string) {
		t.Helper()
		out, errs, err := w.instance.Run("why", four.String(), w.ServiceAddr(false, port).String(), "--instance", w.Instance)
		for _, text := range want {
			if err != nil || !strings.Contains(out, text) {
				t.Errorf("why: %v: %s%s, want %q", err, out, errs, text)
			}
		}
	}
	why("web", "always", "unknown: ")
	tg("deny", four.String(), "--comment", "too loud")
	why("deny "+four.String()+"/32", "too loud", "drop: ")
	if !denied(four) || denied(six) {
		t.Error("of the two addresses, exactly the one denied by hand is to be")
	}
	if l := w.status().Lists; l == nil || l.Deny != 1 || l.Allow != 0 {
		t.Errorf("status: %+v", l)
	}
	b.Stop()
	w.start(config)
	if !denied(four) {
		t.Error("not denied after a restart")
	}
	tg("allow", four.String())
	tg("deny", "0.0.0.0/0")
	tg("deny", "::/0")
	if denied(four) || !denied(six) {
		t.Error("only the exception from a wider denial is to be answered")
	}
	tg("lists", "remove", four.String())
	if !denied(four) {
		t.Error("not denied without the exception")
	}
	tg("lists", "remove", "0.0.0.0/0")
	tg("deny", "::/0", "--for", "1s")
	w.await("the denial expires, and with it the lists", func() bool { return w.status().Lists == nil })
	if denied(four) || denied(six) {
		t.Error("still denied")
	}
	if files, err := filepath.Glob("/run/tidegate/" + w.Instance + ".dpdk-lists"); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// A proxy drops the SYNs of sources in its lists, on either path and under each kind of strategy; whoever was verified before, too.
func TestLists(t *testing.T) {
	for _, strategy := range []string{"cookie", "cache", "auth-full"} {
		t.Run(strategy, func(t *testing.T) {
			w := newWorld(t, false)
			list := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			list("deny", "203.0.113.0/24\n")
			list("allow", "")
			w.serve(echo)
			config := w.config(strategy, "deny_list: deny", "allow_list: allow")
			b := w.start(config)
			var client []netip.Addr
			for _, ipv6 := range families() {
				_ = w.ping(ipv6) // auth-full resets the first connection of a source, which is then verified
				client = append(client, w.clientOf(ipv6))
			}
			both := fmt.Sprintf("%s\n%s\n", client[0], client[1])
			list("deny", both)
			b.Reload(config, "msg=reloaded")
			syns, counted := harness.NewSYNs(t, w.ClientPort, w.LegitPort), w.counters()
			for i, ipv6 := range families() {
				for n, options := range [][]byte{common, timestamped, {1, 1, 1, 2, 4, 5, 180, 0}} { // two of the fast path, one of the slow path
					from := netip.AddrPortFrom(client[i], uint16(5001+n))
					syns.Send(from, w.ServiceAddr(ipv6, port), options)
				}
			}
			w.await("the SYNs are dropped", func() bool { return w.counters()["drop_denied"] == 6 })
			for _, answer := range []string{"cookie_sent", "challenge_sent", "cache_kept", "forward_white"} {
				if now := w.counters()[answer]; now != counted[answer] {
					t.Errorf("%s: %d, before %d: a denied source was served", answer, now, counted[answer])
				}
			}
			list("deny", "0.0.0.0/0\n::/0\n")
			list("allow", both)
			b.Reload(config, "msg=reloaded")
			for _, ipv6 := range families() {
				if err := w.ping(ipv6); err != nil {
					t.Errorf("allowed: %v", err)
				}
			}
		})
	}
}
