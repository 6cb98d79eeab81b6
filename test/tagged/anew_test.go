// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
)

// ackOfCookie is the ACK of a new handshake from this port, with
// timestamps or without, from a sender that knows the secret or has guessed the cookie.
func (w *world) ackOfCookie(ipv6 bool, sport uint16, isn uint32, ts bool) *segment {
	s := &segment{v6: ipv6, src: w.ClientAddr(ipv6).AsSlice(), dst: w.ServerAddr(ipv6).AsSlice(),
		sport: sport, dport: port, seq: isn + 1, flags: flagACK, window: 1000}
	cookie, tsval := makeCookie(&w.secret, s, isn, optionBits(6, 1460, ts), ts, w.edge.now())
	s.ack = cookie + 1
	if ts {
		s.options = binary.BigEndian.AppendUint32([]byte{1, 1, 8, 10, 0, 0, 0, 1}, tsval)
	}
	return s
}

// A valid cookie for another ISN meets a live connection. One of 22 bits can be
// guessed: it ends nothing, tagged or not. One of 54 bits is the client's own, which has
// restarted.
func TestCookieMeetsLiveConnection(t *testing.T) {
	each(t, options{}, echo, func(t *testing.T, w *world, ipv6 bool) {
		c, err := w.dial(ipv6)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		word := make([]byte, 4)
		talk := func() error {
			if _, err := fmt.Fprint(c, "word"); err != nil {
				return err
			}
			_, err := io.ReadFull(c, word)
			return err
		}
		if err := talk(); err != nil {
			t.Fatal(err)
		}
		sport := uint16(c.LocalAddr().(*net.TCPAddr).Port)
		valid, replaced, opened := w.counter("cookie_valid"), w.counter("split_replaced"), w.counter("split_opened")
		tagged := w.counter("tag_valid")
		for i := range 20 {
			s := w.ackOfCookie(ipv6, sport, uint32(0x10000000*i), false)
			w.edge.send(w.edge.inner, s.build(w.frameToServer(ipv6)))
			s.options = makeTag(&w.secret, s, tagSetup, 7, 5, w.edge.now())
			w.edge.send(w.edge.inner, s.build(w.frameToServer(ipv6)))
			if err := talk(); err != nil {
				t.Fatalf("cookie %d without timestamps: %v; %v", i, err, w.counters())
			}
		}
		w.await("verified tags", func() bool { return w.counter("tag_valid") == tagged+20 })
		if n := w.counter("cookie_valid") - valid; n == 0 { // one or two may be close to the old number
			t.Errorf("no cookie was looked at: %v", w.counters())
		}
		w.wantCounters(map[string]uint64{"split_replaced": replaced, "split_opened": opened})
		s := w.ackOfCookie(ipv6, sport, 0x12345678, true)
		w.edge.send(w.edge.inner, s.build(w.frameToServer(ipv6)))
		w.await("the new connection", func() bool { return w.counter("split_replaced") == replaced+1 })
		w.await("its handshake", func() bool { return w.counter("split_ready") == opened+1 })
	})
}
