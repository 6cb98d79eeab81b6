// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/lab/rig"
	harness "tidegate/test/world"
)

// vanish makes the client's kernel forget a connection silently.
func vanish(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var vanished error
	if err := raw.Control(func(fd uintptr) { vanished = harness.Vanish(int(fd)) }); err != nil || vanished != nil {
		t.Fatal(err, vanished)
	}
	c.Close()
}

// fleet is several edges before one server, behind a fabric.
type fleet struct {
	*place
	*rig.SplitTopology
	edges  []*node
	server *node
}

func newFleet(t *testing.T, edges int, direct bool, extra ...string) *fleet {
	t.Helper()
	needRoot(t)
	t.Parallel()
	s, err := rig.NewSplitTopology(fmt.Sprintf("-s%d", worlds.Add(1)), edges, direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{place: newPlace(t, s.Topology, s.ServiceAddr), SplitTopology: s}
	f.server = &node{w: f.place, ns: f.place.Server, instance: s.Instance + "-s",
		top: "role: server\ninterfaces: [" + strings.Join(s.ServerPorts(), ", ") + "]\n"}
	f.server.configure("always")
	for i, e := range s.Edges {
		ports, inside := e.Ports()
		n := &node{w: f.place, ns: e.NS, instance: fmt.Sprintf("%s-e%d", s.Instance, i),
			top: fmt.Sprintf("role: edge\ninterfaces: [%s]\ninside: [%s]\n", strings.Join(ports, ", "), inside)}
		n.configure("always", extra...)
		f.edges = append(f.edges, n)
	}
	return f
}

func (f *fleet) startAll() {
	f.place.t.Helper()
	f.server.start()
	for _, e := range f.edges {
		e.start()
	}
}

// sum adds up a counter of all edges.
func (f *fleet) sum(name string) (n uint64) {
	for _, e := range f.edges {
		n += e.counters()[name]
	}
	return n
}

// upload sends a megabyte and reads it back.
func (w *place) upload(ipv6 bool) error {
	c, err := w.dial(ipv6, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	errs := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		if err == nil {
			err = c.CloseWrite()
		}
		errs <- err
	}()
	back, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(back, data) {
		return fmt.Errorf("%d of %d bytes came back, %w", len(back), len(data), err)
	}
	return <-errs
}

// Three edges that share only the secret; every packet takes another edge, and
// answers bypass them. No connection breaks, and nothing is retransmitted.
func TestEdgesPacketByPacket(t *testing.T) {
	f := newFleet(t, 3, true, "unknown_rate: all", "learning: 0s")
	f.serve(echo)
	f.startAll()
	before := f.netstat(f.place.Client, "TCPTimeouts")
	for _, ipv6 := range families() {
		for i := range 100 {
			if err := f.ping(ipv6); err != nil {
				t.Fatalf("%s, connection %d: %v", familyName(ipv6), i, err)
			}
		}
		if err := f.upload(ipv6); err != nil {
			t.Errorf("%s: a megabyte each way: %v", familyName(ipv6), err)
		}
	}
	if n := f.netstat(f.place.Client, "TCPTimeouts") - before; n != 0 {
		t.Errorf("the client waited %d times", n)
	}
	if f.sum("drop_ack")+f.sum("drop_fin")+f.sum("drop_rst") != 0 || f.sum("edge_unknown") == 0 {
		t.Errorf("dropped %d, unknown %d", f.sum("drop_ack"), f.sum("edge_unknown"))
	}
	for _, e := range f.edges {
		if e.counters()["cookie_sent"] == 0 {
			t.Errorf("%s has answered nobody", e.instance)
		}
	}
}

// Routes change: an established connection moves to an edge that has never seen it, and
// back. With answers through the first edge, and bypassing all edges.
func TestRouteMoves(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(map[bool]string{false: "answers through an edge", true: "answers past the edges"}[direct], func(t *testing.T) {
			f := newFleet(t, 2, direct, "learning: 0s") // and the default allowance
			f.serve(echo)
			f.startAll()
			if err := f.Through(0); err != nil {
				t.Fatal(err)
			}
			c := f.open(false)
			for i := range 6 {
				if err := f.Through((i + 1) % 2); err != nil {
					t.Fatal(err)
				}
				f.still(c, fmt.Sprintf("route %d", i))
			}
			if f.edges[1].counters()["edge_unknown"] == 0 || f.sum("drop_ack") != 0 {
				t.Errorf("unknown %d, dropped %d", f.edges[1].counters()["edge_unknown"], f.sum("drop_ack"))
			}
		})
	}
}

