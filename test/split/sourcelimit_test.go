// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/plane"
	harness "tidegate/test/world"
)

// Worlds in which a server holds sources to limits: the edge before it has verified the cookies.
var limitingWorlds = map[string]func(t *testing.T, limits string) *world{
	"adopt": func(t *testing.T, limits string) *world {
		w := newWorld(t, false)
		w.Edge.configure("always", "learning: 0s")
		w.server.configure("always", "takeover: adopt", limits)
		return w
	},
	"translate": func(t *testing.T, limits string) *world {
		w := newWorld(t, false)
		mustYield(t, w)
		w.Edge.configure("always", "learning: 0s", "remember_sources: yes")
		w.server.configure("always", "takeover: translate", limits)
		return w
	},
	"translate, tagged": func(t *testing.T, limits string) *world {
		return newTagged(t, nil, []string{limits})
	},
	// Port 80 is adopted, port 81 translated.
	"auto": func(t *testing.T, limits string) *world {
		w := newAuto(t)
		w.server.config = limits + "\n" + w.server.config
		return w
	},
}

func mustYield(t *testing.T, w *world) {
	t.Helper()
	if err := w.YieldServer(); err != nil {
		t.Fatal(err)
	}
}

// serveLimited listens where the world's clients go, and returns how they connect: in a world with two ports to both in turn.
func (w *world) serveLimited(name string) (connect func(n int) (*net.TCPConn, error)) {
	t := w.place.t
	w.serve(echo)
	ports := []uint16{port}
	if name == "auto" {
		w.listen(w.place.Server, w.address(false, mptcpPort), true)
		ports = append(ports, mptcpPort)
	}
	return func(n int) (*net.TCPConn, error) {
		c, err := harness.Dial(w.Client, w.address(false, ports[n%len(ports)]))
		if err == nil {
			t.Cleanup(func() { c.Close() })
			err = say(c, "hello")
		}
		return c, err
	}
}

// A server holds a source to its limit of new connections, and to one limit where it takes connections over in two ways.
func TestSourceLimitOfServer(t *testing.T) {
	const limit, burst = 5, 40
	for name, make := range limitingWorlds {
		t.Run(strings.ReplaceAll(name, ", ", "-"), func(t *testing.T) {
			w := make(t, "remember_sources: yes\nsource_limits: {new_per_second: 5, action: reset}")
			connect := w.serveLimited(name)
			w.startBoth()
			began, served, reset := time.Now(), 0, 0
			var client netip.Addr
			by := map[int]int{}
			for n := range burst {
				c, err := connect(n)
				if c != nil {
					client = c.LocalAddr().(*net.TCPAddr).AddrPort().Addr()
				}
				switch {
				case err == nil:
					served++
					by[n%2]++
				case errors.Is(err, unix.ECONNRESET):
					reset++
				default:
					t.Fatal(err)
				}
			}
			took := time.Since(began)
			t.Logf("%d of %d connections were served in %v, %d were reset", served, burst, took.Round(time.Millisecond), reset)
			if most := int(limit*(1+took.Seconds())) + 1; served < limit || served > most || served+reset != burst {
				t.Errorf("%d of %d connections were served in %v, want %d to %d; %d were reset", served, burst, took, limit, most, reset)
			}
			if name == "auto" {
				c := w.server.counters()
				if by[0] == 0 || by[1] == 0 || c["adopted"] == 0 || c["split_opened"] == 0 {
					t.Errorf("not both ways: %v by port, %v", by, nonZero(c))
				}
			}
			st := w.server.status().SourceLimits
			if st == nil || len(st.Sources) != 1 || st.Sources[0].Over != uint64(reset) {
				t.Errorf("status: %+v, want one source that was above its limit %d times", st, reset)
			}
			out, errs, err := w.server.in().Run("why", client.String(), w.address(false, port).String(), "--instance", w.server.instance)
			if name == "translate" { // its edge remembers, too
				atEdge, errs, err := w.Edge.in().Run("why", client.String(), w.address(false, port).String(), "--instance", w.Edge.instance)
				if err != nil || !strings.Contains(atEdge, " handshakes with "+w.address(false, port).Addr().String()) {
					t.Errorf("edge: %v: %s%s", err, atEdge, errs)
				}
			}
			if name == "adopt" { // no program of this server judges SYNs
				return
			}
			if err != nil || !strings.Contains(out, "was above its limit (5 new connections a second)") || !strings.Contains(out, " handshakes with "+w.address(false, port).Addr().String()) {
				t.Errorf("%v: %s%s", err, out, errs)
			}
		})
	}
}

// A server holds a source to its limit of connections at a time, those of before the gate and of before the limit included, and the source gets
// another for each that it closes.
func TestSourceHoldsAtServer(t *testing.T) {
	const limit, early, closes = 12, 4, 3
	for name, make := range limitingWorlds {
		t.Run(strings.ReplaceAll(name, ", ", "-"), func(t *testing.T) {
			w := make(t, fmt.Sprintf("source_limits: {concurrent: %d, action: reset}", limit))
			with := w.server.config
			connect := w.serveLimited(name)
			w.server.config = strings.Replace(with, fmt.Sprintf("concurrent: %d", limit), "concurrent: 0", 1)
			w.startBoth()
			var held []*net.TCPConn
			opens := func() bool {
				t.Helper()
				c, err := connect(len(held))
				if err == nil {
					held = append(held, c)
				} else if !errors.Is(err, unix.ECONNRESET) {
					t.Fatal(err)
				}
				return err == nil
			}
			// After a reset, the edge may ask the server by a SYN whether anybody listens; what the kernel then answers is not limited.
			mustRefuse := func(what string) {
				t.Helper()
				const tries = 4
				refused := 0
				for range tries {
					if !opens() {
						refused++
						continue
					}
					held[len(held)-1].Close()
					held = held[:len(held)-1]
				}
				if refused < tries-1 {
					t.Fatalf("%s: %d of %d were refused", what, refused, tries)
				}
			}
			for range early {
				opens()
			}
			w.server.config = with
			w.server.reload() // and so there is a limit
			for n := len(held); n < limit; n++ {
				if !opens() {
					t.Fatalf("connection %d was reset", n)
				}
			}
			mustRefuse("one more than the source may hold")
			half := w.server.heldHalf()
			for _, c := range held[early : early+closes] { // of the early ones no end is reported
				c.Close()
			}
			for i := range closes {
				w.await(fmt.Sprintf("place %d of those that were closed", i), opens)
			}
			if w.server.heldHalf() != half {
				t.Error("there was a recount meanwhile: it is not shown that closing counts")
			}
			mustRefuse("one more than were closed")
			w.server.kill()
			w.server.start()
			mustRefuse("one more than the source may hold, after a restart")
			held[early+closes].Close()
			w.await("the place of one that was closed after the restart", opens)
		})
	}
}

// heldHalf changes with each recount.
func (n *node) heldHalf() uint8 {
	n.w.t.Helper()
	p, err := plane.OpenPinned(n.in().PinDir())
	if err != nil {
		n.w.t.Fatal(err)
	}
	defer p.Close()
	s, err := p.Settings()
	if err != nil {
		n.w.t.Fatal(err)
	}
	return s.HeldHalf
}
