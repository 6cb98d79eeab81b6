// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/rig"
)

// rawWorld has ends of cables instead of a client's and a server's TCP: addresses
// that no machine has are routed to them.
func rawWorld(t *testing.T, bridge bool) (w *world, client, server *wire) {
	t.Helper()
	w = newWorld(t, bridge)
	client = w.wire(w.Client, w.ClientPort, w.LegitPort)
	server = w.wire(w.Server, w.ServerPort, w.InnerPort)
	if bridge {
		client.dst, server.dst = server.src, client.src
		return w, client, server
	}
	for _, r := range []struct {
		port     *rig.Port
		dst, via string
		mac      net.HardwareAddr
	}{
		{w.LegitPort, "198.18.2.64/26", "198.18.2.2", w.ClientPort.MAC},
		{w.InnerPort, "198.18.0.81/32", "198.18.4.2", w.ServerPort.MAC},
		{w.InnerPort, "198.18.0.82/32", "198.18.4.2", w.ServerPort.MAC},
	} {
		dst, err := netlink.ParseIPNet(r.dst)
		if err != nil {
			t.Fatal(err)
		}
		err = w.Proxy.Do(func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: r.port.Index, Dst: dst, Gw: net.ParseIP(r.via)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return w, client, server
}

// rawServer is an address for which only the test answers.
func rawServer(last byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, last}), port)
}

func from(who, to netip.AddrPort, flags byte) func(seg) bool {
	return func(s seg) bool {
		return s.from == who && s.to == to && s.flags&(syn|ack|rst|fin) == flags
	}
}

// answer is the other side's segment to s.
func (s seg) answer(seq uint32, flags byte, options []byte) seg {
	a := seg{vlans: s.vlans, from: s.to, to: s.from, seq: seq, ack: s.seq + uint32(len(s.data)), flags: flags,
		window: 5000, options: options}
	if s.flags&(syn|fin) != 0 {
		a.ack++
	}
	return a
}

// greet sends a SYN that offers everything and returns the SYN-ACK, and the ACK that
// completes it.
func (x *wire) greet(local uint16, server netip.AddrPort, vlans ...uint16) (synack, third seg) {
	x.t.Helper()
	s := seg{vlans: vlans, from: nobody(false, local), to: server, seq: 1000, flags: syn | ece | cwr, window: 65535,
		options: linuxOptions(1460, 77)}
	x.send(s)
	synack = x.want("a SYN-ACK", from(server, s.from, syn|ack))
	third = synack.answer(1001, ack, nil)
	if has(synack.options, 8) {
		third.options = tsOption(78, synack.options)
	}
	return synack, third
}

// accept answers as the server, with that number, to the connection of the client whose ACK third
// is; if the box probes the server first, the probe gets the same answer.
func (x *wire) accept(third seg, isn uint32, options []byte) (opened seg) {
	x.t.Helper()
	s := x.want("the SYN", from(third.from, third.to, syn))
	if s.seq != third.seq-1 {
		x.send(s.answer(isn-100, syn|ack, options))
		s = x.want("the connection's own SYN", from(third.from, third.to, syn))
	}
	if s.seq != third.seq-1 {
		x.t.Errorf("the SYN has number %d, want the client's own %d", s.seq, third.seq-1)
	}
	x.send(s.answer(isn, syn|ack, options))
	return x.want("the ACK", from(third.from, third.to, ack))
}

// own matches the SYN that opens the connection of the client whose ACK third is, not one that
// probes the server: it has the client's own number.
func own(third seg) func(seg) bool {
	opens := from(third.from, third.to, syn)
	return func(s seg) bool { return opens(s) && s.seq == third.seq-1 }
}

// has reports whether options contain one of a kind.
func has(options []byte, kind byte) bool {
	for i := 0; i < len(options); {
		switch options[i] {
		case kind:
			return true
		case 0:
			return false
		case 1:
			i++
		default:
			i += int(options[i+1])
		}
	}
	return false
}

// all reports whether every option is there; none, whether only the MSS is.
func all(s seg) bool  { return has(s.options, 3) && has(s.options, 4) && has(s.options, 8) }
func none(s seg) bool { return !has(s.options, 3) && !has(s.options, 4) && !has(s.options, 8) }

