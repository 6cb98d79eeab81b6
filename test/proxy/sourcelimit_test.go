// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/dpdk"
	"tidegate/internal/event"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/offender/offendertest"
	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

const provenCreditMax = 64 // TG_PROVEN_CREDIT_MAX, core/proven.h

// sourceWorld is a world whose client has thousands of addresses, behind one of its own.
type sourceWorld struct {
	*world
	mu     sync.Mutex
	served map[netip.Addr]int // connections that the server has accepted
}

func newSourceWorld(t *testing.T) *sourceWorld {
	w := &sourceWorld{world: newWorld(t, false), served: map[netip.Addr]int{}}
	for _, c := range []struct {
		ns   *rig.Namespace
		args string
	}{
		{w.Client, "ip route add local 10.77.0.0/16 dev lo"}, {w.Proxy, "ip route add 10.77.0.0/16 via 198.18.2.2"},
		{w.Client, "ip -6 route add local fd7d:77::/32 dev lo"}, {w.Proxy, "ip -6 route add fd7d:77::/32 via fd7d:7467:2::2"},
		{w.Client, "sysctl -qw net.ipv6.ip_nonlocal_bind=1"},
	} {
		args := strings.Fields(c.args)
		if err := c.ns.Do(exec.Command(args[0], args[1:]...).Run); err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
	}
	w.serveFor(10*patience, func(c *net.TCPConn) { // those of a talkers last as long as their test
		if from, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			w.mu.Lock()
			w.served[from.Addr().Unmap()]++
			w.mu.Unlock()
		}
		echo(c)
	})
	return w
}

func (w *sourceWorld) servedTo(from netip.Addr) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.served[from]
}

func (w *sourceWorld) dialFromAddr(from netip.Addr) (*net.TCPConn, error) {
	c, err := harness.Client{From: from}.Dial(w.Client, w.ServiceAddr(from.Is6(), port))
	if err == nil {
		w.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// open reports whether a connection is served; nil: it was reset.
func (w *sourceWorld) open(from netip.Addr) *net.TCPConn {
	w.t.Helper()
	c, err := w.dialFromAddr(from)
	if err == nil {
		err = harness.Word(c)
	}
	if errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	if err != nil {
		w.t.Fatalf("from %s: %v", from, err)
	}
	return c
}

func sourceAddr(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(n >> 8), byte(n)}) }

// A source that begins more connections through the proxy than it may is held to its limit, others are all served meanwhile, and SYNs and ACKs
// forged in the name of a source take nothing of its allowance.
func TestSourceLimit(t *testing.T) {
	const limit, others, burst = 20, 100, 200
	for _, strategy := range []string{"cookie", "cache"} {
		t.Run(strategy, func(t *testing.T) {
			w := newSourceWorld(t)
			manager := offendertest.Listen(t, filepath.Join(w.dir, "api"))
			g := w.start(w.config(strategy, "report_to: {api: api, connections: 50}", "events: {file: events.json}", fmt.Sprintf("source_limits: {new_per_second: %d}", limit)))
			w.open(sourceAddr(0)) // the neighbours are known now

			began, greedy := time.Now(), sourceAddr(7)
			for i := range burst {
				if _, err := w.dialFromAddr(greedy); err != nil {
					t.Fatal(err)
				}
				if i < others && w.open(sourceAddr(256+i)) == nil {
					t.Fatalf("client %d of others: reset", i)
				}
			}
			w.await("as many as may come at once", func() bool { return w.servedTo(greedy) >= limit })
			c, got, took := w.counters(), w.servedTo(greedy), time.Since(began)
			t.Logf("the greedy source got %d of %d connections in %v, %d others one each", got, burst, took.Round(time.Millisecond), others)
			if most := int(limit*(1+took.Seconds())) + 1; got > most {
				t.Errorf("it got %d connections in %v, want at most %d", got, took, most)
			}
			if over := c["over_source_limit"]; over == 0 || over != c["drop_source_limit"] {
				t.Errorf("%v", harness.NonZero(c))
			}
			st := w.status()
			if l := st.SourceLimits; l == nil || l.NewPerSecond != limit || len(l.Sources) != 1 || l.Sources[0].Prefix != netip.PrefixFrom(greedy, 32) {
				t.Errorf("status: %+v", l)
			}
			out, _, err := w.instance.Run("why", greedy.String(), w.ServiceAddr(false, port).String(), "--instance", w.Instance)
			if err != nil || !strings.Contains(out, "10.77.0.7/32 was above its limit (20 new connections a second)") {
				t.Errorf("%v: %s", err, out)
			}
			g.Await("the event", func() bool {
				text, _ := os.ReadFile(filepath.Join(w.dir, "events.json"))
				for line := range strings.Lines(string(text)) {
					var e event.Event
					if json.Unmarshal([]byte(line), &e) == nil && e.Kind == event.OffenderProven {
						return strings.HasPrefix(e.Detail["above_limit"], "10.77.0.7/32 (") && !strings.Contains(e.Detail["above_limit"], ",")
					}
				}
				return false
			})
			w.await("the report to the filter manager, which refused connections count for", func() bool {
				for range limit {
					if _, err := w.dialFromAddr(greedy); err != nil {
						t.Fatal(err)
					}
				}
				seen := manager.Seen()
				return len(seen) == 1 && seen[0].Src == netip.PrefixFrom(greedy, 32)
			})

			// Forged: SYNs, and ACKs with guessed numbers, as many as a queue holds.
			victim := sourceAddr(9)
			frame := load.Frame{To: w.LegitPort.MAC, From: w.ClientPort.MAC, Dst: w.ServiceAddr(false, port), Window: 64240}
			var frames [][]byte
			for i := range 200 {
				frame.Src, frame.Seq = netip.AddrPortFrom(victim, uint16(1024+i)), uint32(i)
				frame.Flags, frame.Ack = load.FlagSYN, 0
				frames = append(frames, frame.Bytes())
				frame.Flags, frame.Ack = load.FlagACK, uint32(i)*2654435761
				frames = append(frames, frame.Bytes())
			}
			before := w.counters()["syn"]
			if err := load.SendFrames(w.ClientPort, frames...); err != nil {
				t.Fatal(err)
			}
			w.await("the forged segments", func() bool { return w.counters()["syn"]-before >= 200 })
			for range limit {
				if w.open(victim) == nil {
					t.Fatal("the source whose name was used was reset")
				}
			}
			for _, s := range w.status().SourceLimits.Sources {
				if s.Prefix.Contains(victim) {
					t.Errorf("forged segments have counted: %+v", s)
				}
			}
		})
	}
}

