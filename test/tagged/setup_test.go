// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// What may happen to a setup segment or a confirmation on its path. The client sees
// nothing of it: where the bare ACK is lost its data establish the connection, and are not
// lost with it.
func TestSetupTroubles(t *testing.T) {
	w := newWorld(t, options{})
	w.serve(echo)
	for name, trouble := range map[string]struct {
		toServer func(n int, f []byte) [][]byte
		toEdge   func(n int) bool
		held     bool
	}{
		"first set-up lost":        {toServer: func(n int, f []byte) [][]byte { return some(n != 0, f) }},
		"every set-up twice":       {toServer: func(_ int, f []byte) [][]byte { return [][]byte{f, f} }},
		"first confirmation lost":  {toEdge: func(n int) bool { return n != 0 }},
		"three confirmations lost": {toEdge: func(n int) bool { return n > 2 }},
		"every confirmation lost":  {toEdge: func(int) bool { return false }},
		"first behind the second":  {held: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ipv6 := range families() {
				w.promptly(t, familyName(ipv6), func() {
					w.edge.trouble(trouble.toServer, trouble.toEdge)
					if trouble.held {
						w.edge.trouble(secondFirst(), nil)
					}
					before := w.counter("split_opened")
					if err := w.ping(ipv6); err != nil {
						t.Fatalf("%s: %v; %v", familyName(ipv6), err, w.counters())
					}
					if n := w.counter("split_opened") - before; n != 1 {
						t.Errorf("%d connections were begun, want one: %v", n, w.counters())
					}
				})
			}
		})
	}
}

// secondFirst swaps the first two of the frames to the server.
func secondFirst() func(n int, f []byte) [][]byte {
	var held []byte
	return func(n int, f []byte) [][]byte {
		switch n {
		case 0:
			held = f
			return nil
		case 1:
			return [][]byte{f, held}
		}
		return [][]byte{f}
	}
}

func some(yes bool, f []byte) [][]byte {
	if yes {
		return [][]byte{f}
	}
	return nil
}

// A segment with a wrong tag is dropped, and counted by its defect.
func TestBadTags(t *testing.T) {
	w := newWorld(t, options{})
	w.serve(echo)
	for name, c := range map[string]struct {
		spoil   func(tag []byte)
		counter string
	}{
		"forged":          {func(tag []byte) { tag[19] ^= 1 }, "tag_forged"},
		"other edge":      {func(tag []byte) { tag[7]++ }, "tag_forged"},
		"other scale":     {func(tag []byte) { tag[5] ^= 0x10 }, "tag_forged"},
		"foreign version": {func(tag []byte) { tag[4] ^= 0x30 }, "tag_foreign"},
		"foreign kind":    {func(tag []byte) { tag[4] = 0x1f }, "tag_foreign"},
		"no edge":         {func(tag []byte) { tag[6], tag[7] = 0, 0 }, "tag_foreign"},
		"short":           {func(tag []byte) { tag[1] = 16 }, "tag_foreign"},
		"long ago":        {func(tag []byte) { add32(tag[8:], ^uint32(1)) }, "tag_stale"}, // -2
		"far ahead":       {func(tag []byte) { add32(tag[8:], 2) }, "tag_stale"},
	} {
		t.Run(name, func(t *testing.T) {
			w.edge.trouble(func(_ int, f []byte) [][]byte {
				s, ok := parse(f)
				if !ok {
					panic("the edge's own frame")
				}
				s.options = bytes.Clone(s.options)
				c.spoil(s.options[:20])
				return [][]byte{s.build(f)}
			}, nil)
			before, valid := w.counter(c.counter), w.counter("tag_valid")+w.counter("split_opened")
			conn, err := w.dial(false)
			if err != nil {
				t.Fatal(err) // only the edge completes the handshake
			}
			defer conn.Close()
			w.await(c.counter, func() bool { return w.counter(c.counter) > before })
			if n := w.counter("tag_valid") + w.counter("split_opened"); n != valid {
				t.Errorf("it was taken: %v", w.counters())
			}
			// abort it, so that none of its segments interferes with the next
			_ = conn.SetLinger(0)
		})
	}
}

func add32(b []byte, n uint32) { binary.BigEndian.PutUint32(b, binary.BigEndian.Uint32(b)+n) }