func mss(s seg) uint16 { return binary.BigEndian.Uint16(s.options[2:]) }

// rich and poor are options of SYN-ACKs: of a server that supports everything, with
// the client's TSval, and of a server that supports nothing.
func rich(syn seg) []byte {
	o := linuxOptions(1400, 9000)
	if i := bytes.Index(syn.options, []byte{8, 10}); i >= 0 {
		copy(o[12:16], syn.options[i+2:])
	}
	return o
}

var poor = []byte{2, 4, 1000 >> 8, 1000 & 255}

// Two servers of one service answer differently; the clients of each are offered what
// that server supports, and nothing before it is known. A server whose options change
// costs one connection, which is reset.
func TestServersAreLearnedOneByOne(t *testing.T) {
	for _, strategy := range []string{"cookie", "cache"} {
		t.Run(strategy, func(t *testing.T) {
			w, client, server := rawWorld(t, false)
			w.start(w.config(strategy))
			a, b := rawServer(81), rawServer(82)

			// Nothing is known: the client is offered the minimum, the server everything.
			synack, third := client.greet(6001, a)
			if !none(synack) || mss(synack) != 536 || synack.flags&ece != 0 {
				t.Errorf("a client of an unknown server was told %+v", synack)
			}
			client.send(third)
			s := server.want("the SYN that asks", from(third.from, a, syn))
			if !all(s) || s.flags&(ece|cwr) != ece|cwr {
				t.Errorf("the unknown server was offered %+v", s)
			}
			server.send(s.answer(7000, syn|ack|ece, rich(s)))
			if s.seq == 1000 {
				t.Error("the SYN that asks has the client's own number")
			}
			if r := server.want("the reset of what was asked", from(third.from, a, rst)); r.seq != s.seq+1 {
				t.Errorf("the reset is %+v, after %+v", r, s)
			}
			s = server.want("the connection's own SYN", from(third.from, a, syn))
			if !none(s) || s.flags&(ece|cwr) != 0 || s.seq != 1000 {
				t.Errorf("the SYN for a client that was told of no option is %+v", s)
			}
			server.send(s.answer(8000, syn|ack, poor))
			server.want("the ACK", from(third.from, a, ack))
			if g := client.want("the window", from(a, third.from, ack)); g.window != 5000 || g.seq != synack.seq+1 {
				t.Errorf("the client was told the window by %+v", g)
			}

			// The other server supports nothing.
			synack, third = client.greet(6002, b)
			if !none(synack) {
				t.Errorf("a client of the other, unknown, server was told %+v", synack)
			}
			client.send(third)
			if g := server.accept(third, 7000, poor); g.ack != 7001 {
				t.Errorf("the server got %+v", g)
			}
			client.want("the window", from(b, third.from, ack))

			// From now on the clients of each are offered what it supports.
			synack, _ = client.greet(6003, b)
			if !none(synack) || mss(synack) != 1000 || synack.flags&ece != 0 {
				t.Errorf("a client of the poor server was told %+v", synack)
			}
			synack, third = client.greet(6004, a)
			if !all(synack) || mss(synack) != 1400 || synack.flags&ece == 0 {
				t.Errorf("a client of the rich server was told %+v", synack)
			}
			client.send(third)
			s = server.want("its SYN", from(third.from, a, syn))
			if !all(s) || s.flags&(ece|cwr) != ece|cwr {
				t.Errorf("the rich server was sent %+v", s)
			}
			w.wantCounters(map[string]uint64{"server_asked": 2, "flow_mismatch": 0, "flow_ready": 2})

			// It has changed, and is probed.
			server.send(s.answer(9000, syn|ack, poor))
			server.want("the server's reset", from(third.from, a, rst))
			s = server.want("the SYN that asks again", from(third.from, a, syn))
			if !all(s) || s.seq == 1000 {
				t.Errorf("the server that has changed was asked by %+v", s)
			}
			server.send(s.answer(9100, syn|ack, poor))
			server.want("the server's second reset", from(third.from, a, rst))
			if r := client.want("the client's reset", from(a, third.from, rst|ack)); r.seq != synack.seq+1 {
				t.Errorf("the reset is %+v, after %+v", r, synack)
			}
			if synack, _ = client.greet(6005, a); !none(synack) {
				t.Errorf("after the change a client was told %+v", synack)
			}
			w.wantCounters(map[string]uint64{"flow_mismatch": 1, "flow_ready": 2})
		})
	}
}