// Actions and the length of a source change live; addresses of one prefix count together; allowed sources are exempt.
func TestSourceLimitActions(t *testing.T) {
	const limit, tries = 10, 50
	w := newSourceWorld(t)
	conf := func(action string) string {
		return w.config("cookie", "remember_sources: yes", fmt.Sprintf("source_limits: {new_per_second: %d, prefix_v4: 24, prefix_v6: 56, action: %s}", limit, action))
	}
	g := w.start(conf("report"))
	reset := func(format string) (n int) {
		for i := range tries {
			if w.open(netip.MustParseAddr(fmt.Sprintf(format, i+1))) == nil {
				n++
			}
		}
		return n
	}
	over := func() uint64 { return w.counters()["over_source_limit"] }
	for _, crowd := range []string{"10.77.3.%d", "fd7d:77:0:100::%x"} {
		before, began := over(), time.Now()
		if n := reset(crowd); n != 0 {
			t.Errorf("%s: %d connections were reset", crowd, n)
		}
		most, took := uint64(tries-limit), time.Since(began).Seconds()
		if n := over() - before; n > most || float64(n) < float64(most)-limit*took {
			t.Errorf("%s: %d connections were above the limit, in %.2f s", crowd, n, took)
		}
	}
	if c := w.counters(); c["drop_source_limit"] != 0 {
		t.Errorf("report has dropped: %v", harness.NonZero(c))
	}
	g.Reload(conf("reset"), "msg=reloaded")
	if n := reset("10.77.4.%d"); n == 0 || n > tries-limit {
		t.Errorf("%d of %d connections were reset", n, tries)
	}
	if _, errs, err := w.instance.Run("allow", "10.77.5.0/24", "--instance", w.Instance); err != nil {
		t.Fatal(err, errs)
	}
	before := over()
	if n := reset("10.77.5.%d"); n != 0 || over() != before {
		t.Errorf("%d connections of an allowed prefix were reset, %d above the limit", n, over()-before)
	}
	w.wantRemembered(netip.MustParseAddr("10.77.5.1"))
	g.Reload(w.config("cookie", "remember_sources: yes"), "msg=reloaded")
	if n := reset("10.77.6.%d"); n != 0 || over() != before || w.status().SourceLimits != nil {
		t.Errorf("%d connections were reset by a limit that is gone", n)
	}
}

// wantRemembered expects that `why` knows of a handshake of a source that has completed one. Another source may have its place in the memory,
// the places being chosen by a key of each start: then every handshake takes one from what that one has, until the place is the source's.
func (w *sourceWorld) wantRemembered(src netip.Addr) {
	w.t.Helper()
	want := fmt.Sprintf("1 handshakes with %s since ", w.ServiceAddr(false, port).Addr())
	var out, errs string
	for range provenCreditMax + 1 {
		var err error
		if out, errs, err = w.instance.Run("why", src.String(), w.ServiceAddr(false, port).String(), "--instance", w.Instance); err != nil {
			w.t.Fatalf("why: %v: %s", err, errs)
		}
		if strings.Contains(out, want) {
			return
		}
		if !strings.Contains(out, "no handshake of this source is remembered") {
			break
		}
		if w.open(src) == nil {
			w.t.Fatalf("%s: reset", src)
		}
	}
	w.t.Errorf("what is remembered: %s", out)
}

