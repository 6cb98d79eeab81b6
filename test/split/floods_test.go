// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// burst attacks the service with n segments of these flags at full speed and returns
// how many reached the edge, how many the server's port, and how long it took.
func (w *world) burst(flags load.TCPFlags, ipv6 bool, n int) (arrived, passed uint64, took time.Duration) {
	t := w.t
	t.Helper()
	flood, err := load.NewFlood(w.AttackerPort, w.FloodPort, load.FloodOptions{Target: w.address(ipv6, port), Flags: flags, CPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	rx := func(p *rig.Port) uint64 {
		n, err := p.RxPackets()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	front, inner := rx(w.FloodPort), rx(w.ServerPort)
	b, err := flood.Burst(n)
	if err != nil {
		t.Fatal(err)
	}
	return rx(w.FloodPort) - front, rx(w.ServerPort) - inner, b.Elapsed
}

// Floods of every kind are dropped at the edge, and each packet is counted by its kind.
func TestFloodsDie(t *testing.T) {
	const n = 20000
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "unknown_rate: 0", "learning: 0s")
	w.startBoth()
	// The port counts all that the attacker's machine sends: its kernel's own multicasts would be taken for the flood.
	w.sysctl(w.Attacker, "net.ipv6.conf."+w.AttackerPort.Name+".disable_ipv6", "1")
	segments := func() uint64 { return w.netstat(w.place.Server, "InSegs") + sum(w.server.counters(), "drop_") }
	for _, ipv6 := range families() {
		for _, kind := range []struct {
			flags   load.TCPFlags
			counter string
		}{
			{load.FlagSYN, "cookie_sent"},
			{load.FlagACK, "drop_ack"},
			{load.FlagRST, "drop_rst"},
			{load.FlagRST | load.FlagACK, "drop_rst"},
			{load.FlagFIN | load.FlagACK, "drop_fin"},
			{load.FlagSYN | load.FlagACK, "drop_synack"},
			{0x08, "drop_stray"}, // PSH alone
			{load.FlagSYN | load.FlagFIN, "drop_flags"},
		} {
			before, passed := w.Edge.counters(), segments()
			arrived, _, _ := w.burst(kind.flags, ipv6, n)
			passed = segments() - passed
			if arrived < n/2 {
				t.Fatalf("%s flags %#x: only %d of %d arrived", familyName(ipv6), kind.flags, arrived, n)
			}
			if passed != 0 {
				t.Errorf("%s flags %#x: %d packets came to the server", familyName(ipv6), kind.flags, passed)
			}
			if got := w.Edge.counters()[kind.counter] - before[kind.counter]; got != arrived {
				t.Errorf("%s flags %#x: %s counted %d of %d", familyName(ipv6), kind.flags, kind.counter, got, arrived)
			}
		}
	}
	for _, ipv6 := range families() {
		if err := w.ping(ipv6); err != nil {
			t.Errorf("%s after the floods: %v", familyName(ipv6), err)
		}
	}
	w.server.wantCounters(map[string]uint64{"drop_unmatched_ack": 0, "cookie_invalid": 0})
}

// sum adds the counters whose names begin with a prefix.
func sum(counters map[string]uint64, prefix string) (all uint64) {
	for name, n := range counters {
		if strings.HasPrefix(name, prefix) {
			all += n
		}
	}
	return all
}

// Packets unknown to an edge reach the server within the allowance, and there the
// final ACK check drops them silently.
func TestAllowance(t *testing.T) {
	const rate = 5000
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", fmt.Sprintf("unknown_rate: %d", rate), "learning: 0s")
	w.startBoth()
	resets := w.netstat(w.place.Server, "OutRsts")
	begin := time.Now()
	arrived, _, _ := w.burst(load.FlagACK, false, 200000)
	var passed uint64
	w.await("all packets judged", func() bool {
		c := w.Edge.counters()
		passed = c["edge_unknown"]
		return passed+c["drop_ack"] >= arrived*99/100 // the port also counts packets that are not the flood's
	})
	took := time.Since(begin)
	if most := uint64(rate*took.Seconds()) + rate/10 + 2; passed == 0 || passed > most {
		t.Errorf("%d packets passed in %s; want some and at most %d", passed, took, most)
	}
	w.await("all that passed at the final ACK check", func() bool {
		return w.server.counters()["drop_unmatched_ack"] == w.Edge.counters()["edge_unknown"]
	})
	if n := w.netstat(w.place.Server, "OutRsts") - resets; n != 0 {
		t.Errorf("%d RSTs for spoofed ACKs: they tell an attacker what the edge let through", n)
	}
}

// A saturated filter is reported; the attack reaches the final ACK check, connections survive.
func TestSaturated(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "unknown_rate: 0", "learning: 0s", "filter_bits: 10", "filter_window: 1h", "filter_alarm: 50%")
	w.startBoth()
	if s := w.Edge.status().Edge; s.Alarm || s.FPComputed != 0 {
		t.Errorf("an empty filter: %+v", s)
	}
	w.prefill(w.Edge, 5000)
	w.await("alarm", func() bool { return w.Edge.status().Edge.Alarm })
	s := w.Edge.status().Edge
	if s.FPComputed < 0.97 || s.FPMeasured < 0.5 || s.Generations[0].Fill < 0.9 {
		t.Errorf("5,000 flows in 3 x 2^10: %+v", s)
	}
	if !strings.Contains(w.Edge.run.Stderr.String(), "saturated") {
		t.Error("the log does not say that the filter is saturated")
	}
	arrived, passed, _ := w.burst(load.FlagACK, false, 20000)
	if passed < arrived*9/10 {
		t.Errorf("%d of %d passed a full filter", passed, arrived)
	}
	w.await("what passed, at the final ACK check", func() bool {
		n := w.server.counters()["drop_unmatched_ack"] // the port also counts packets that are not the flood's
		return n >= arrived*9/10 && n <= passed
	})
	if err := w.ping(false); err != nil {
		t.Error(err)
	}
}

// An attacker that lets ACKs expire behind the edge learns nothing: below `hops` they
// are dropped, known or not. SYNs are answered whatever their TTL.
func TestHops(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "hops: 20")
	w.startBoth()
	w.sysctl(w.Client, "net.ipv4.ip_default_ttl", "19")
	c, err := w.dial(false, 0) // the edge sends the SYN-ACK
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if err := say(c, "?"); err == nil {
		t.Error("an ACK with TTL 19 reached the server")
	}
	if n := w.Edge.counters()["drop_hops"]; n == 0 {
		t.Error("nothing was dropped for its TTL")
	}
	w.sysctl(w.Client, "net.ipv4.ip_default_ttl", "20")
	if err := w.ping(false); err != nil {
		t.Errorf("TTL 20: %v", err)
	}
}