// An edge dies under load: its process first, then the box. Connections survive; only
// packets in flight through it are retransmitted.
func TestEdgeDies(t *testing.T) {
	f := newFleet(t, 3, true, "unknown_rate: all", "learning: 0s")
	f.serve(echo)
	f.startAll()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		wg.Go(func() {
			c, err := f.dial(false, 0)
			for err == nil {
				select {
				case <-stop:
					c.Close()
					return
				default:
					err = say(c, "under load")
				}
			}
			errs <- err
		})
	}
	f.edges[2].kill()
	time.Sleep(200 * time.Millisecond) // load with a dead process: its packet path keeps running
	if err := f.Only(2); err != nil {  // routing detects that the box is gone
		t.Fatal(err)
	}
	for range 20 {
		if err := f.ping(false); err != nil {
			t.Errorf("with two edges left: %v", err)
		}
	}
	close(stop)
	wg.Wait()
	select {
	case err := <-errs:
		t.Errorf("a connection broke: %v", err)
	default:
	}
}

// refusedFor opens connections for a time, one after each pause, and counts those that
// carry no data.
func refusedFor(t *testing.T, long, pause time.Duration, dial func(ipv6 bool, localPort uint16) (*net.TCPConn, error)) (refused int) {
	t.Helper()
	for deadline := time.Now().Add(long); time.Now().Before(deadline); time.Sleep(pause) {
		conn, err := dial(false, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(150 * time.Millisecond))
		if say(conn, "now?") != nil {
			refused++
		}
		conn.Close()
	}
	return refused
}

// With clocks that differ by the maximum, in either direction, over several epochs, nothing is
// refused. With clocks that differ by more, something is, or the test proves nothing.
func TestSkew(t *testing.T) {
	for _, c := range []struct {
		skew, tolerated time.Duration // of the edge's clock; by the server
		good            bool
	}{{225 * time.Millisecond, 250 * time.Millisecond, true}, {-225 * time.Millisecond, 250 * time.Millisecond, true},
		{950 * time.Millisecond, 250 * time.Millisecond, false}, {-1950 * time.Millisecond, 250 * time.Millisecond, false},
		{time.Second, time.Second, true}, {-time.Second, time.Second, true}} { // a whole epoch
		t.Run(fmt.Sprintf("%s, %s tolerated", c.skew, c.tolerated), func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(echo)
			w.Edge.configure("always", "epoch: 1s", "clock_skew: 250ms")
			w.server.configure("always", "epoch: 1s", fmt.Sprintf("clock_skew: %s", c.tolerated))
			w.Edge.skew = c.skew
			w.startBoth()
			refused := refusedFor(t, 2250*time.Millisecond, 30*time.Millisecond, w.dial)
			if (refused == 0) != c.good {
				t.Errorf("%d connections refused; %v", refused, nonZero(w.server.counters()))
			}
		})
	}
}

// Edges whose clocks differ by a whole epoch, each packet through another of them, and no unverified packet is forwarded:
// nothing is refused if they tolerate it; something is if not, or the test proves nothing.
func TestEdgesSkew(t *testing.T) {
	for _, c := range []struct {
		tolerated, layout string
		good              bool
	}{{"1s", "tidegate", true}, {"1s", "smartcookie", true}, {"250ms", "tidegate", false}} {
		t.Run(c.tolerated+", "+c.layout, func(t *testing.T) {
			f := newFleet(t, 3, true, "unknown_rate: 0", "learning: 0s", "epoch: 1s", "clock_skew: "+c.tolerated, "cookie_layout: "+c.layout)
			f.server.configure("always", "epoch: 1s", "clock_skew: 1s", "cookie_layout: "+c.layout)
			for i, skew := range []time.Duration{500 * time.Millisecond, -500 * time.Millisecond, 0} {
				f.edges[i].skew = skew
			}
			f.serve(echo)
			f.startAll()
			refused := refusedFor(t, 3*time.Second, 20*time.Millisecond, f.dial)
			if (refused == 0) != c.good || f.sum("cookie_valid") == 0 {
				t.Errorf("%d connections refused; dropped %d, verified %d; server %v", refused, f.sum("drop_ack"), f.sum("cookie_valid"), nonZero(f.server.counters()))
			}
		})
	}
}

// An edge whose clock is stepped by minutes while it runs: known connections continue, and none of their packets is
// lost; new ones are not taken over, and the server logs the cause; when the clock is right again, all works.
func TestSteppedClock(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.Edge.configure("always", "epoch: 1s", "unknown_rate: 0", "learning: 0s")
	w.server.configure("always", "epoch: 1s")
	w.Edge.step = 5 * time.Minute
	w.startBoth()
	old, err := w.dial(false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	served := func() bool {
		conn, err := w.dial(false, 0)
		if err != nil {
			return false
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(150 * time.Millisecond))
		return say(conn, "now?") == nil
	}
	if err := say(old, "before"); err != nil || !served() {
		t.Fatalf("before the step: %v", err)
	}
	step := func() {
		if err := w.Edge.run.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	step()
	w.await("new connections to fail", func() bool { return !served() })
	if err := say(old, "while the clock is wrong"); err != nil {
		t.Errorf("a known connection: %v", err)
	}
	w.await("the server to say so", func() bool {
		served()
		return strings.Contains(w.server.run.Stderr.String(), "no ACK that edges let through verifies here")
	})
	step()
	w.await("new connections to be served", served)
	if err := say(old, "after"); err != nil {
		t.Errorf("a known connection: %v", err)
	}
}
