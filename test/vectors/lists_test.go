// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	rawload "tidegate/internal/lab/load"
	"tidegate/internal/plane"
	"tidegate/internal/sourcelist"
)

// sourceGate is the host's XDP program with a service for any destination, which has lists.
type sourceGate struct {
	t        testing.TB
	p        *plane.Plane
	xdp      *ebpf.Program
	settings plane.Settings
}

func newSourceGate(t testing.TB) *sourceGate {
	t.Helper()
	k := newKernelGate(t)
	g := &sourceGate{t: t, p: k.p, xdp: k.xdp, settings: plane.Settings{EpochLenNs: uint64(time.Second)}} // at none of whose epochs since boot an empty slot is a key: that would be of epoch 0
	all := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	err := g.p.SetServices([]plane.Target{{ID: 1, Prefixes: all, Ports: [][2]uint16{{80, 80}}, Service: plane.Service{MssV4: 1460, MssV6: 1440, Wscale: 7,
		Sack: 1, Timestamps: 1, Window: 64240, Mode: plane.ModeAlways, ListenerV4: plane.ListenerOK, ListenerV6: plane.ListenerOK}}}, &g.settings)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *sourceGate) use(entries []sourcelist.Entry) (*sourcelist.Table, time.Duration) {
	g.t.Helper()
	began := time.Now()
	table, err := sourcelist.Build(entries)
	if err != nil {
		g.t.Fatal(err)
	}
	list, err := plane.NewList(table)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.p.SetList(list); err != nil {
		g.t.Fatal(err)
	}
	g.settings.Lists = 1
	if err := g.p.SetSettings(&g.settings); err != nil {
		g.t.Fatal(err)
	}
	return table, time.Since(began)
}

// denied plays a SYN from the address: it is dropped if its source is denied. Without a key no other SYN is dropped.
func (g *sourceGate) denied(src netip.Addr, options []byte) bool {
	g.t.Helper()
	ret, _, err := g.xdp.Test(g.frame(src, options))
	if err != nil {
		g.t.Fatal(err)
	}
	switch ret {
	case 1:
		return true
	case 2:
		return false
	}
	g.t.Fatalf("%s: verdict %d, want drop or (for want of a key) pass", src, ret)
	return false
}

func (g *sourceGate) frame(src netip.Addr, options []byte) []byte {
	dst := netip.MustParseAddr("198.18.0.1")
	if src.Is6() {
		dst = netip.MustParseAddr("2001:db8:ffff::1")
	}
	f := rawload.Frame{To: net.HardwareAddr{2, 0, 0, 0, 0, 1}, From: net.HardwareAddr{2, 0, 0, 0, 0, 2}, Src: netip.AddrPortFrom(src, 4000),
		Dst: netip.AddrPortFrom(dst, 80), Flags: rawload.FlagSYN, Seq: 1, Window: 64240, Options: options}
	return f.Bytes()
}

// The options of a SYN that the fast path takes, with and without timestamps, and of one that it leaves to the slow path.
var listOptions = [][]byte{
	{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7},
	{2, 4, 5, 180, 1, 3, 3, 7, 1, 1, 4, 2},
	{2, 4, 5, 180},
}

// The packet path finds the entry that internal/sourcelist finds, which a test of its own compares with the plain rule.
func TestListsInThePacketPath(t *testing.T) {
	needRoot(t)
	g := newSourceGate(t)
	asked, deniedOnes := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 11))
		var entries []sourcelist.Entry
		var near []netip.Addr
		for range 1 + r.IntN(1<<r.IntN(10)) {
			p := somePrefix(r)
			entries = append(entries, sourcelist.NewEntry(p, sourcelist.Verdict(1+r.IntN(2))))
			near = append(near, p.Addr(), p.Addr().Next(), p.Addr().Prev(), lastOf(p), lastOf(p).Next())
		}
		table, _ := g.use(entries)
		for i := range 200 {
			a := near[r.IntN(len(near))]
			if i%4 == 0 || !a.IsValid() || a.Is4() && a.As4()[0] == 0 {
				a = somePrefix(r).Addr()
			}
			want := false
			if e := table.Find(a); e != nil {
				want = e.Verdict == sourcelist.Deny
			}
			if got := g.denied(a, listOptions[i%len(listOptions)]); got != want {
				t.Fatalf("seed %d: %s: denied %v, want %v", seed, a, got, want)
			}
			asked++
			if want {
				deniedOnes++
			}
		}
	}
	if deniedOnes < asked/10 || deniedOnes > asked*9/10 {
		t.Errorf("%d of %d SYNs were denied: the mix does not test it", deniedOnes, asked)
	}
	if err := g.p.SetList(nil); err != nil {
		t.Fatal(err)
	}
	if g.denied(netip.MustParseAddr("192.0.2.1"), listOptions[0]) {
		t.Error("denied without a list")
	}
}

