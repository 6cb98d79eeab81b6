// SPDX-License-Identifier: Apache-2.0

package hosttest

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

	"tidegate/internal/event"
	"tidegate/internal/lab/load"
	"tidegate/internal/offender/offendertest"
	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// sourceWorld is a world whose client has thousands of addresses, behind one of its own: so that all have one neighbour entry.
type sourceWorld struct {
	*world
	mu     sync.Mutex
	served map[netip.Addr]int // connections that the server has accepted
}

func newSourceWorld(t *testing.T) *sourceWorld {
	w := &sourceWorld{world: newWorld(t), served: map[netip.Addr]int{}}
	for _, c := range [][]string{
		{"c", "route", "add", "local", "10.77.0.0/16", "dev", "lo"}, {"s", "route", "add", "10.77.0.0/16", "via", w.ClientAddr(false).String()},
		{"c", "-6", "route", "add", "local", "fd7d:77::/32", "dev", "lo"}, {"s", "-6", "route", "add", "fd7d:77::/32", "via", w.ClientAddr(true).String()},
	} {
		ns := w.Client
		if c[0] == "s" {
			ns = w.Server
		}
		w.must(ns.Do(exec.Command("ip", c[1:]...).Run))
	}
	w.sysctl(w.Client, "net.ipv6.ip_nonlocal_bind", "1")
	harness.Server{}.Serve(t, w.Server, fmt.Sprintf(":%d", webPort), func(c *net.TCPConn) {
		if from, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			w.mu.Lock()
			w.served[from.Addr().Unmap()]++
			w.mu.Unlock()
		}
		harness.Echo(c)
	})
	return w
}

func (w *sourceWorld) servedTo(from ...netip.Addr) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range from {
		n += w.served[a]
	}
	return n
}

func (w *sourceWorld) tryDial(from netip.Addr) (*net.TCPConn, error) {
	return harness.Client{From: from}.Dial(w.Client, netip.AddrPortFrom(w.ServerAddr(from.Is6()), webPort))
}