// A server with another secret refuses every connection, and says so.
func TestWrongSecret(t *testing.T) {
	for name, c := range map[string]struct {
		protocol, takeover string
		made, refused      string // counters
	}{
		"adopt":     {"plain", "adopt", "adopted", "drop_unmatched_ack"},
		"translate": {"plain", "translate", "split_opened", "drop_unmatched_ack"},
		"tagged":    {"tagged", "translate", "split_opened", "tag_forged"},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			if c.takeover == "adopt" {
				w = newWorld(t, false)
			} else if w = newTagged(t, nil, nil); c.protocol == "plain" {
				w.Edge.configure("always")
				w.server.configure("always", "takeover: translate")
			}
			w.serve(echo)
			if err := os.WriteFile(filepath.Join(w.dir, "other"), []byte(strings.Repeat("a5", 32)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.server.config = strings.Replace(w.server.config, "secret_file: secret", "secret_file: other", 1)
			w.startBoth()
			w.await("an error in the server's log", func() bool {
				c, err := w.dial(false, 0) // the edge completes this handshake
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(50 * time.Millisecond))
				if say(c, "?") == nil {
					t.Fatal("a connection was taken over from a cookie of another secret")
				}
				return strings.Contains(w.server.run.Stderr.String(), "secret_file")
			})
			if got := w.server.counters(); got[c.made] != 0 || got[c.refused] == 0 {
				t.Errorf("%v", nonZero(got))
			}
		})
	}
}