// A source holds as many connections through the proxy as it may, and gets another for each that it closes; swaps of the flow tables and, where
// connections outlive it, a new process change nothing in that.
func TestSourceHolds(t *testing.T) {
	const limit, closes = 20, 5
	w := newSourceWorld(t)
	conf := func(prefix int) string {
		return w.config("cookie", "swap_period: 1s", "idle_time: 1s", fmt.Sprintf("source_limits: {concurrent: %d, prefix_v6: %d, action: reset}", limit, prefix))
	}
	g := w.start(conf(64))
	greedy, other := sourceAddr(7), sourceAddr(8)
	var held talkers
	hold := func(from netip.Addr, what string) {
		t.Helper()
		c := w.open(from)
		if c == nil {
			t.Fatalf("%s: reset; of those that are held, the first that is lost: %v", what, held.talk())
		}
		held.add(c)
	}
	refuse := func(from netip.Addr, what string) {
		t.Helper()
		if w.open(from) != nil {
			t.Fatalf("%s: served; of those that are held, the first that is lost: %v", what, held.talk())
		}
	}
	talk := func() {
		t.Helper()
		if err := held.talk(); err != nil {
			t.Fatal(err)
		}
	}
	await := func(what string, cond func() bool) { // a connection that is lost meanwhile ends it at once: its place would change what is awaited
		t.Helper()
		w.await(what, func() bool { talk(); return cond() })
	}
	held.keepTalking(t)
	swaps := func(n int) {
		t.Helper()
		for range n {
			now := w.flowsGen()
			await("a swap of the flow tables", func() bool { return w.flowsGen() != now })
		}
	}
	for i := range limit {
		hold(greedy, fmt.Sprintf("connection %d", i))
	}
	refuse(greedy, "one more than it may hold")
	hold(other, "another source")
	for i := range limit {
		hold(netip.MustParseAddr(fmt.Sprintf("fd7d:77:0:5::%x", i+1)), fmt.Sprintf("address %d of a /64", i))
	}
	refuse(netip.MustParseAddr("fd7d:77:0:5::ffff"), "an address of a /64 that holds as many as it may")
	swaps(3)
	refuse(greedy, "one more than it may hold, after swaps")
	hold(other, "another source, after swaps")

	held.close(closes)
	for i := range closes {
		await(fmt.Sprintf("place %d of those that were closed", i), func() bool {
			c := w.open(greedy)
			if c != nil {
				held.add(c)
			}
			return c != nil
		})
	}
	refuse(greedy, "one more than were closed")
	if l := w.status().SourceLimits; l == nil || l.Concurrent != limit || len(l.Sources) != 2 || l.Sources[0].Held == 0 || l.Sources[0].Held != l.Sources[0].Over {
		t.Errorf("status: %+v", l)
	}

	if testPlane == rig.PlaneXDP { // elsewhere connections end with the program
		g.Kill()
		talk()
		g = w.start(conf(64))
		talk()
		refuse(greedy, "one more than it may hold, after a restart")
	}

	// With another length of a source, all are counted anew as they are met.
	g.Reload(conf(62), "msg=reloaded")
	swaps(2)
	refuse(greedy, "one more than it may hold, after a change of the limits")
	hold(sourceAddr(9), "another source, after a change of the limits")
}

// wordIn is how long an echo may take before its connection is lost: many times what TCP needs to send it again.
const wordIn = 15 * time.Second

// talkers are connections that are kept in the proxy's tables by talking: one that is idle for longer than idle_time and swap_period may be forgotten, and what
// a test does in between takes longer than that on a busy machine.
type talkers struct {
	mu   sync.Mutex
	list []*net.TCPConn
	err  error
}

func (h *talkers) add(c *net.TCPConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, c)
}

// close closes the first n.
func (h *talkers) close(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.list[:n] {
		c.Close()
	}
	h.list = h.list[n:]
}

// talk has each connection carry data; it returns the first failure that there has been.
func (h *talkers) talk() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, c := range h.list {
		if h.err != nil {
			break
		}
		err := c.SetDeadline(time.Now().Add(wordIn)) // in place of that of its whole life
		if err == nil {
			err = harness.Word(c)
		}
		if err != nil {
			h.err = fmt.Errorf("connection %d, from %s: %w", i, c.LocalAddr(), err)
		}
	}
	return h.err
}

// keepTalking talks ten times a second until the test ends.
func (h *talkers) keepTalking(t *testing.T) {
	tick := time.NewTicker(100 * time.Millisecond)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = h.talk() // the next call of the test itself returns it
			}
		}
	}()
}

// flowsGen changes with each swap of the flow tables.
func (w *world) flowsGen() uint64 {
	w.t.Helper()
	if testPlane == rig.PlaneDPDK {
		state, err := dpdk.ReadState(dpdk.Prefix(w.Instance))
		if err != nil {
			w.t.Fatal(err)
		}
		return state.Swaps
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(w.instance.PinDir(), "tg_proxy"), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Close()
	var s plane.ProxySettings
	if err := m.Lookup(uint32(0), &s); err != nil {
		w.t.Fatal(err)
	}
	return uint64(s.FlowsGen)
}