// dial connects from an address; with a drop above the limit, that says nothing about the server.
func (w *sourceWorld) dial(from netip.Addr) *net.TCPConn {
	w.t.Helper()
	c, err := w.tryDial(from)
	if err != nil {
		w.t.Fatalf("from %s: %v", from, err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

func sourceAddr(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(n >> 8), byte(n)})
}

// A source that begins more connections than it may is held to its limit, 200 others are all served meanwhile, and a flood of SYNs and
// ACKs forged in the name of another source takes nothing of that one's allowance.
func TestSourceLimit(t *testing.T) {
	const limit, others, burst = 20, 200, 300
	for _, takeover := range []string{"adopt", "translate"} {
		t.Run(takeover, func(t *testing.T) {
			w := newSourceWorld(t)
			manager := offendertest.Listen(t, filepath.Join(w.dir, "api"))
			g := w.start(w.webConfig(webPort, "takeover: "+takeover, "events: {file: events.json}", "report_to: {api: api, connections: 50}", fmt.Sprintf("source_limits: {new_per_second: %d}", limit)))
			w.dial(sourceAddr(0)) // the neighbour is known now
			w.await("the first connection", func() bool { return w.servedTo(sourceAddr(0)) == 1 })

			began, greedy := time.Now(), sourceAddr(7)
			for i := range burst {
				w.dial(greedy)
				if i < others {
					if err := harness.Word(w.dial(sourceAddr(256 + i))); err != nil {
						t.Fatalf("client %d of others: %v", i, err)
					}
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

			// Status, why and the event name it, and nobody else.
			st := w.status()
			if l := st.SourceLimits; l == nil || l.NewPerSecond != limit || len(l.Sources) != 1 || l.Sources[0].Prefix != netip.PrefixFrom(greedy, 32) || l.Sources[0].Over < uint64(burst-got) {
				t.Errorf("status: %+v", l)
			}
			out, _, err := w.tidegateRun("why", greedy.String(), fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--instance", w.Instance)
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

			// What was refused counts for the filter manager, too, which is told of rates between two looks.
			w.await("the report", func() bool {
				for range limit {
					if c, err := w.tryDial(greedy); err == nil {
						c.Close()
					}
				}
				seen := manager.Seen()
				return len(seen) == 1 && seen[0].Src == netip.PrefixFrom(greedy, 32)
			})

			// Forged: SYNs, and ACKs with guessed cookies.
			victim := sourceAddr(9)
			before := w.counters()
			frame := load.Frame{To: w.ServerPort.MAC, From: w.ClientPort.MAC, Dst: netip.AddrPortFrom(w.ServerAddr(false), webPort), Window: 64240}
			for sent := 0; sent < 1000; { // as many at once as a queue holds
				var frames [][]byte
				for range 100 {
					frame.Src, frame.Seq = netip.AddrPortFrom(victim, uint16(1024+sent)), uint32(sent)
					frame.Flags, frame.Ack = load.FlagSYN, 0
					frames = append(frames, frame.Bytes())
					frame.Flags, frame.Ack = load.FlagACK, uint32(sent)*2654435761
					frames = append(frames, frame.Bytes())
					sent++
				}
				w.must(load.SendFrames(w.ClientPort, frames...))
				w.await("the forged segments", func() bool { return w.counters()["cookie_sent"]-before["cookie_sent"] >= uint64(sent) })
			}
			if now := w.counters(); now["cookie_invalid"]-before["cookie_invalid"] < 500 {
				t.Errorf("%d of 1000 forged ACKs were looked at", now["cookie_invalid"]-before["cookie_invalid"])
			}
			before = w.counters()
			for range limit {
				if err := harness.Word(w.dial(victim)); err != nil {
					t.Fatalf("the source whose name was used: %v", err)
				}
			}
			if n := w.servedTo(victim); n != limit {
				t.Errorf("the source whose name was used got %d of %d connections", n, limit)
			}
			// The greedy one's clients may still send, but the other has not been above its limit.
			for _, s := range w.status().SourceLimits.Sources {
				if s.Prefix.Contains(victim) {
					t.Errorf("forged segments have counted: %+v; before: %v", s, harness.NonZero(before))
				}
			}
		})
	}
}

// The actions and the length of a source change live; addresses of one prefix count together; allowed sources are exempt.
func TestSourceLimitActions(t *testing.T) {
	const limit = 10
	w := newSourceWorld(t)
	conf := func(action string) string {
		return w.webConfig(webPort, fmt.Sprintf("source_limits: {new_per_second: %d, prefix_v4: 24, prefix_v6: 56, action: %s}", limit, action))
	}
	g := w.start(conf("report"))
	for _, first := range []netip.Addr{w.ClientAddr(false), w.ClientAddr(true)} {
		w.must(harness.Word(w.dial(first))) // the neighbour is known now
	}
	over := func() uint64 { return w.counters()["over_source_limit"] }
	// As many addresses of one prefix, all at once.
	crowd := func(prefix string, n int) (list []netip.Addr) {
		a := netip.MustParsePrefix(prefix).Addr()
		for range n {
			a = a.Next()
			list = append(list, a)
		}
		return list
	}
	for _, prefix := range []string{"10.77.3.0/24", "fd7d:77:0:100::/56"} {
		before, began := over(), time.Now()
		for _, a := range crowd(prefix, 5*limit) {
			if err := harness.Word(w.dial(a)); err != nil { // report: everybody is served
				t.Fatalf("%s: %v", a, err)
			}
		}
		took := time.Since(began).Seconds()
		if n := int(over() - before); n > 4*limit || n < int(limit*(4-took)) {
			t.Errorf("%s: %d of %d connections in %.2f s were above the limit, want at most %d", prefix, n, 5*limit, took, 4*limit)
		}
	}
	st := w.status().SourceLimits
	if st == nil || len(st.Sources) != 2 || st.Sources[0].Prefix.String() != "fd7d:77:0:100::/56" || st.Sources[1].Prefix.String() != "10.77.3.0/24" {
		t.Errorf("%+v", st)
	}
	if c := w.counters(); c["drop_source_limit"] != 0 {
		t.Errorf("report has dropped: %v", harness.NonZero(c))
	}

	// reset: the client learns of it at once.
	g.Reload(conf("reset"), "msg=reloaded")
	reset := 0
	for _, a := range crowd("10.77.4.0/24", 5*limit) {
		c, err := w.tryDial(a)
		if err == nil {
			w.t.Cleanup(func() { c.Close() })
			err = harness.Word(c)
		}
		if errors.Is(err, unix.ECONNRESET) {
			reset++
		} else if err != nil {
			t.Fatalf("%s: %v, want a reset or an answer", a, err)
		}
	}
	if reset == 0 || reset > 4*limit {
		t.Errorf("%d of %d connections were reset, want 1 to %d", reset, 5*limit, 4*limit)
	}

	// Who is allowed is exempt.
	if _, errs, err := w.tidegateRun("allow", "10.77.5.0/24", "--instance", w.Instance); err != nil {
		t.Fatal(err, errs)
	}
	before := over()
	for _, a := range crowd("10.77.5.0/24", 5*limit) {
		w.must(harness.Word(w.dial(a)))
	}
	if n := over() - before; n != 0 {
		t.Errorf("%d connections of an allowed prefix were above the limit", n)
	}

	// No limit, no account.
	g.Reload(w.webConfig(webPort), "msg=reloaded")
	for _, a := range crowd("10.77.6.0/24", 5*limit) {
		w.must(harness.Word(w.dial(a)))
	}
	if n := over() - before; n != 0 || w.status().SourceLimits != nil {
		t.Errorf("%d connections were above a limit that is gone; %+v", n, w.status().SourceLimits)
	}
}

// A source holds as many connections as it may, those of before the gate included, and gets another for each that it closes; others notice
// nothing. Counts that have gone wrong are right again after a recount.
func TestSourceHolds(t *testing.T) {
	const limit, before, closes = 30, 10, 5
	for _, takeover := range []string{"adopt", "translate"} {
		t.Run(takeover, func(t *testing.T) {
			w := newSourceWorld(t)
			conf := func(prefix int) string {
				return w.webConfig(webPort, "takeover: "+takeover, fmt.Sprintf("source_limits: {concurrent: %d, prefix_v6: %d, action: reset}", limit, prefix))
			}
			// open reports whether the connection is served; if so, it stays open.
			open := func(from netip.Addr) *net.TCPConn {
				t.Helper()
				c, err := w.tryDial(from)
				if err == nil {
					t.Cleanup(func() { c.Close() })
					err = harness.Word(c)
				}
				if errors.Is(err, unix.ECONNRESET) {
					return nil
				}
				w.must(err)
				return c
			}
			mustOpen := func(from netip.Addr, what string) *net.TCPConn {
				t.Helper()
				c := open(from)
				if c == nil {
					t.Fatalf("%s: reset", what)
				}
				return c
			}
			mustNotOpen := func(from netip.Addr, what string) {
				t.Helper()
				if open(from) != nil {
					t.Fatalf("%s: served", what)
				}
			}
			greedy, other := sourceAddr(7), sourceAddr(8)
			var held []*net.TCPConn
			for i := range before {
				held = append(held, mustOpen(greedy, fmt.Sprintf("connection %d, before the gate", i)))
			}
			g := w.start(conf(64))
			for i := range limit - before {
				held = append(held, mustOpen(greedy, fmt.Sprintf("connection %d", before+i)))
			}
			mustNotOpen(greedy, "one more than it may hold")
			mustOpen(other, "another source")
			for i := range limit {
				mustOpen(netip.MustParseAddr(fmt.Sprintf("fd7d:77:0:5::%x", i+1)), fmt.Sprintf("address %d of a /64", i))
			}
			mustNotOpen(netip.MustParseAddr("fd7d:77:0:5::ffff"), "an address of a /64 that holds as many as it may")

			g.Reload(conf(62), "msg=reloaded") // a recount now, and the next one in half a minute
			half := w.heldHalf()
			for _, c := range held[:closes] {
				c.Close()
			}
			for i := range closes {
				w.await(fmt.Sprintf("place %d of those that were closed", i), func() bool { return open(greedy) != nil })
			}
			if w.heldHalf() != half {
				t.Error("there was a recount meanwhile: it is not shown that closing counts")
			}
			mustNotOpen(greedy, "one more than were closed")
			// Two sources share a slot of the table (core/over_limit.h) once in a thousand times; then the one that insisted most is there.
			if l := w.status().SourceLimits; l == nil || l.Concurrent != limit || len(l.Sources) == 0 || l.Sources[0].Prefix != netip.PrefixFrom(greedy, 32) || l.Sources[0].Held == 0 || l.Sources[0].Held != l.Sources[0].Over {
				t.Errorf("status: %+v", l)
			}
			out, _, err := w.tidegateRun("why", greedy.String(), fmt.Sprintf("%s:%d", w.ServerAddr(false), webPort), "--instance", w.Instance)
			if err != nil || !strings.Contains(out, "while it held too many") {
				t.Errorf("%v: %s", err, out)
			}

			// Whatever the counts are, a recount puts them right: as after a reload that changes the limits, so every half a minute.
			for i, wrong := range []uint32{0, 5000} {
				w.fillHeld(wrong)
				if wrong > 0 {
					mustNotOpen(other, "another source, while the counts are too large")
				}
				g.Reload(conf(63-i), "msg=reloaded")
				mustOpen(other, "another source, after the recount")
				mustNotOpen(greedy, "the source that holds as many as it may, after the recount")
			}
		})
	}
}

// heldHalf changes with each recount.
func (w *sourceWorld) heldHalf() uint8 {
	w.t.Helper()
	p, err := plane.OpenPinned(w.pinDir())
	w.must(err)
	defer p.Close()
	s, err := p.Settings()
	w.must(err)
	return s.HeldHalf
}

// fillHeld overwrites the counts of connections that sources hold.
func (w *sourceWorld) fillHeld(with uint32) {
	w.t.Helper()
	m, err := ebpf.LoadPinnedMap(w.pinDir()+"/tg_held", nil)
	w.must(err)
	defer m.Close()
	keys, values := make([]uint32, m.MaxEntries()), make([]uint32, m.MaxEntries())
	for i := range keys {
		keys[i], values[i] = uint32(i), with
	}
	_, err = m.BatchUpdate(keys, values, nil)
	w.must(err)
}
