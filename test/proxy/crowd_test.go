// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	harness "tidegate/test/world"
)

// crowd completes handshakes from many addresses, and never closes a connection.
type crowd struct {
	sources int
	word    bool // sends a word in each connection; otherwise nothing
	v6      bool // each address in a /48 of its own
}

func (c crowd) source(n int) netip.AddrPort {
	who := uint32(n % c.sources)
	b := binary.BigEndian.AppendUint32(nil, 10<<24|who+1)
	if c.v6 {
		b = append([]byte{0x20, 1}, b...)
		b = append(b, make([]byte, 10)...)
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(1024+n/c.sources))
}

// come starts connection n. Segments that are lost, or late on a busy machine, are not retransmitted: then
// the connection stays silent.
func (c crowd) come(x *wire, server netip.AddrPort, n int) (begun bool) {
	s := seg{from: c.source(n), to: server, seq: 1000, flags: syn, window: 65535, options: linuxOptions(1460, 77)}
	x.send(s)
	synack, ok := x.next(200*time.Millisecond, from(server, s.from, syn|ack))
	if !ok {
		return false
	}
	third := synack.answer(1001, ack, nil)
	if has(synack.options, 8) {
		third.options = tsOption(78, synack.options)
	}
	x.send(third)
	if !c.word {
		return true
	}
	if _, ok := x.next(5*time.Millisecond, from(server, s.from, ack)); ok {
		third.data = []byte("a word")
		x.send(third)
	}
	return true
}

// crowdWire is the client's cable, on which the crowd's addresses are reachable for the box.
func (w *world) crowdWire() *wire {
	w.t.Helper()
	for dst, via := range map[string]string{"10.0.0.0/8": "198.18.2.2", "2001::/16": "fd7d:7467:2::2"} {
		to, err := netlink.ParseIPNet(dst)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.Proxy.Do(func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: w.LegitPort.Index, Dst: to, Gw: net.ParseIP(via)})
		}); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.wire(w.Client, w.ClientPort, w.LegitPort)
}

// Thousands of addresses complete handshakes without end, each within its share, and fill the
// table; newcomers are still served at once, and established connections stay.
func TestCrowd(t *testing.T) {
	const full = 2200 // of 1,024 places, and 1,024 waiting for one
	for name, c := range map[string]crowd{
		"500 silent addresses":        {sources: 500},
		"5,000 silent addresses":      {sources: 5000},
		"500 addresses with a word":   {sources: 500, word: true},
		"5,000 addresses with a word": {sources: 5000, word: true},
		"5,000 silent IPv6 /48s":      {sources: 5000, v6: true},
		"5,000 IPv6 /48s with a word": {sources: 5000, v6: true, word: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			w.serveFor(2*time.Minute, echo)
			w.start(w.config("cookie", "max_flows: 1024"))
			before := w.holdConn(c.v6)
			_ = before.SetDeadline(time.Now().Add(2 * time.Minute))
			var begun atomic.Int32
			stop, ended := make(chan struct{}), make(chan struct{})
			attacker := w.crowdWire()
			server := w.ServiceAddr(c.v6, port)
			go func() {
				defer close(ended)
				for n := 0; ; n++ {
					if c.come(attacker, server, n) {
						begun.Add(1)
					}
					pause := time.Duration(0)
					if begun.Load() >= full {
						pause = 5 * time.Millisecond // the server has a descriptor for each
					}
					select {
					case <-stop:
						return
					case <-time.After(pause):
					}
				}
			}()
			defer func() { close(stop); <-ended }()
			for deadline := time.Now().Add(time.Minute); begun.Load() < full; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("only %d connections were begun", begun.Load())
				}
				use(t, before)
			}
			for i := range 20 {
				conn, err := w.dial(c.v6)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				use(t, conn)
				if lost, again := harness.LostSegments(t, conn, 1); lost > 1 {
					t.Errorf("newcomer %d had to send %d segments again, of which %d were missing", i, again, lost)
				}
				use(t, before)
			}
			t.Log(begun.Load(), harness.NonZero(w.counters()))
		})
	}
}
