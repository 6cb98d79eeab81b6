// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"
)

// linuxOptions are the options of a SYN in Linux's order.
func linuxOptions(mss uint16, tsval uint32) []byte {
	o := []byte{2, 4, byte(mss >> 8), byte(mss), 4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 9}
	binary.BigEndian.PutUint32(o[8:], tsval)
	return o
}

// Everything that `cookie` carries, `cache` carries.
func TestCacheEcho(t *testing.T) {
	each(t, "cache", echo, func(t *testing.T, w *world, ipv6 bool) {
		before := w.counters()
		for range 5 {
			if err := w.ping(ipv6); err != nil {
				t.Fatal(err)
			}
		}
		for name, want := range map[string]uint64{"cache_kept": 5, "cache_valid": 5, "flow_opened": 5, "flow_ready": 5,
			"cache_evicted": 0, "cache_invalid": 0, "cache_busy": 0, "cookie_sent": 0} {
			if got := w.counters()[name] - before[name]; got != want {
				t.Errorf("counter %s grew by %d, want %d", name, got, want)
			}
		}
	})
}

func TestCacheBulk(t *testing.T) {
	each(t, "cache", bulkServer, func(t *testing.T, w *world, ipv6 bool) {
		if err := transfer(w, ipv6); err != nil {
			t.Error(err)
		}
	})
}

func TestCacheServerSpeaksFirst(t *testing.T) {
	each(t, "cache", func(c *net.TCPConn) {
		fmt.Fprintln(c, "220 ready")
		echo(c)
	}, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "220 ready\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	})
}

// A retransmitted SYN gets the identical answer; a new SYN from the same port gets
// its own, whose sequence number does not go back (RFC 6528).
func TestCacheSameSYNSameAnswer(t *testing.T) {
	each(t, "cache", nil, func(t *testing.T, w *world, ipv6 bool) {
		x := w.wire(w.Client, w.ClientPort, w.LegitPort)
		if w.Bridge {
			x.dst = [6]byte(w.ServerPort.MAC)
		}
		s := seg{from: nobody(ipv6, 5000), to: w.ServiceAddr(ipv6, port), seq: 1000, flags: syn, window: 65535,
			options: linuxOptions(1333, 77)}
		var answers []seg
		for range 3 {
			x.send(s)
			answers = append(answers, x.want("a SYN-ACK", synAckTo(s.from)))
		}
		for _, a := range answers[1:] {
			if a.seq != answers[0].seq || !bytes.Equal(a.options, answers[0].options) || a.ack != 1001 {
				t.Errorf("the answer to the same SYN was %+v, then %+v", answers[0], a)
			}
		}
		s.seq = 5000
		x.send(s)
		if a := x.want("a SYN-ACK of the new one", synAckTo(s.from)); int32(a.seq-answers[0].seq) < 0 || a.ack != 5001 {
			t.Errorf("a new SYN of the same port got %+v after %+v", a, answers[0])
		}
	})
}

// All options that the client offers reach the server, even an odd MSS; a forged ACK
// does not, and leaves the half-open connection alone.
func TestCacheForgedACKAndExactOptions(t *testing.T) {
	each(t, "cache", echo, func(t *testing.T, w *world, ipv6 bool) {
		w.acquaint(ipv6)
		x, server := w.wire(w.Client, w.ClientPort, w.LegitPort), w.wire(w.Server, w.ServerPort, w.InnerPort)
		if w.Bridge {
			x.dst = [6]byte(w.ServerPort.MAC)
		}
		s := seg{from: nobody(ipv6, 5001), to: w.ServiceAddr(ipv6, port), seq: 1000, flags: syn | ece | cwr, window: 65535,
			options: linuxOptions(1333, 77)}
		x.send(s)
		a := x.want("a SYN-ACK", synAckTo(s.from))
		third := s
		third.seq, third.ack, third.flags, third.options = 1001, a.seq+1, ack, tsOption(78, a.options)
		before := w.counters()
		for _, forge := range []func(*seg){
			func(s *seg) { s.ack++ }, func(s *seg) { s.seq++ }, func(s *seg) { s.options = nil },
			func(s *seg) { s.options = tsOption(78, linuxOptions(0, 0)) },
		} {
			forged := third
			forge(&forged)
			x.send(forged)
		}
		w.await("the forged ACKs are refused", func() bool { return w.counters()["cache_invalid"]-before["cache_invalid"] == 4 })
		if n := w.counters()["flow_opened"] - before["flow_opened"]; n != 0 {
			t.Fatalf("%d connections were opened for forged ACKs", n)
		}
		x.send(third)
		got := server.want("the SYN to the server", func(g seg) bool { return g.from == s.from && g.flags&syn != 0 })
		if got.seq != 1000 || len(got.options) != 20 || !bytes.Equal(got.options[:4], []byte{2, 4, 1333 >> 8, 1333 & 255}) {
			t.Errorf("the server got %+v", got)
		}
	})
}

// tsOption echoes the timestamp of a SYN-ACK with these options, in our order.
func tsOption(tsval uint32, synack []byte) []byte {
	o := make([]byte, 12)
	o[0], o[1], o[2], o[3] = 1, 1, 8, 10
	binary.BigEndian.PutUint32(o[4:], tsval)
	copy(o[8:], synack[8:12])
	return o
}

// Without an answer the SYN-ACK is retransmitted after 1, 3 and 7 s, and then no more.
func TestCacheRetransmission(t *testing.T) {
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, bridge)
			w.start(w.config("cache"))
			x := w.wire(w.Client, w.ClientPort, w.LegitPort)
			if bridge {
				x.dst = [6]byte(w.ServerPort.MAC)
			}
			s := seg{vlans: []uint16{7}, from: nobody(false, 5002), to: w.ServiceAddr(false, port), seq: 1000,
				flags: syn, window: 65535, options: linuxOptions(1460, 77)}
			x.send(s)
			first := x.want("a SYN-ACK", synAckTo(s.from))
			begin := time.Now()
			var late time.Duration // a machine that stalls sends less often, never in a burst
			n := uint64(0)
			for _, due := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second} {
				a, again := x.next(time.Until(begin.Add(9*time.Second)), synAckTo(s.from))
				if !again {
					break
				}
				n++
				if at := time.Since(begin); at < due-50*time.Millisecond {
					t.Errorf("the SYN-ACK came again after %v, want %v", at, due)
				} else {
					late = max(late, at-due)
				}
				if a.seq != first.seq || !bytes.Equal(a.options, first.options) || len(a.vlans) != 1 || a.vlans[0] != 7 {
					t.Errorf("first %+v, then %+v", first, a)
				}
			}
			if n < 3 && late < time.Second {
				t.Errorf("the SYN-ACK came again %d times, want 3; it was at most %v late", n, late)
			}
			w.wantCounters(map[string]uint64{"cache_retransmit": n, "cache_kept": 1})
			// Another client resets: nothing more is sent to it.
			s.from = nobody(false, 5003)
			x.send(s)
			a := x.want("a SYN-ACK", synAckTo(s.from))
			x.send(seg{vlans: s.vlans, from: s.from, to: s.to, seq: a.ack, flags: rst})
			if a, again := x.next(1500*time.Millisecond, synAckTo(s.from)); again {
				t.Errorf("after the client's RST came %+v", a)
			}
			w.wantCounters(map[string]uint64{"cache_retransmit": n, "cache_reset": 1})
		})
	}
}

