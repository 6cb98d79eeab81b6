// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	mrand "math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/ifp"
)

func TestIngressFilter(t *testing.T) {
	r := newRig(t, 100)
	r.port(0, 0)
	if err := r.patrol.SetSources(prefixes("192.0.2.0/24", "198.51.100.64/26", "198.51.100.200/32",
		"203.0.112.0/22", "2001:db8:1::/48", "2001:db8:2:3::/64")); err != nil {
		t.Fatal(err)
	}
	const far4, far6 = "198.18.0.1", "2001:db8:ffff::1"
	for _, src := range []string{"192.0.2.0", "192.0.2.255", "198.51.100.64", "198.51.100.127", "198.51.100.200",
		"203.0.112.0", "203.0.115.255", "2001:db8:1:2:3:4:5:6", "2001:db8:2:3::9"} {
		far := far4
		if netip.MustParseAddr(src).Is6() {
			far = far6
		}
		for _, tags := range [][]uint16{nil, {7}, {8, 9}} {
			for _, tclass := range []uint8{0, 3, 0xb9} { // ECN and a DSCP of the customer's own
				in := packet(src, far, tclass, tags...)
				r.expect("allowed "+src, in, xdpPass, marked(in, testCodepoint), "ts_set")
			}
		}
		in := packet(src, far, testCodepoint<<2)
		r.expect("already marked "+src, in, xdpPass, in, "")
	}
	for _, src := range []string{"192.0.3.0", "192.0.1.255", "198.51.100.63", "198.51.100.128", "198.51.100.201",
		"203.0.116.0", "0.0.0.0", "255.255.255.255", "2001:db8:2::1", "2001:db8:2:4::1", "fc00::1", "::"} {
		far := far4
		if netip.MustParseAddr(src).Is6() {
			far = far6
		}
		r.expect("not allowed "+src, packet(src, far, testCodepoint<<2), xdpDrop, nil, "drop_spoofed")
	}
	// Link-local traffic passes untouched.
	for _, pair := range [][2]string{{"0.0.0.0", "255.255.255.255"}, {"fe80::1", "fe80::2"}, {"fe80::1", "ff05::1:3"}, {"2001:db8:1::1", "fe80::2"}, {"::", "ff02::1:ff00:1"}} {
		in := packet(pair[0], pair[1], 0)
		r.expect("link scope "+pair[0], in, xdpPass, in, "patrol_link")
	}
	arp := append(make([]byte, 12), 0x08, 0x06)
	arp = append(arp, make([]byte, 46)...)
	r.expect("ARP", arp, xdpPass, arp, "patrol_link")
	cut := packet("192.0.2.1", far4, 0)[:30]
	r.expect("cut", cut, xdpDrop, nil, "drop_broken_ip")
	r.expect("three tags", packet("192.0.2.1", far4, 0, 1, 2, 3), xdpDrop, nil, "drop_broken_ip")
	// A reload that shrinks the list takes effect as a whole.
	if err := r.patrol.SetSources(prefixes("198.51.100.64/26")); err != nil {
		t.Fatal(err)
	}
	r.expect("no longer allowed", packet("192.0.2.1", far4, 0), xdpDrop, nil, "drop_spoofed")
	r.expect("no longer allowed, v6", packet("2001:db8:1::1", far6, 0), xdpDrop, nil, "drop_spoofed")
	in := packet("198.51.100.65", far4, 0)
	r.expect("still allowed", in, xdpPass, marked(in, testCodepoint), "ts_set")
}

// Scattered and overlapping prefixes of every length, looked up at and beside their ends and at
// random: the program allows what a plain search of the list allows. Nothing of an earlier list is left.
func TestManySources(t *testing.T) {
	r := newRig(t, 100)
	r.port(0, 0)
	random := mrand.New(mrand.NewPCG(20, 152))
	addr := func(v uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
	}
	number := func(a netip.Addr) uint32 { b := a.As4(); return binary.BigEndian.Uint32(b[:]) }
	for round := range 4 {
		var list []netip.Prefix
		var ask []uint32
		base := random.Uint32()
		for i := range 600 {
			at := random.Uint32()
			if i%2 == 1 { // crowded into a /16: prefixes meet and overlap
				at = base&0xffff0000 | at&0xffff
			}
			p := netip.PrefixFrom(addr(at), 12+random.IntN(21)).Masked()
			if i%2 == 1 && p.Bits() < 18 {
				continue // would cover the crowd
			}
			first := number(p.Addr())
			last := first | uint32(1<<(32-p.Bits())-1)
			list, ask = append(list, p), append(ask, first-1, first, last, last+1, at^1<<random.IntN(16), random.Uint32())
		}
		if err := r.patrol.SetSources(list); err != nil {
			t.Fatal(err)
		}
		allowed := 0
		for _, v := range ask {
			src := addr(v)
			in := packet(src.String(), "198.18.0.1", testCodepoint<<2)
			want := slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(src) })
			if verdict, _ := r.run(in); verdict == xdpPass != want {
				t.Fatalf("round %d, %v: verdict %d, want it allowed: %v", round, src, verdict, want)
			}
			if want {
				allowed++
			}
		}
		if allowed < len(ask)/4 || allowed > len(ask)*3/4 {
			t.Errorf("%d of %d addresses are allowed: too few of one kind to prove anything", allowed, len(ask))
		}
	}
}