// Before the server is ready, data cannot be delivered. zero-window: the client has
// to wait, and gets a window update. notify: it may send; it learns of lost data
// by three duplicate ACKs, sent only if there was data.
func TestFirstData(t *testing.T) {
	for name, bridge := range map[string]bool{"router": false, "bridge": true} {
		for _, strategy := range []string{"cookie", "cache"} {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				w, client, server := rawWorld(t, bridge)
				b := w.start(w.config(strategy))
				a := rawServer(81)
				open := func(local uint16, data bool) (synack seg, acks []seg) {
					synack, third := client.greet(local, a)
					client.send(third)
					if data {
						d := third
						d.data = []byte("early")
						client.send(d)
						before := w.counters()["flow_early"]
						w.await("the early data are dropped", func() bool { return w.counters()["flow_early"] >= max(before, 1) })
					}
					if g := server.accept(third, 7000, poor); len(g.data) != 0 {
						t.Errorf("the server got %+v", g)
					}
					for {
						g, more := client.next(300*time.Millisecond, from(a, third.from, ack))
						if !more {
							return synack, acks
						}
						acks = append(acks, g)
					}
				}
				check := func(what string, synack seg, acks []seg, window uint16, n int) {
					t.Helper()
					if synack.window != window || len(acks) != n {
						t.Fatalf("%s: the SYN-ACK's window is %d, and %d ACKs followed; want %d and %d", what,
							synack.window, len(acks), window, n)
					}
					for _, g := range acks {
						if g.seq != synack.seq+1 || g.ack != 1001 || g.window != 5000 || len(g.data) != 0 {
							t.Errorf("%s: %+v after %+v", what, g, synack)
						}
					}
				}
				synack, acks := open(6001, false)
				check("zero-window", synack, acks, 0, 1)
				synack, acks = open(6002, true)
				check("zero-window, early data", synack, acks, 0, 1)
				w.writeConfig(w.config(strategy + "\n    first_data: notify"))
				b.Reread("msg=reloaded")
				synack, acks = open(6003, false)
				check("notify", synack, acks, 64240, 1)
				synack, acks = open(6004, true)
				check("notify, early data", synack, acks, 64240, 4)
				w.wantCounters(map[string]uint64{"flow_notified": 1, "flow_early": 2})
			})
		}
	}
}

// Real clients under notify are served, whichever side speaks first.
func TestNotifyWithRealClients(t *testing.T) {
	w := newWorld(t, false)
	w.serve(echo)
	w.start(w.config("cookie\n    first_data: notify"))
	for _, ipv6 := range families() {
		for range 5 {
			begin := time.Now()
			if err := w.ping(ipv6); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %v", familyName(ipv6), time.Since(begin))
		}
	}
}

