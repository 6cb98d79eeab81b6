// SPDX-License-Identifier: Apache-2.0

package splittest

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// An adoption through an edge counts when its socket exists, as at a host.

// obstacles are rules that adopted connections do not pass, while those that began with a SYN do.
var obstacles = []struct{ name, rules string }{
	{"connection tracking and an empty nat chain", `table inet o {
		chain nat { type nat hook postrouting priority srcnat; }
		chain in { type filter hook input priority 0; ct state established accept; }
	}`},
	{"new and not SYN", `table inet o {
		chain in { type filter hook input priority 0; tcp dport 80 tcp flags & (fin|syn|rst|ack) != syn ct state new drop; }
	}`},
	{"invalid is dropped, and a SYN accepted", `table inet o {
		chain in { type filter hook input priority 0; policy drop; meta l4proto { icmp, icmpv6 } accept; ct state invalid drop
			ct state established accept; tcp flags & (fin|syn|rst|ack) == syn accept; }
	}`},
	{"rejected with a RST", `table inet o {
		chain in { type filter hook input priority 0; tcp dport 80 tcp flags & (fin|syn|rst|ack) != syn ct state new reject with tcp reset; }
	}`},
	{"a set, late in the hook", `table inet o {
		set seen4 { type ipv4_addr . inet_service; flags dynamic; size 1024; }
		set seen6 { type ipv6_addr . inet_service; flags dynamic; size 1024; }
		chain in { type filter hook input priority 250
			tcp flags & (fin|syn|rst|ack) == syn add @seen4 { ip saddr . tcp sport }
			tcp flags & (fin|syn|rst|ack) == syn add @seen6 { ip6 saddr . tcp sport }
			tcp dport 80 ip saddr . tcp sport != @seen4 drop
			tcp dport 80 ip6 saddr . tcp sport != @seen6 drop; }
	}`},
}

// greetedEach has clients connect, n of either kind and family, none of which may be lost.
func (w *world) greetedEach(n int) {
	w.t.Helper()
	for _, ipv6 := range families() {
		for _, eager := range []bool{false, true} {
			for i := range n {
				if err := w.greeted(ipv6, 0, eager); err != nil {
					w.t.Fatalf("%s, eager %t, connection %d of %d: %v; edge %v; server %v", familyName(ipv6), eager, i, n, err,
						nonZero(w.Edge.counters()), nonZero(w.server.counters()))
				}
			}
		}
	}
}

// adoptsAgain waits until all clients are adopted: one finds out that the obstacle has gone, after a pause.
func (w *world) adoptsAgain(after string) {
	w.t.Helper()
	w.await("adoption after: "+after, func() bool {
		before := w.server.counters()["adopted"]
		w.greetedEach(1)
		return w.server.counters()["adopted"]-before == uint64(2*len(families()))
	})
}

// The daemon is dead, so that nobody reads the rules: what the packet path itself detects must suffice.
func TestAdoptionIsProven(t *testing.T) {
	const n = 4
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			w := newAuto(t)
			for _, n := range []*node{w.Edge, w.server} {
				n.config += "xdp_mode: " + mode + "\n"
			}
			w.serve(greetAndEcho)
			w.startBoth()
			w.greetedEach(n)
			each := uint64(2 * n * len(families()))
			w.server.wantCounters(map[string]uint64{"adopted": each, "adopt_unproven": 0, "split_opened": 0})
			w.server.kill()
			for _, o := range obstacles {
				before := w.server.counters()
				w.nft(o.rules)
				w.greetedEach(n)
				after := w.server.counters()
				ready, vain := after["split_ready"]-before["split_ready"], after["adopt_unproven"]-before["adopt_unproven"]
				// The first client of each family finds out, and pauses adoption for all.
				if ready != each || vain == 0 || vain == each {
					t.Fatalf("%s: %d of %d connections translated, %d adoptions in vain", o.name, ready, each, vain)
				}
				w.nft("")
				w.adoptsAgain(o.name)
			}
		})
	}
}