// Clocks may differ by an epoch, in either direction.
func TestSkew(t *testing.T) {
	for _, skew := range []time.Duration{-epoch, epoch} {
		w := newWorld(t, options{edge: func(e *edge) { e.skew = skew }})
		w.serve(echo)
		for _, ipv6 := range families() {
			w.promptly(t, fmt.Sprintf("skew %v, %s", skew, familyName(ipv6)), func() {
				if err := w.ping(ipv6); err != nil {
					t.Errorf("skew %v, %s: %v; %v", skew, familyName(ipv6), err, w.counters())
				}
			})
		}
	}
}

// A server with another secret: nothing verifies, and it counts how often. With
// unverified: pass, untagged clients get the stack's RST instead of silence.
func TestWrongSecret(t *testing.T) {
	other := func(e *edge) { e.secret = keys.Secret{1, 2, 3} }
	w := newWorld(t, options{edge: other})
	w.serve(echo)
	c, err := w.dial(false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w.await("refusal", func() bool { return w.counter("tag_forged") != 0 })
	w.wantCounters(map[string]uint64{"tag_valid": 0, "split_opened": 0})

	w = newWorld(t, options{unverified: plane.UnverifiedPass, edge: func(e *edge) {
		other(e)
		e.plain = true
	}})
	w.serve(echo)
	c, err = w.dial(false)
	if err == nil {
		defer c.Close()
		if _, err = c.Write([]byte("x")); err == nil { // the reset may have arrived already
			_, err = c.Read(make([]byte, 1))
		}
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset; %v", err, w.counters())
	}
}

// Protocol `plain`: no tag; the server verifies the cookie itself.
func TestPlain(t *testing.T) {
	each(t, options{edge: func(e *edge) { e.plain = true }}, echo, func(t *testing.T, w *world, ipv6 bool) {
		w.promptly(t, "a request", func() {
			if err := w.ping(ipv6); err != nil {
				t.Errorf("%v; %v", err, w.counters())
			}
		})
		if w.counter("cookie_valid") == 0 || w.counter("tag_valid") != 0 {
			t.Errorf("%v", w.counters())
		}
	})
}

// False positives of an edge's filter are dropped here: ACKs, RSTs and FINs of no
// connection, and probes of none.
func TestFinalCheck(t *testing.T) {
	w := newWorld(t, options{})
	for _, ipv6 := range families() {
		base := segment{v6: ipv6, src: w.ClientAddr(ipv6).AsSlice(), dst: w.ServerAddr(ipv6).AsSlice(),
			sport: 1234, dport: port, seq: 99, ack: 77, window: 1000}
		for i, flags := range []byte{flagACK, flagACK | flagFIN, flagRST, flagRST | flagACK, flagFIN} {
			// The usual layouts take the fast path, all others the slow path.
			for _, layout := range [][]byte{nil, {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}, {8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1}} {
				s := base
				s.flags, s.options = flags, layout
				s.payload = make([]byte, 100*(i%2))
				before := w.counter("drop_unmatched_ack")
				w.edge.send(w.edge.inner, s.build(w.frameToServer(ipv6)))
				w.await("the drop", func() bool { return w.counter("drop_unmatched_ack") == before+1 })
			}
		}
		s := base
		s.flags = flagACK
		s.options = makeTag(&w.secret, &s, tagProbe, 7, 7, w.edge.now())
		before := w.counter("probe_unknown")
		w.edge.send(w.edge.inner, s.build(w.frameToServer(ipv6)))
		w.await("the drop", func() bool { return w.counter("probe_unknown") == before+1 })
	}
	w.wantCounters(map[string]uint64{"split_opened": 0, "confirm_sent": 0})
}

// frameToServer has the MAC addresses and the type of a frame to the server.
func (w *world) frameToServer(ipv6 bool) []byte {
	h := append(append([]byte{}, w.ServerPort.MAC...), w.ClientPort.MAC...)
	if ipv6 {
		return append(h, 0x86, 0xdd)
	}
	return append(h, 0x08, 0x00)
}

// A captured setup segment, replayed while the connection lives and after its
// end, opens nothing.
func TestReplay(t *testing.T) {
	var caught []byte
	w := newWorld(t, options{edge: func(e *edge) {
		e.toServer = func(n int, f []byte) [][]byte {
			if n == 0 {
				caught = bytes.Clone(f)
			}
			return [][]byte{f}
		}
	}})
	w.serve(echo)
	c, err := w.dial(false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	word := make([]byte, 4)
	again := func(when string) {
		before := w.counter("tag_valid")
		w.edge.send(w.edge.inner, caught)
		w.await("the replay "+when, func() bool { return w.counter("tag_valid") > before })
		w.wantCounters(map[string]uint64{"split_opened": 1, "split_ready": 1})
	}
	for range 2 {
		if _, err := fmt.Fprint(c, "word"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, word); err != nil {
			t.Fatal(err)
		}
		again("while it lives")
	}
	_ = c.CloseWrite()
	if _, err := c.Read(word); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	w.await("the end", func() bool { return w.counter("split_closed") == 1 })
	again("after its end")
}

// The table is full: lasting connections in use continue, a new one is refused and counted,
// and gets in as soon as there is room.
func TestTableFull(t *testing.T) {
	w := newWorld(t, options{flows: 2}) // one bucket: four places
	w.serve(echo)
	var open []*net.TCPConn
	word := make([]byte, 4)
	talk := func(c net.Conn) error {
		if _, err := fmt.Fprint(c, "word"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, word)
		return err
	}
	for i := range 4 {
		c, err := w.dial(false)
		if err == nil {
			err = talk(c)
		}
		if err != nil {
			t.Fatalf("connection %d: %v; %v", i, err, w.counters())
		}
		defer c.Close()
		open = append(open, c)
	}
	w.lasts(t, open...)
	late, err := w.dial(false)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	w.await("no room", func() bool { return w.counter("split_full") != 0 })
	for i, c := range open {
		if err := talk(c); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	open[2].Close()
	if err := talk(late); err != nil { // its data are retransmitted, and find room
		t.Errorf("the late one: %v; %v", err, w.counters())
	}
}

// A connection that has not been seen for the idle time loses its place when another
// needs it, and not before.
func TestAgeing(t *testing.T) {
	w := newWorld(t, options{flows: 2, idleTicks: 1})
	w.serve(echo)
	word := make([]byte, 4)
	var open []net.Conn
	for range 4 {
		c, err := w.dial(false)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	w.await("four connections", func() bool { return w.counter("split_ready") == 4 })
	if live, places, err := w.plane.Splits(); err != nil || live != 4 || places != 4 {
		t.Fatalf("%d of %d places, %v", live, places, err)
	}
	w.age(2) // four old connections, of which one is seen again
	if _, err := fmt.Fprint(open[3], "word"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(open[3], word); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c, err := w.dial(false)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	w.await("three more", func() bool { return w.counter("split_ready") == 7 })
	w.wantCounters(map[string]uint64{"split_full": 0})
	if _, err := fmt.Fprint(open[3], "word"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(open[3], word); err != nil {
		t.Errorf("the one that was seen has lost its place: %v", err)
	}
}

// age makes every entry of the table older by so many ticks.
func (w *world) age(ticks uint16) {
	w.t.Helper()
	m := w.plane.Map("tg_splits")
	for at := range m.MaxEntries() {
		var b plane.SplitBucket
		if err := m.Lookup(at, &b); err != nil {
			w.t.Fatal(err)
		}
		for i := range b.Way {
			b.Way[i].SeenTick -= ticks
		}
		if err := m.Put(at, b); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A route changes: an edge that has never seen the connection forwards a sample of its
// segments as probes; the server recognizes it, and sends that edge a confirmation.
func TestRouteChange(t *testing.T) {
	each(t, options{edge: func(e *edge) { e.sampled = true }}, echo, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		word := make([]byte, 4)
		for i := range 5 {
			if _, err := fmt.Fprint(c, "word"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, word); err != nil {
				t.Fatalf("round %d: %v; %v", i, err, w.counters())
			}
			before := w.edge.confirmations()
			w.edge.forget()
			if _, err := fmt.Fprint(c, "word"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, word); err != nil {
				t.Fatalf("round %d: %v; %v", i, err, w.counters())
			}
			w.await("the new edge is told", func() bool { return w.edge.confirmations() > before })
		}
	})
}
