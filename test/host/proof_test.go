// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	harness "tidegate/test/world"
)

// An adoption counts when its socket exists. These tests end the daemon first, so that no process reads the
// rules that are loaded: what the packet path itself detects must suffice.

const bannerPort = webPort + 2

const banner = "220 tidegate\n"

// bannerServer speaks first, as SSH and SMTP do, and then echoes.
func (w *world) bannerServer() {
	harness.Server{}.Serve(w.t, w.Server, fmt.Sprintf(":%d", bannerPort), func(c *net.TCPConn) {
		if _, err := c.Write([]byte(banner)); err == nil {
			harness.Echo(c)
		}
	})
}

// greeted expects n clients that wait for the server to speak to be greeted, and to be echoed.
func (w *world) greeted(n int) {
	w.t.Helper()
	for _, ipv6 := range families() {
		for i := range n {
			if err := w.greet(ipv6); err != nil {
				w.t.Fatalf("%s, banner, connection %d of %d: %v", familyName(ipv6), i, n, err)
			}
		}
	}
}

func (w *world) greet(ipv6 bool) error {
	c, err := harness.Dial(w.Client, netip.AddrPortFrom(w.ServerAddr(ipv6), bannerPort))
	if err != nil {
		return err
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || line != banner {
		return fmt.Errorf("greeted with %q: %w", line, err)
	}
	return harness.Word(c)
}

const twoProven = "services:\n  - name: web\n    ports: [80, 82]\n    mode: always\n"

func TestAdoptionIsProven(t *testing.T) {
	const n = 4
	hindrances := append(obstacles[1:], struct{ name, rules string }{"rejected with a RST", `table inet o {
		chain in { type filter hook input priority 0; tcp dport { 80, 82 } tcp flags & (fin|syn|rst|ack) != syn ct state new reject with tcp reset; }
	}`})
	for i := range hindrances {
		hindrances[i].rules = strings.ReplaceAll(hindrances[i].rules, "{ 80, 81 }", "{ 80, 82 }")
	}
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			w.echoServer(webPort)
			w.bannerServer()
			g := w.start(w.topConfig("takeover: auto", "xdp_mode: "+mode) + twoProven)
			w.served(n, webPort)
			w.greeted(n)
			each := uint64(2 * n * len(families()))
			w.wantCounters(map[string]uint64{"adopted": each, "adopt_unproven": 0, "split_opened": 0})
			g.Kill()
			for _, h := range hindrances {
				before := w.counters()
				w.nft(w.Server, "flush ruleset\n"+h.rules)
				w.greeted(n)
				w.served(n, webPort)
				after := w.counters()
				ready, vain := after["split_ready"]-before["split_ready"], after["adopt_unproven"]-before["adopt_unproven"]
				if ready != each || vain == 0 {
					t.Errorf("%s: %d of %d connections translated, %d adoptions in vain", h.name, ready, each, vain)
				}
				if t.Failed() {
					t.FailNow()
				}
				// The obstacle is gone: one client finds that out, and all later ones are adopted.
				w.nft(w.Server, "flush ruleset")
				w.await("adoption after "+h.name, func() bool {
					before := w.counters()["adopted"]
					w.served(1, webPort)
					w.greeted(1)
					return w.counters()["adopted"]-before == uint64(2*len(families()))
				})
			}
		})
	}
}

// Between TC and the sockets a firewall may ask a program about each packet (Suricata inline, say), or the processor may be taken away: the
// socket of an adoption then comes later than the gate waits for it, which has meanwhile begun a handshake of its own. No client hangs.
func TestSlowAdoptionIsServed(t *testing.T) {
	const n = 3
	w := newWorld(t)
	w.echoServer(webPort)
	w.bannerServer()
	g := w.start(w.topConfig("takeover: auto") + twoProven)
	w.served(n, webPort)
	w.greeted(n)
	g.Kill()                            // else it would see the rule, and not adopt
	isSYN := func(packet []byte) bool { // of IP headers without options
		tcp := packet[20:]
		if packet[0]>>4 == 6 {
			tcp = packet[40:]
		}
		return load.TCPFlags(tcp[13])&load.FlagSYN != 0
	}
	again, held := harness.HoldInput(t, w.Server, isSYN, webPort, bannerPort)
	for port, connect := range map[uint16]func(ipv6 bool) error{
		webPort:    func(ipv6 bool) error { return w.pingNew(ipv6, webPort) },
		bannerPort: w.greet,
	} {
		for _, ipv6 := range families() {
			before, heldBefore := w.counters(), held.Load()
			for i := range n {
				again()
				if err := connect(ipv6); err != nil {
					t.Fatalf("%s, port %d, connection %d: %v", familyName(ipv6), port, i, err)
				}
			}
			after := w.counters()
			grown := func(name string) uint64 { return after[name] - before[name] }
			if held.Load()-heldBefore != n || grown("adopt_unproven") != n || grown("split_opened") != n || grown("split_ready") != 0 {
				t.Errorf("%s, port %d: %d adoptions delayed, %d unproven, %d translations opened, %d of them ready; want %d of each but the last",
					familyName(ipv6), port, held.Load()-heldBefore, grown("adopt_unproven"), grown("split_opened"), grown("split_ready"), n)
			}
		}
	}
}