// However many prefixes: no more words than a generation has, and few for few.
func TestSourcesBounded(t *testing.T) {
	every := make([]netip.Prefix, 0, 1<<18)
	for i := range uint32(1) << 18 { // the worst: one /24 in each /18
		v := i << 14
		every = append(every, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), 0}), 24))
	}
	for _, c := range []struct {
		name string
		list []netip.Prefix
		want int
	}{
		{"none", nil, sourceRoots},
		{"everything", prefixes("0.0.0.0/0"), sourceRoots},
		{"a /18 and a /24 of another", prefixes("10.0.0.0/18", "10.0.64.0/24"), sourceRoots + 1},
		{"halves of a /18", prefixes("10.0.0.0/19", "10.0.32.0/19"), sourceRoots},
		{"one in each /18", every, sourceWords},
	} {
		if got := len(buildSources(c.list).words); got != c.want {
			t.Errorf("%s: %d words, want %d", c.name, got, c.want)
		}
	}
}

// A link-local address does not identify the sender of traffic that goes beyond its link: no router
// forwards it, and it must not be a way around sources and filters. Only neighbour
// discovery (RFC 4861), which has never left its link, may use it.
func TestLinkLocalSources(t *testing.T) {
	r := newRig(t, 100)
	if err := r.patrol.SetSources(prefixes("2001:db8:1::/48")); err != nil {
		t.Fatal(err)
	}
	for _, port := range []struct {
		name            string
		direction, mark uint8
	}{{"customers", 0, 0}, {"upstream", 1, 0}, {"legacy", 1, 1}, {"true", 1, 2}} {
		r.port(port.direction, port.mark)
		for _, src := range []string{"fe80::1", "febf:ffff::1"} {
			for _, dst := range []string{"2001:db8:9::1", "fc00::1", "fec0::1", "::1"} {
				for _, tags := range [][]uint16{nil, {7}, {8, 9}} {
					r.expect(port.name+" "+src+" to "+dst, packet(src, dst, testCodepoint<<2, tags...), xdpDrop, nil, "drop_link_local")
				}
				for kind := 130; kind < 140; kind++ {
					for _, hops := range []byte{255, 254, 64} {
						in := packet(src, dst, 0)
						in[14+6], in[14+7], in[14+40] = 58, hops, byte(kind)
						if kind >= 133 && kind <= 137 && hops == 255 {
							r.expect("discovery", in, xdpPass, in, "patrol_link")
						} else {
							r.expect("not discovery", in, xdpDrop, nil, "drop_link_local")
						}
					}
				}
				cut := packet(src, dst, 0)[:14+40]
				cut[14+6], cut[14+7] = 58, 255
				r.expect("cut before its type", cut, xdpDrop, nil, "drop_link_local")
			}
			in := packet(src, "fe80::9", 0)
			r.expect(port.name+" on the link", in, xdpPass, in, "patrol_link")
		}
	}
}

// Every residue of the IPv4 checksum comes out right when the codepoint is set.
func TestMarkChecksumEveryResidue(t *testing.T) {
	r := newRig(t, 100)
	r.port(0, 0)
	if err := r.patrol.SetSources(prefixes("0.0.0.0/0")); err != nil {
		t.Fatal(err)
	}
	step := 1
	if testing.Short() {
		step = 97
	}
	in := packet("192.0.2.1", "198.18.0.1", 0)
	for id := 0; id < 1<<16; id += step {
		binary.BigEndian.PutUint16(in[14+4:], uint16(id))
		in[24], in[25] = 0, 0
		binary.BigEndian.PutUint16(in[24:], checksum(in[14:34]))
		v, got := r.run(in)
		if want := marked(in, testCodepoint); v != xdpPass || string(got) != string(want) {
			t.Fatalf("id %d: verdict %d\n got %x\nwant %x", id, v, got, want)
		}
	}
}

func TestNeighbourMarks(t *testing.T) {
	r := newRig(t, 100)
	for _, src := range []string{"192.0.2.1", "2001:db8::1"} {
		dst := "198.18.0.1"
		if netip.MustParseAddr(src).Is6() {
			dst = "2001:db8:5::1"
		}
		set, clear := packet(src, dst, testCodepoint<<2|1), packet(src, dst, 1)
		r.port(1, 0)
		r.expect("terminus, set", set, xdpPass, set, "")
		r.expect("terminus, clear", clear, xdpPass, clear, "")
		r.port(1, 1)
		r.expect("legacy, set", set, xdpPass, marked(set, 0), "ts_cleared")
		r.expect("legacy, clear", clear, xdpPass, clear, "")
		r.port(1, 2)
		r.expect("true, clear", clear, xdpPass, marked(clear, testCodepoint), "ts_set")
	}
}

// A second process over the same memory knows what the first has installed.
func TestTakeOver(t *testing.T) {
	r := newRig(t, 1000)
	var want []ifp.Filter
	for i := range 300 {
		src := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		f := ifp.Filter{Src: src, Dst: netip.MustParsePrefix("198.18.0.0/24"), Action: ifp.Block}
		want = append(want, f)
		r.install(&f)
	}
	again, err := NewFilters(r.plane, testCodepoint, 0)
	if err != nil {
		t.Fatal(err)
	}
	if again.table.keys != r.patrol.table.keys {
		t.Fatal("other keys than those the filters stand by")
	}
	if again.table.Len() != len(want) {
		t.Fatalf("%d filters, want %d", again.table.Len(), len(want))
	}
	for i := range want {
		if code := again.table.removeOne(want[i].Key(), nobodys); code != ifp.OK {
			t.Fatalf("%v: %v", &want[i], code)
		}
	}
	if again.table.Len() != 0 {
		t.Error("filters are left")
	}
}

// Keys must differ between instances, or one could be learnt from another.
func TestKeysAreRandom(t *testing.T) {
	if first, second := randomKeys(), randomKeys(); first == second {
		t.Error("keys repeat")
	}
}