// A flood that fills the cache costs nobody a connection: who is in it keeps the place, and newcomers get a cookie.
func TestCacheFullGivesCookies(t *testing.T) {
	const places, flood = 1024, 8192
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cache", "cache_entries: 1024"))
	x := w.wire(w.Client, w.ClientPort, w.LegitPort)
	old := seg{from: nobody(false, 999), to: w.ServiceAddr(false, port), seq: 1, flags: syn, window: 65535}
	x.send(old)
	a := x.want("a SYN-ACK", synAckTo(old.from))
	for i := range flood {
		s := old
		s.from, s.seq = nobody(false, uint16(1000+i)), uint32(i)
		if i%2 == 1 {
			s.options = linuxOptions(1460, uint32(i)) // the fast path's
		}
		x.send(s)
		if i%512 == 0 {
			for _, ipv6 := range families() {
				if err := w.ping(ipv6); err != nil {
					t.Fatalf("after %d SYNs: %v", i, err)
				}
			}
		}
	}
	pings := uint64(flood / 512 * len(families()))
	w.await("all SYNs are answered", func() bool {
		c := w.counters()
		return c["cache_kept"]+c["cookie_sent"] >= 1+flood+pings
	})
	c := w.counters()
	// A connection's place is free as soon as it is open.
	if c["cache_kept"] > places+c["cache_valid"] || c["cookie_sent"] < flood-places {
		t.Errorf("%d SYNs were kept in %d places, %d got a cookie", c["cache_kept"], places, c["cookie_sent"])
	}
	if c["flow_opened"] != pings || c["cookie_valid"]+c["cache_valid"] != pings || c["cookie_valid"] < pings/2 {
		t.Errorf("%d connections were opened, %d of them by cookie, %d by the cache; want %d", c["flow_opened"], c["cookie_valid"],
			c["cache_valid"], pings)
	}
	w.wantCounters(map[string]uint64{"cache_evicted": 0, "cache_busy": 0, "cookie_invalid": 0, "cache_invalid": 0})
	x.send(seg{from: old.from, to: old.to, seq: 2, ack: a.seq + 1, flags: ack, window: 100})
	w.await("the ACK of the oldest is accepted", func() bool { return w.counters()["cache_valid"] > c["cache_valid"] })
}
