// SPDX-License-Identifier: Apache-2.0

package proxytest

import (
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Offsets in struct __sk_buff (include/uapi/linux/bpf.h), and 802.1Q as on the wire.
const (
	skbProtocol, skbVLANPresent = 16, 20
	vlanEthertype               = 0x0081
)

// vlanEnd makes a port carry VLAN tag id, as a VLAN device on it would: this
// kernel has none. Incoming frames are untagged at TC ingress, after the box's own program;
// outgoing ones without a tag are tagged at TC egress, in the frame itself.
func (w *world) vlanEnd(p *rig.Port, id uint16) {
	w.t.Helper()
	pop := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, skbVLANPresent, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "out"),
		asm.FnSkbVlanPop.Call(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"), // TCX_NEXT
		asm.Return(),
	}
	push := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, skbVLANPresent, asm.Word),
		asm.JNE.Imm(asm.R2, 0, "out"),
		asm.LoadMem(asm.R2, asm.R1, skbProtocol, asm.Word),
		asm.JEq.Imm(asm.R2, vlanEthertype, "out"),
		asm.Mov.Imm(asm.R2, vlanEthertype),
		asm.Mov.Imm(asm.R3, int32(id)),
		asm.FnSkbVlanPush.Call(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"),
		asm.Return(),
	}
	for attach, code := range map[ebpf.AttachType]asm.Instructions{ebpf.AttachTCXIngress: pop, ebpf.AttachTCXEgress: push} {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: code, License: "Apache-2.0"})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { prog.Close() })
		err = p.NS.Do(func() error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: p.Index, Program: prog, Attach: attach, Anchor: link.Tail()})
			if err == nil {
				w.t.Cleanup(func() { l.Close() })
			}
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := p.DisableTxVLAN(); err != nil {
		w.t.Fatal(err)
	}
}

// Whole connections of real clients and a real server through a router whose cables on
// both sides are VLANs: SYNs are answered and segments translated in tagged frames, and
// the kernel routes them between its VLAN devices.
func TestRouterVLANConnections(t *testing.T) {
	for name, strategy := range map[string]string{"cookie": "cookie", "cache": "cache",
		"notify": "cookie\n    first_data: notify", "deferred": deferring("cookie")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			w.serve(func(c *net.TCPConn) { serveBulk(c, 1<<20) })
			w.start(w.config(strategy))
			const outer, inner = 42, 43
			seen := map[uint16]*wire{outer: w.wire(w.Client, w.ClientPort, w.LegitPort), inner: w.wire(w.Server, w.ServerPort, w.InnerPort)}
			w.vlanEnd(w.ClientPort, outer)
			w.vlanEnd(w.LegitPort, outer)
			w.vlanEnd(w.InnerPort, inner)
			w.vlanEnd(w.ServerPort, inner)
			n := uint64(0)
			for _, ipv6 := range families() {
				for range 3 { // the first connects to an unknown server
					c, err := w.dial(ipv6)
					if err != nil {
						t.Fatalf("%s: %v", familyName(ipv6), err)
					}
					if err := transferOver(c, 1<<20); err != nil {
						t.Errorf("%s: %v", familyName(ipv6), err)
					}
					n++
				}
			}
			w.wantCounters(map[string]uint64{"flow_opened": n, "flow_ready": n, "cookie_invalid": 0, "cache_invalid": 0})
			// Frames on both cables had the tag of their side, and no other.
			for id, x := range seen {
				tagged := 0
				for _, s := range x.sofar() {
					if len(s.vlans) != 1 || s.vlans[0] != id {
						t.Fatalf("a segment with the tags %v came by the cable of VLAN %d: %+v", s.vlans, id, s)
					}
					tagged++
				}
				if tagged < 10 {
					t.Errorf("only %d segments were seen on the cable of VLAN %d", tagged, id)
				}
			}
		})
	}
}

// The window update, and its duplicates that signal lost data, go to the client in its own
// VLAN, not in the server's.
func TestRouterVLANNotify(t *testing.T) {
	w, client, server := rawWorld(t, false)
	w.start(w.config("cookie\n    first_data: notify"))
	const outer, inner = 42, 43
	w.vlanEnd(w.LegitPort, outer)
	w.vlanEnd(w.InnerPort, inner)
	a := rawServer(81)
	for i, early := range []bool{false, true} {
		_, third := client.greet(uint16(6001+i), a, outer)
		client.send(third)
		s := server.want("the SYN", from(third.from, a, syn))
		if s.seq != third.seq-1 { // the first client's server is probed
			server.send(s.answer(6900, syn|ack, poor))
			s = server.want("the connection's own SYN", own(third))
		}
		if early {
			third.data = []byte("early")
			client.send(third)
			w.await("the early data are dropped", func() bool { return w.counters()["flow_early"] >= 1 })
		}
		server.send(s.answer(7000, syn|ack, poor))
		want := map[bool]int{false: 1, true: 4}[early]
		for n := range want {
			g, ok := client.next(patience/4, from(a, third.from, ack))
			if !ok {
				t.Fatalf("early data %v: %d ACKs came, want %d", early, n, want)
			}
			if len(g.vlans) != 1 || g.vlans[0] != outer {
				t.Errorf("early data %v: ACK %d has the tags %v, want %d", early, n, g.vlans, outer)
			}
		}
	}
	w.wantCounters(map[string]uint64{"flow_notified": 1, "flow_ready": 2})
}

// sofar is what has been received, as far as it was kept.
func (x *wire) sofar() (list []seg) {
	for {
		b, oob := make([]byte, 2048), make([]byte, 128)
		n, oobn, _, from, err := unix.Recvmsg(x.fd, b, oob, unix.MSG_DONTWAIT)
		if err != nil {
			return list
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if s, ok := parseSeg(b[:n], auxVLAN(oob[:oobn])); ok {
			list = append(list, s)
		}
	}
}