// A whole connection in VLAN-tagged frames over a bridge.
func TestBridgeVLAN(t *testing.T) {
	for _, strategy := range []string{"cookie", "cache"} {
		t.Run(strategy, func(t *testing.T) {
			w, client, server := rawWorld(t, true)
			w.start(w.config(strategy))
			a := rawServer(81)
			vlan := func(what string, s seg) seg {
				t.Helper()
				if len(s.vlans) != 1 || s.vlans[0] != 42 {
					t.Errorf("%s has the tags %v, want 42", what, s.vlans)
				}
				return s
			}
			synack, third := client.greet(6001, a, 42)
			vlan("the SYN-ACK", synack)
			client.send(third)
			asks := vlan("the SYN that asks", server.want("the SYN that asks", from(third.from, a, syn)))
			server.send(asks.answer(6900, syn|ack, poor))
			s := vlan("the connection's own SYN", server.want("the connection's own SYN", own(third)))
			server.send(s.answer(7000, syn|ack, poor))
			vlan("the ACK", server.want("the ACK", from(third.from, a, ack)))
			vlan("the window", client.want("the window", from(a, third.from, ack)))
			third.data = []byte("hello")
			client.send(third)
			d := vlan("the data", server.want("the data", func(s seg) bool { return string(s.data) == "hello" }))
			if d.ack != 7001 || d.seq != 1001 {
				t.Errorf("the server got %+v", d)
			}
			r := d.answer(7001, ack, nil)
			r.data = []byte("world")
			server.send(r)
			g := vlan("the answer", client.want("the answer", func(s seg) bool { return string(s.data) == "world" }))
			if g.seq != synack.seq+1 || g.ack != 1006 {
				t.Errorf("the client got %+v", g)
			}
			// Frames to no service keep their tags, too.
			other := seg{vlans: []uint16{42}, from: nobody(false, 1), to: netip.AddrPortFrom(a.Addr(), 9999), flags: syn}
			client.send(other)
			vlan("another port's SYN", server.want("another port's SYN", from(other.from, other.to, syn)))
		})
	}
}

// A router answers tagged SYNs with tags. Its kernel knows where they are routed,
// from its VLAN devices.
func TestRouterVLAN(t *testing.T) {
	w, client, _ := rawWorld(t, false)
	w.start(w.config("cookie"))
	synack, _ := client.greet(6001, rawServer(81), 42)
	if len(synack.vlans) != 1 || synack.vlans[0] != 42 {
		t.Errorf("the answer to a SYN of VLAN 42 has the tags %v", synack.vlans)
	}
	w.wantCounters(map[string]uint64{"cookie_sent": 1})
}

// The servers' answers bypass the box. The box logs it, and does no more
// than retransmit their SYNs when clients retransmit; when the path is fixed, the
// connection that is still waiting is established.
func TestOneSideOnly(t *testing.T) {
	w, client, server := rawWorld(t, false)
	b := w.start(w.config("cookie"))
	a := rawServer(81)
	var s, third, synack seg
	w.await("it says so", func() bool {
		for i := range 25 {
			synack, third = client.greet(uint16(20000+i)+uint16(time.Now().UnixMilli()%1000*40), a)
			client.send(third)
			s = server.want("the SYN", from(third.from, a, syn))
		}
		return w.status().OneSided
	})
	if !strings.Contains(b.Stderr.String(), "only one direction") {
		t.Error("the log does not say so")
	}
	// The server's SYN-ACK has reached the client by the other path: the client answers with the
	// only numbers it knows (RFC 9293 section 3.10.7.4).
	time.Sleep(150 * time.Millisecond) // processed at most every 100 ms
	client.send(third)
	if again := server.want("the SYN again", from(third.from, a, syn)); again.seq != s.seq {
		t.Errorf("first %+v, then %+v", s, again)
	}
	if g, came := client.next(200*time.Millisecond, from(a, third.from, ack)); came {
		t.Errorf("the client got %+v, though no server has answered", g)
	}
	server.send(s.answer(6900, syn|ack, poor))
	s = server.want("the connection's own SYN", own(third))
	server.send(s.answer(7000, syn|ack, poor))
	if g := client.want("the window", from(a, third.from, ack)); g.seq != synack.seq+1 {
		t.Errorf("the client got %+v", g)
	}
	w.await("it says that this is over", func() bool { return !w.status().OneSided })
}

// The first client of an unknown server: the server is probed, reset and
// opened again in sequence, and its first data must still arrive.
func TestFirstClientOfUnknownServer(t *testing.T) {
	for _, ipv6 := range families() {
		t.Run(familyName(ipv6), func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(func(c *net.TCPConn) {
				_, _ = io.WriteString(c, "220 hello\r\n")
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			})
			w.start(w.config("cookie"))
			c, err := w.dial(ipv6)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if line, err := bufio.NewReader(c).ReadString('\n'); line != "220 hello\r\n" {
				t.Fatalf("the server's first word: %q, %v", line, err)
			}
			w.wantCounters(map[string]uint64{"server_asked": 1, "flow_ready": 1, "flow_closed": 0})
		})
	}
}
