// SPDX-License-Identifier: Apache-2.0

package proxytest

import "testing"

// openRaw opens a connection between the ends of the cables, and returns the SYN-ACK and
// the ACK of its client, and the ACK that the server got.
func openRaw(w *world, client, server *wire, local uint16, last byte) (synack, third, opened seg) {
	w.t.Helper()
	a := rawServer(last)
	synack, third = client.greet(local, a)
	client.send(third)
	opened = server.accept(third, 7000, poor)
	client.want("the window", from(a, third.from, ack))
	return synack, third, opened
}

// An attacker that knows addresses and ports of a connection, but not its numbers, cannot end it with a
// RST (RFC 5961), nor can one that forges the server's address from the clients' side. The
// box forwards such RSTs for their receivers to judge; it acts only on the valid one.
func TestForgedResets(t *testing.T) {
	for _, bridge := range []bool{false, true} {
		t.Run(map[bool]string{false: "router", true: "bridge"}[bridge], func(t *testing.T) {
			w, client, server := rawWorld(t, bridge)
			w.start(w.config("cookie"))
			synack, third, opened := openRaw(w, client, server, 6100, 81)

			client.send(seg{from: third.from, to: third.to, seq: opened.seq, ack: synack.seq + 1, flags: ack | psh, data: []byte("four")})
			server.want("the data", func(s seg) bool { return string(s.data) == "four" })
			server.send(seg{from: third.to, to: third.from, seq: opened.ack, ack: opened.seq + 4, flags: ack, window: 5000})
			client.want("its ACK", func(s seg) bool { return s.from == third.to && s.ack == opened.seq+4 })

			for _, wrong := range []uint32{0, opened.seq, opened.seq + 3, opened.seq + 5, 1 << 31} {
				client.send(seg{from: third.from, to: third.to, seq: wrong, flags: rst})
				server.want("a RST with a wrong number", func(s seg) bool { return s.flags&rst != 0 && s.seq == wrong })
			}
			// From the server's address, with the right number, and after a false acknowledgment number.
			client.send(seg{from: third.to, to: third.from, seq: synack.seq + 1, ack: 4711, flags: ack, window: 5000})
			client.send(seg{from: third.to, to: third.from, seq: synack.seq + 1, flags: rst})
			client.send(seg{from: third.from, to: third.to, seq: 4711, flags: rst})
			server.want("the last RST", func(s seg) bool { return s.flags&rst != 0 && s.seq == 4711 })
			w.wantCounters(map[string]uint64{"flow_ready": 1, "flow_closed": 0})

			client.send(seg{from: third.from, to: third.to, seq: opened.seq + 4, flags: rst})
			server.want("the RST that is right", func(s seg) bool { return s.flags&rst != 0 && s.seq == opened.seq+4 })
			w.wantCounters(map[string]uint64{"flow_closed": 1})
		})
	}
}

// A client that forges its server's answer, from its own port or from another on the clients'
// side, while the server is down, does not change what the box believes the server offers. Nor
// is the server forgotten because a forged answer offers less.
func TestForgedServerAnswers(t *testing.T) {
	w, client, server := rawWorld(t, false)
	w.start(w.config("cookie"))
	flood := w.wire(w.Attacker, w.AttackerPort, w.FloodPort)
	a := rawServer(81)
	tiny := []byte{2, 4, 0, 1}
	// forge answers the SYN of a client, whose number is known to whoever sends as that client.
	forge := func(third seg, options []byte) {
		for _, x := range []*wire{client, flood} {
			x.send(seg{from: a, to: third.from, seq: 1, ack: third.seq, flags: syn | ack, window: 1, options: options})
		}
	}

	_, third := client.greet(6200, a)
	client.send(third)
	asks := server.want("the SYN that asks", from(third.from, a, syn))
	forge(third, tiny)
	if synack, _ := client.greet(6201, a); mss(synack) != 536 || !none(synack) {
		t.Errorf("after forged answers a client of an unknown server was told %+v", synack)
	}
	w.wantCounters(map[string]uint64{"server_asked": 0, "flow_ready": 0})

	// The server's own answer is believed; an MSS below what hosts may have is not passed on.
	server.send(asks.answer(7000, syn|ack, tiny))
	own := server.want("the connection's own SYN", func(s seg) bool { return s.from == third.from && s.flags == syn && s.seq == 1000 })
	server.send(own.answer(8000, syn|ack, tiny))
	client.want("the window", from(a, third.from, ack))
	if synack, _ := client.greet(6202, a); mss(synack) != 536 {
		t.Errorf("a server's MSS of 1 was passed on: %+v", synack)
	}
	w.wantCounters(map[string]uint64{"server_asked": 1, "flow_ready": 1})

	// Another server, which offers everything, is known, until a forged answer offers nothing.
	a = rawServer(82)
	_, third = client.greet(6203, a)
	client.send(third)
	asks = server.want("the SYN that asks", from(third.from, a, syn))
	server.send(asks.answer(7000, syn|ack|ece, rich(asks)))
	server.want("the connection's own SYN", func(s seg) bool { return s.from == third.from && s.flags&syn != 0 && s.seq == 1000 })
	_, third = client.greet(6204, a)
	client.send(third)
	server.want("its SYN", from(third.from, a, syn))
	forge(third, tiny)
	if synack, _ := client.greet(6205, a); !all(synack) || mss(synack) != 1400 {
		t.Errorf("a known server was forgotten: its next client was told %+v", synack)
	}
	w.wantCounters(map[string]uint64{"server_asked": 2, "flow_mismatch": 0})
}
