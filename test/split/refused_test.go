// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// secondAddr is another address of the server.
var secondAddr = netip.MustParseAddr("198.18.3.9")

// addSecondAddr gives it to the server, and the route to the edge.
func (w *world) addSecondAddr() {
	w.t.Helper()
	for _, c := range []struct {
		n    *rig.Namespace
		line string
	}{
		{w.place.Server, fmt.Sprintf("ip address add %s/32 dev lo", secondAddr)},
		{w.Proxy, fmt.Sprintf("ip route add %s/32 $(ip route show %s | grep -o 'via .*')", secondAddr, w.address(false, port).Addr())},
	} {
		var out []byte
		if err := c.n.Do(func() (err error) {
			out, err = exec.Command("sh", "-c", c.line).CombinedOutput()
			return err
		}); err != nil {
			w.t.Fatalf("%s: %v: %s", c.line, err, out)
		}
	}
}

// connect returns the result of one connection attempt to an address: nil if it was
// served, else the first error that the client saw.
func (w *world) connect(at netip.AddrPort) error {
	var c net.Conn
	err := w.place.Client.Do(func() (err error) {
		d := net.Dialer{Timeout: patience}
		d.SetMultipathTCP(false)
		c, err = d.Dial("tcp", at.String())
		return err
	})
	if err != nil {
		return err
	}
	defer c.Close()
	return say(c.(*net.TCPConn), "tidegate?")
}

// learnsRefusal connects to a place without a listener until the edge has learned that, and
// then a few more times: it must always get the server's refusal.
func (w *world) learnsRefusal(at netip.AddrPort) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("edge %v; server %v", nonZero(w.Edge.counters()), nonZero(w.server.counters()))
		}
	}()
	w.await("refusal of "+at.String(), func() bool {
		err := w.connect(at)
		if err == nil {
			w.t.Fatalf("%s: somebody listens", at)
		}
		return errors.Is(err, unix.ECONNREFUSED)
	})
	for range 5 {
		if err := w.connect(at); !errors.Is(err, unix.ECONNREFUSED) {
			w.t.Errorf("%s: %v, want a refusal", at, err)
		}
	}
}

// The ways in which an edge and its server work together.
var refusing = map[string]func(t *testing.T) *world{
	"adopt":     func(t *testing.T) *world { return newWorld(t, false) },
	"bridge":    func(t *testing.T) *world { return newWorld(t, true) },
	"auto":      newAuto,
	"tagged":    func(t *testing.T) *world { return newTagged(t, nil, nil) },
	"translate": newTranslated,
}

// newTranslated is a world with protocol plain whose server translates.
func newTranslated(t *testing.T) *world {
	w := newTagged(t, nil, nil)
	w.Edge.configure("always")
	w.server.configure("always", "takeover: translate")
	return w
}

// There is no listener for the other address family, or at the other address: after the first
// clients the edge lets the server refuse them, as it would without a gate. Other clients
// are still served; when a listener appears, its clients are served at once.
func TestRefusedThroughAnEdge(t *testing.T) {
	for name, open := range refusing {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			served, other := w.address(false, port), w.address(true, port)
			if len(families()) == 1 || name == "bridge" {
				t.Log("IPv4 alone")
			}
			if name != "bridge" {
				w.addSecondAddr()
				other = netip.AddrPortFrom(secondAddr, port)
			}
			w.listen(w.place.Server, served, false)
			w.startBoth()
			if err := w.connect(served); err != nil {
				t.Fatalf("%s: %v", served, err)
			}
			closed := []netip.AddrPort{other}
			if name != "bridge" && len(families()) > 1 {
				closed = append(closed, w.address(true, port))
			}
			for _, at := range closed {
				w.learnsRefusal(at)
				if err := w.connect(served); err != nil {
					t.Errorf("%s: %v", served, err)
				}
			}
			if n := w.Edge.status().Edge.ClosedPorts; n != len(closed) {
				t.Errorf("status knows %d closed ports, want %d", n, len(closed))
			}
			for _, at := range closed {
				w.listen(w.place.Server, at, false)
				for range 5 {
					if err := w.connect(at); err != nil {
						t.Errorf("%s, where somebody listens now: %v", at, err)
					}
				}
			}
		})
	}
}