// A program behind the gate drops ACKs that no SYN came before, which no rule of this machine says. Within a second the listener counts as one to be
// translated for, no client is lost, and when the program has gone, connections are adopted again.
func TestAnObstacleThatNobodyCanRead(t *testing.T) {
	w := newAuto(t)
	w.serve(greetAndEcho)
	w.startBoth()
	w.greetedEach(1)
	w.server.wantCounters(map[string]uint64{"adopt_unproven": 0, "split_opened": 0})
	obstacle := w.dropWithoutSYN()
	w.greetedEach(1)
	for _, ipv6 := range families() {
		at := w.address(ipv6, port).Addr()
		w.await("translate, "+familyName(ipv6), func() bool {
			how, why := w.server.chosen(at, fmt.Sprint(port))
			return how == "translate" && why != ""
		})
	}
	before := w.server.counters()
	w.greetedEach(4)
	after := w.server.counters()
	if n, want := after["split_ready"]-before["split_ready"], uint64(8*len(families())); n != want {
		t.Errorf("%d of %d clients translated: %v", n, want, nonZero(after))
	}
	if err := obstacle.Close(); err != nil {
		t.Fatal(err)
	}
	w.adoptsAgain("the program")
	for _, ipv6 := range families() {
		at := w.address(ipv6, port).Addr()
		w.await("adopt, "+familyName(ipv6), func() bool {
			how, _ := w.server.chosen(at, fmt.Sprint(port))
			return how == "adopt"
		})
	}
}

// dropWithoutSYN attaches the program, after the gate's.
func (w *world) dropWithoutSYN() (attached link.Link) {
	t := w.place.t
	t.Helper()
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: seenKey, ValueSize: 4, MaxEntries: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { seen.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: withoutSYN(seen)})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { prog.Close() })
	err = w.place.Server.Do(func() (err error) {
		attached, err = link.AttachTCX(link.TCXOptions{Interface: w.ServerPort.Index, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: link.Tail()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { attached.Close() })
	return attached
}

const (
	seenKey = 20 // source address, port

	tcxNext, tcxDrop = -1, 2
	synFlag, ackFlag = 0x02, 0x10
)

// withoutSYN drops TCP segments with an ACK and no SYN of senders that have sent no SYN.
func withoutSYN(seen *ebpf.Map) asm.Instructions {
	const key, scratch = -24, -32
	load := func(at, to, n int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, at), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, to), asm.Mov.Imm(asm.R4, n),
			asm.FnSkbLoadBytes.Call(), asm.JNE.Imm(asm.R0, 0, "next"),
		}
	}
	family := func(protocolAt, addrAt, addrLen, tcpAt int32) (all asm.Instructions) {
		all = append(all, load(protocolAt, scratch, 1)...)
		all = append(all, asm.LoadMem(asm.R0, asm.RFP, scratch, asm.Byte), asm.JNE.Imm(asm.R0, 6, "next"))
		all = append(all, load(addrAt, key, addrLen)...)
		all = append(all, load(tcpAt, key+16, 2)...)
		return append(all, load(tcpAt+13, scratch, 1)...)
	}
	ins := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R0, 0)}
	for at := int16(scratch); at < 0; at += 8 {
		ins = append(ins, asm.StoreMem(asm.RFP, at, asm.R0, asm.DWord))
	}
	ins = append(ins, asm.LoadMem(asm.R7, asm.R6, 16, asm.Word), // protocol, in network byte order
		asm.JEq.Imm(asm.R7, 0x0008, "four"), asm.JNE.Imm(asm.R7, 0xdd86, "next"))
	ins = append(ins, family(20, 22, 16, 54)...)
	ins = append(ins, asm.Ja.Label("flags"))
	four := family(23, 26, 4, 34)
	four[0] = four[0].WithSymbol("four")
	ins = append(ins, four...)
	return append(ins,
		asm.LoadMem(asm.R7, asm.RFP, scratch, asm.Byte).WithSymbol("flags"),
		asm.LoadMapPtr(asm.R1, seen.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key),
		asm.Mov.Reg(asm.R8, asm.R7), asm.And.Imm(asm.R8, synFlag), asm.JEq.Imm(asm.R8, 0, "known"),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, scratch), asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, tcxNext), asm.Return(),
		asm.And.Imm(asm.R7, ackFlag).WithSymbol("known"), asm.JEq.Imm(asm.R7, 0, "next"),
		asm.FnMapLookupElem.Call(), asm.JNE.Imm(asm.R0, 0, "next"),
		asm.Mov.Imm(asm.R0, tcxDrop), asm.Return(),
		asm.Mov.Imm(asm.R0, tcxNext).WithSymbol("next"), asm.Return())
}
