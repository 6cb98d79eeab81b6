package proxytest

import "testing"

// openRaw sets a connection up between the ends of the cables, and returns the SYN-ACK and
// the ACK of its client, and the ACK that the server got.
func openRaw(w *world, client, server *wire, local uint16, last byte) (synack, third, opened seg) {
	w.t.Helper()
	a := rawServer(last)
	synack, third = client.greet(local, a)
	client.send(third)
	server.send(server.want("the SYN", from(third.from, a, syn)).answer(7000, syn|ack, poor))
	opened = server.want("the ACK", from(third.from, a, ack))
	client.want("the window", from(a, third.from, ack))
	return synack, third, opened
}

// Who knows addresses and ports of a connection, but not its numbers, does not end it with a
// RST (RFC 5961), nor does one who sends in the server's name from where the clients are. The
// box passes them on, for their receivers to judge; the one that is right it believes.
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
			// In the server's name, with the right number, and after a lie about what it wants next.
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