// Clients connect all the time, some of them waiting for the server to speak, while rules, sysctls and listeners
// change before a daemon that follows all of it: none is reset, and all are served.
func TestChangesCostNoClient(t *testing.T) {
	const each = 150 // connections of either family after each change
	w := newWorld(t)
	listener := w.echoServer(webPort)
	w.bannerServer()
	w.start(w.topConfig("takeover: auto") + twoProven)
	load := w.startLoad()
	for _, ipv6 := range families() {
		load.each(func() error { return w.greet(ipv6) }, familyName(ipv6)+", greeting", new(atomic.Uint64))
	}
	rules := func(text string) func() { return func() { w.nft(w.Server, "flush ruleset\n"+text) } }
	sysctl := func(name, value string) func() { return func() { w.sysctl(w.Server, name, value) } }
	for _, c := range []struct {
		name string
		make func()
	}{
		{obstacles[1].name, rules(obstacles[1].rules)}, {"no rules", rules("")},
		{obstacles[2].name, rules(strings.ReplaceAll(obstacles[2].rules, "{ 80, 81 }", "{ 80, 82 }"))}, {"no rules", rules("")},
		{"tcp_loose", func() {
			rules("table inet o { chain in { type filter hook input priority 0; ct state invalid drop; }; }")()
			sysctl("net.netfilter.nf_conntrack_tcp_loose", "0")()
		}}, {"no rules", rules("")},
		{"tcp_syncookies=0", sysctl("net.ipv4.tcp_syncookies", "0")}, {"tcp_syncookies=1", sysctl("net.ipv4.tcp_syncookies", "1")},
		{"tcp_timestamps=0", sysctl("net.ipv4.tcp_timestamps", "0")}, {"tcp_timestamps=1", sysctl("net.ipv4.tcp_timestamps", "1")},
		{"tcp_window_scaling=0", sysctl("net.ipv4.tcp_window_scaling", "0")}, {"tcp_window_scaling=1", sysctl("net.ipv4.tcp_window_scaling", "1")},
		{"tcp_sack=0", sysctl("net.ipv4.tcp_sack", "0")}, {"tcp_sack=1", sysctl("net.ipv4.tcp_sack", "1")},
	} {
		c.make()
		target := load.done.Load() + each
		w.await(fmt.Sprintf("%d connections after %s", each, c.name), func() bool { return load.done.Load() >= target || load.failed() })
		if load.failed() {
			t.Logf("after %s", c.name)
		}
		load.noFailure()
	}
	load.end()
	for i := range 10 {
		listener.close()
		listener = w.listenOn(webPort, []int{unix.IPPROTO_TCP, unix.IPPROTO_MPTCP}[i%2], 512)
		listener.serve(echo)
		w.served(1, webPort) // until it listens again
	}
}

// A client refused by a rule on SYNs is not served through the gate, although the gate answers the SYN before any rule sees it;
// and a limit on SYNs admits no more clients than without the gate.
func TestRulesForSYNsBind(t *testing.T) {
	const clients, most = 21, 5
	w := newWorld(t)
	w.echoServer(webPort)
	w.start(w.webConfig(webPort))
	w.mustPingNew(1)
	for _, c := range []struct {
		name, rule string
		want       int
	}{
		{"deny", "tcp flags & (fin|syn|rst|ack) == syn drop", 0},
		{"deny new", "ct state new drop", 0},
		{"limit", fmt.Sprintf("tcp flags & (fin|syn|rst|ack) == syn limit rate over 1/hour burst %d packets drop", most), most},
	} {
		w.nft(w.Server, "flush ruleset\ntable inet o { chain in { type filter hook input priority 0; tcp dport 80 "+c.rule+"; }; }")
		w.await("translate, because of "+c.name, func() bool { how, _ := w.how(webPort); return how == "translate" || c.name == "deny new" })
		var served atomic.Int32
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				c, err := harness.Dial(w.Client, netip.AddrPortFrom(w.ServerAddr(false), webPort))
				if err != nil {
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(2 * time.Second))
				if harness.Word(c) == nil {
					served.Add(1)
				}
			})
		}
		wg.Wait()
		if n := int(served.Load()); n != c.want {
			t.Errorf("%s: %d of %d clients are served; want %d", c.name, n, clients, c.want)
		}
	}
}