// A million entries are made and put into force at once. The time is printed; docs/lists.md has what it was.
func TestListOfAMillion(t *testing.T) {
	needRoot(t)
	g := newSourceGate(t)
	r := rand.New(rand.NewPCG(1, 1))
	entries := make([]sourcelist.Entry, 0, 1_000_000)
	for range cap(entries) {
		p := somePrefix(r)
		for p.Bits() < 20 { // short ones would contain all others
			p = somePrefix(r)
		}
		entries = append(entries, sourcelist.NewEntry(p, sourcelist.Deny))
	}
	sample := []sourcelist.Entry{entries[0], entries[999_999], entries[500_000]}
	table, took := g.use(entries)
	t.Logf("%d entries in force after %v, %d MiB", len(table.Entries()), took.Round(time.Millisecond), table.Blocks()*sourcelist.BlockBytes>>20)
	for _, e := range sample {
		if !g.denied(e.Prefix().Addr(), listOptions[0]) {
			t.Errorf("%s is not denied", e.Prefix())
		}
	}
}

func somePrefix(r *rand.Rand) netip.Prefix {
	if r.IntN(3) == 0 {
		raw := [16]byte{0x20, 1, 0xd, 0xb8}
		for i := 4; i < 16; i++ {
			raw[i] = byte(r.Uint32())
			if r.IntN(2) == 0 {
				raw[i] = byte(r.IntN(2)) // many share words
			}
		}
		return netip.PrefixFrom(netip.AddrFrom16(raw), 32+r.IntN(97)).Masked()
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + r.IntN(9)), byte(r.Uint32()), byte(r.Uint32()), byte(1 + r.IntN(250))}), 8+r.IntN(25)).Masked()
}

func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(raw)
	return a
}

// BenchmarkLists measures what a list of a million costs a SYN: by sources of which the list's filter knows nothing, as those of
// a flood, and by sources that it contains. `go test ./test/vectors -run '^$' -bench Lists`.
func BenchmarkLists(b *testing.B) {
	if unix.Geteuid() != 0 {
		b.Skip("needs root")
	}
	g := newSourceGate(b)
	r := rand.New(rand.NewPCG(1, 1))
	entries := make([]sourcelist.Entry, 0, 1_000_000)
	for range cap(entries) {
		entries = append(entries, sourcelist.NewEntry(netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + r.IntN(99)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}), 32), sourcelist.Allow))
	}
	inside := make([]netip.Addr, 256)
	outside := make([]netip.Addr, 256)
	for i := range inside {
		inside[i] = entries[i].Prefix().Addr()
		outside[i] = netip.AddrFrom4([4]byte{byte(100 + r.IntN(20)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
	}
	run := func(b *testing.B, of []netip.Addr) {
		var total time.Duration
		for n := range b.N {
			_, each, err := g.xdp.Benchmark(g.frame(of[n%len(of)], listOptions[0]), 1000, nil)
			if err != nil {
				b.Fatal(err)
			}
			total += each
		}
		b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns/SYN")
	}
	for _, line := range []struct {
		name    string
		entries uint32
	}{{"a look-up in an array that one cache line holds", 1}, {"a look-up of a random cache line among 32 MiB", 32 << 20 / sourcelist.BlockBytes}} {
		prog := readsOneLine(b, line.entries)
		b.Run(line.name, func(b *testing.B) {
			_, each, err := prog.Benchmark(make([]byte, 64), max(b.N, 1000), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(each.Nanoseconds()), "ns/frame")
		})
	}
	b.Run("without", func(b *testing.B) { run(b, outside) })
	g.use(entries)
	b.Run("outside", func(b *testing.B) { run(b, outside) })
	b.Run("inside", func(b *testing.B) { run(b, inside) })
}

// readsOneLine is a program that reads one block of an array at random, and does nothing else: what memory alone costs a packet.
func readsOneLine(b *testing.B, entries uint32) *ebpf.Program {
	b.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: sourcelist.BlockBytes, MaxEntries: entries, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, int32(entries-1)),
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
		asm.And.Imm(asm.R1, 1),
		asm.Add.Imm(asm.R1, 1),
		asm.Mov.Reg(asm.R0, asm.R1),
		asm.Return().WithSymbol("end"),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { prog.Close() })
	return prog
}