// The server has lost a connection without a word, and nobody listens any more: what its client sends is reset, as without a gate.
func TestLostConnectionIsResetWhereNobodyListens(t *testing.T) {
	for name, open := range refusing {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			at := w.address(false, port)
			accepted := make(chan *net.TCPConn, 1)
			l := w.listenWith(w.place.Server, at, false, func(c *net.TCPConn) {
				_, _ = c.Write([]byte("x"))
				accepted <- c
			})
			w.startBoth()
			c, err := w.dial(false, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Read(make([]byte, 1)); err != nil { // its segments do not carry the cookie any more
				t.Fatal(err)
			}
			vanish(t, <-accepted)
			l.Close()
			w.learnsRefusal(at)
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("the client: %v; edge %v; server %v", err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
			}
		})
	}
}

// A service that resets connections early does not count as closed, and the
// client whose SYN the edge uses as a probe is served by the server itself; nor does a forged refusal
// from outside close a port.
func TestResetsCloseNoPort(t *testing.T) {
	for name, open := range refusing {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			var resets atomic.Bool
			resets.Store(true)
			w.listenWith(w.place.Server, w.address(false, port), false, func(c *net.TCPConn) {
				if resets.Load() {
					_ = c.SetLinger(0)
					c.Close()
					return
				}
				echo(c)
			})
			w.Edge.config += "unknown_rate: 0\n"
			if !strings.Contains(w.Edge.config, "learning:") {
				w.Edge.config += "learning: 0s\n"
			}
			w.startBoth()
			at := w.address(false, port)
			for range 20 {
				_ = w.connect(at)
			}
			resets.Store(false)
			forge := func() {
				for _, flags := range []load.TCPFlags{load.FlagRST | load.FlagACK, load.FlagRST} {
					if err := load.SendSegment(w.place.Client, load.Segment{Src: at, Dst: netip.AddrPortFrom(secondAddr, 4711), Flags: flags}); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.await("a SYN that asks", func() bool {
				forge()
				for range 10 {
					if err := w.connect(at); err != nil {
						t.Fatalf("%v; edge %v; server %v", err, nonZero(w.Edge.counters()), nonZero(w.server.counters()))
					}
				}
				return w.Edge.counters()["closed_asked"] > 0
			})
			for range 50 {
				forge()
				if err := w.connect(at); err != nil {
					t.Fatal(err)
				}
			}
			c := w.Edge.counters()
			if c["closed_learned"] != 0 || c["pass_closed"] != 0 || c["closed_asked"] > 2 {
				t.Errorf("the port counts as closed, or is asked about too often: %v", nonZero(c))
			}
		})
	}
}

// A flood of SYNs to a closed port reaches the server within the allowance of each CPU.
func TestFloodOfAClosedPort(t *testing.T) {
	const each = 500 // a second and CPU: TG_CLOSED_SYN_COST_NS of core/closed_port.h
	w := newWorld(t, false)
	w.startBoth()
	w.learnsRefusal(w.address(false, port))
	// The server's port counts what the edge's own kernel sends, too.
	w.sysctl(w.Edge.ns, "net.ipv6.conf."+w.InnerPort.Name+".disable_ipv6", "1")
	before := w.Edge.counters()["pass_closed"]
	_, passed, took := w.burst(load.FlagSYN, false, 200000)
	most := uint64(float64(runtime.NumCPU()) * (each*took.Seconds() + each/10 + 2))
	if passed == 0 || passed > most {
		t.Errorf("%d SYNs passed in %s; want some and at most %d", passed, took, most)
	}
	if got := w.Edge.counters()["pass_closed"] - before; got != passed {
		t.Errorf("%d of %d were counted", got, passed)
	}
}
