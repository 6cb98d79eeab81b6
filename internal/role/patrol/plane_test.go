// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"fmt"
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

func filter(src, dst string, action ifp.Action, direction ifp.Direction) *ifp.Filter {
	return &ifp.Filter{Src: netip.MustParsePrefix(src), Dst: netip.MustParsePrefix(dst), Action: action, Direction: direction}
}

func (r *rig) install(f *ifp.Filter) {
	r.t.Helper()
	if code := r.patrol.table.Install(f, nowS()); code != ifp.OK {
		r.t.Fatalf("%v: %v", f, code)
	}
}

func TestFilters(t *testing.T) {
	r := newRig(t, 1000)
	r.port(0, 0)
	if err := r.patrol.SetSources(prefixes("0.0.0.0/0", "::/0")); err != nil {
		t.Fatal(err)
	}
	pass := func(name, src, dst string) {
		t.Helper()
		in := packet(src, dst, testCodepoint<<2)
		r.expect(name, in, xdpPass, in, "")
	}
	blocked := func(name, src, dst string) {
		t.Helper()
		r.expect(name, packet(src, dst, testCodepoint<<2), xdpDrop, nil, "filter_blocked")
	}
	pass("no filter yet", "192.0.2.1", "198.18.0.1")
	r.install(filter("192.0.2.1/32", "198.18.0.1/32", ifp.Block, ifp.FromCustomer))
	blocked("pair", "192.0.2.1", "198.18.0.1")
	pass("another source", "192.0.2.2", "198.18.0.1")
	pass("another destination", "192.0.2.1", "198.18.0.2")
	pass("the other way", "198.18.0.1", "192.0.2.1")
	r.install(filter("2001:db8::1/128", "2001:db8:9::1/128", ifp.Block, ifp.FromCustomer))
	blocked("pair, v6", "2001:db8::1", "2001:db8:9::1")
	pass("another source, v6", "2001:db8::2", "2001:db8:9::1")
	r.install(filter("10.1.0.0/16", "198.18.7.0/24", ifp.Block, ifp.FromCustomer))
	blocked("prefixes", "10.1.200.3", "198.18.7.255")
	pass("beside the prefix", "10.2.0.3", "198.18.7.255")
	r.install(filter("0.0.0.0/0", "198.18.9.9/32", ifp.Block, ifp.FromCustomer))
	blocked("destination only", "172.16.5.5", "198.18.9.9")

	// A filter of one direction has no effect in the other.
	r.port(1, 0)
	pass("pair, to customers", "192.0.2.1", "198.18.0.1")
	// Conditional: only what has no codepoint.
	r.install(filter("203.0.113.1/32", "192.0.2.53/32", ifp.BlockTS0, ifp.ToCustomer))
	pass("conditional, true source", "203.0.113.1", "192.0.2.53")
	r.expect("conditional, TS=0", packet("203.0.113.1", "192.0.2.53", 0), xdpDrop, nil, "filter_blocked_ts0")
	r.port(0, 0)
	// Clear TS: passes, unmarked; and a block of a wider shape still blocks.
	r.install(filter("192.0.2.53/32", "203.0.113.1/32", ifp.ClearTS, ifp.FromCustomer))
	in := packet("192.0.2.53", "203.0.113.1", testCodepoint<<2|2)
	r.expect("clear TS", in, xdpPass, marked(in, 0), "filter_cleared")
	r.install(filter("192.0.2.53/32", "203.0.113.0/24", ifp.Block, ifp.FromCustomer))
	blocked("block beside clear", "192.0.2.53", "203.0.113.1")
	if code := r.patrol.table.Remove(ifp.Key{Src: netip.MustParsePrefix("192.0.2.53/32"), Dst: netip.MustParsePrefix("203.0.113.0/24")}); code != ifp.OK {
		t.Fatal(code)
	}
	r.expect("clear TS again", in, xdpPass, marked(in, 0), "filter_cleared")

	// Exceptions win over every filter.
	k := ifp.Key{Src: netip.MustParsePrefix("10.1.5.0/24"), Dst: netip.MustParsePrefix("0.0.0.0/0")}
	if err := r.patrol.table.Except(k); err != nil {
		t.Fatal(err)
	}
	in = packet("10.1.5.6", "198.18.7.1", testCodepoint<<2)
	r.expect("exception", in, xdpPass, in, "filter_allowed")
	blocked("beside the exception", "10.1.6.6", "198.18.7.1")
	r.patrol.table.DropExceptions()
	blocked("exception gone", "10.1.5.6", "198.18.7.1")

	// Counters per filter.
	st := r.patrol.table.Stat(ifp.Key{Src: netip.MustParsePrefix("192.0.2.1/32"), Dst: netip.MustParsePrefix("198.18.0.1/32")}, nowS())
	if st.Code != ifp.OK || st.Packets != 1 || st.Bytes != 60 {
		t.Errorf("counter of a filter: %+v, want 1 packet of 60 bytes", st)
	}
}

func TestExpiry(t *testing.T) {
	r := newRig(t, 1000)
	r.port(0, 0)
	if err := r.patrol.SetSources(prefixes("0.0.0.0/0")); err != nil {
		t.Fatal(err)
	}
	in := packet("192.0.2.1", "198.18.0.1", testCodepoint<<2)
	f := filter("192.0.2.1/32", "198.18.0.1/32", ifp.Block, ifp.FromCustomer)
	f.ExpiresS = 10
	install := func(ago uint32) {
		if code := r.patrol.table.Install(f, nowS()-ago); code != ifp.OK {
			t.Fatal(code)
		}
	}
	install(5)
	r.expect("before its time is over", in, xdpDrop, nil, "filter_blocked")
	install(11)
	r.expect("after", in, xdpPass, in, "")
	if n := r.patrol.table.Sweep(nowS()); n != 1 || r.patrol.table.Len() != 0 {
		t.Errorf("swept %d, %d left", n, r.patrol.table.Len())
	}
	// By rate: 2^(6-1) = 32 packets/s over 2 s.
	f.ExpiresS, f.FloorLog2, f.WindowS = 0, 6, 2
	if ifp.FloorOf(32) != 6 || ifp.FloorOf(63) != 6 || ifp.FloorOf(64) != 7 || ifp.FloorOf(0) != 0 {
		t.Errorf("floors %d %d %d", ifp.FloorOf(32), ifp.FloorOf(63), ifp.FloorOf(64))
	}
	install(0)
	for range 200 {
		if v, _ := r.run(in); v != xdpDrop {
			t.Fatal("a filter in its first window does not filter")
		}
	}
	install(3) // 3 s ago, and since then it met nothing
	r.expect("below its floor", in, xdpPass, in, "")
	if n := r.patrol.table.Sweep(nowS()); n != 1 {
		t.Errorf("swept %d", n)
	}
}

// Thousands of filters of every kind against a plain map: same answers, through
// full buckets, removals and new filters in their places.
func TestFiltersAgainstModel(t *testing.T) {
	r := newRig(t, 1000)
	r.port(0, 0)
	if err := r.patrol.SetSources(prefixes("0.0.0.0/0", "::/0")); err != nil {
		t.Fatal(err)
	}
	random := mrand.New(mrand.NewPCG(1, 2))
	model := map[ifp.Key]bool{}
	var list []ifp.Key
	pick := func() ifp.Key {
		src := netip.AddrFrom4([4]byte{10, 0, byte(random.Uint32() & 15), byte(random.Uint32())})
		dst := netip.AddrFrom4([4]byte{198, 18, 0, byte(random.Uint32() & 31)})
		bitsSrc := []int{32, 32, 32, 28, 0}[random.IntN(5)]
		return ifp.Key{Src: netip.PrefixFrom(src, bitsSrc).Masked(), Dst: netip.PrefixFrom(dst, 32)}
	}
	spilled, full := 0, 0
	for round := range 6000 {
		k := pick()
		if round%3 == 2 && len(list) > 0 {
			k = list[random.IntN(len(list))]
			if code := r.patrol.table.Remove(k); (code == ifp.OK) != model[k] {
				t.Fatalf("remove %v: %v, in the model %v", k, code, model[k])
			}
			delete(model, k)
			continue
		}
		if k.Src.Bits() == 0 && random.IntN(50) != 0 {
			continue
		}
		code := r.patrol.table.Install(&ifp.Filter{Src: k.Src, Dst: k.Dst, Action: ifp.Block}, nowS())
		if code == ifp.TableFull { // slots rest after a removal
			full++
			continue
		}
		if code != ifp.OK {
			t.Fatal(code)
		}
		model[k] = true
		list = append(list, k)
	}
	if r.patrol.table.Len() != len(model) {
		t.Fatalf("%d filters, model has %d", r.patrol.table.Len(), len(model))
	}
	for b := range r.patrol.table.tags {
		spilled += int(r.patrol.table.tags[b].Spilled)
	}
	blocked := 0
	for range 3000 {
		k := pick()
		src, dst := k.Src.Addr(), k.Dst.Addr()
		want := false
		for _, n := range []int{32, 28, 0} {
			want = want || model[ifp.Key{Src: netip.PrefixFrom(src, n).Masked(), Dst: netip.PrefixFrom(dst, 32)}]
		}
		v, _ := r.run(packet(src.String(), dst.String(), testCodepoint<<2))
		if (v == xdpDrop) != want {
			t.Fatalf("%v -> %v: verdict %d, want blocked %v", src, dst, v, want)
		}
		if want {
			blocked++
		}
	}
	t.Logf("%d filters, %d not in their first bucket, %d refused, %d of 3000 packets blocked", len(model), spilled, full, blocked)
	if blocked < 30 || blocked > 2900 || spilled == 0 { // how many slots rest depends on how fast this runs
		t.Error("the mix does not test it")
	}
	n := 0
	r.patrol.table.Each(nowS(), func(f ifp.Filter, _ ifp.Stat) bool {
		if !model[f.Key()] {
			t.Errorf("%v is not in the model", &f)
		}
		n++
		return true
	})
	if n != len(model) {
		t.Errorf("Each visited %d of %d", n, len(model))
	}
}

// Packets find filters of every shape, also of those that came and went.
func TestShapesOnThePacketPath(t *testing.T) {
	r := newRig(t, 1000)
	r.port(0, 0)
	if err := r.patrol.SetSources(prefixes("0.0.0.0/0")); err != nil {
		t.Fatal(err)
	}
	blocked := func(name string, want bool, src string) {
		t.Helper()
		in := packet(src, "198.18.0.1", testCodepoint<<2)
		if want {
			r.expect(name, in, xdpDrop, nil, "filter_blocked")
		} else {
			r.expect(name, in, xdpPass, in, "")
		}
	}
	greedy, modest := ifp.Grant{Rights: ifp.ByDestination, Owner: 7}, ifp.Grant{Rights: ifp.ByDestination, Owner: 8}
	install := func(src string, g ifp.Grant) ifp.Code {
		var code [1]ifp.Code
		r.patrol.table.InstallGranted([]ifp.Filter{*filter(src, "198.18.0.1/32", ifp.Block, ifp.FromCustomer)}, []ifp.Grant{g}, code[:], nowS())
		return code[0]
	}
	for i := range shapesMax - openPlaces[ifp.FromCustomer] {
		if code := install(netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("10.%d.0.0", i)), 16+i).String(), greedy); code != ifp.OK {
			t.Fatal(i, code)
		}
	}
	blocked("the greedy one's first", true, "10.0.1.1")
	blocked("his last", true, "10.4.1.1")
	if code := install("10.9.0.0/17", greedy); code != ifp.OverShare { // 17 is his already, so it is not this
		if code != ifp.OK {
			t.Errorf("one more of a shape that he has: %v", code)
		}
	}
	if code := install("10.128.0.0/9", greedy); code != ifp.OverShare {
		t.Errorf("a sixth place for one: %v", code)
	}
	if code := install("10.64.0.0/10", modest); code != ifp.OK {
		t.Errorf("a newcomer's first: %v", code)
	}
	blocked("the newcomer's", true, "10.65.0.1")
	blocked("what was given up for it", false, "10.4.1.1")
	blocked("the greedy one's first, still", true, "10.0.1.1")
	for _, open := range []string{"11.1.1.1/32", "12.1.1.0/24", "0.0.0.0/0"} {
		if code := install(open, modest); code != ifp.OK {
			t.Errorf("%s: %v", open, code)
		}
	}
	blocked("open to all", true, "99.1.1.1")
	// A process that comes after this one knows whose is what.
	again, err := NewFilters(r.plane, testCodepoint, 0)
	if err != nil {
		t.Fatal(err)
	}
	k := filter("10.64.0.0/10", "198.18.0.1/32", ifp.Block, ifp.FromCustomer).Key()
	if code := again.table.RemoveGranted(k, greedy); code != ifp.NotFound {
		t.Errorf("the greedy one removes another's filter: %v", code)
	}
	if code := again.table.RemoveGranted(k, modest); code != ifp.OK {
		t.Errorf("its owner: %v", code)
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
		if code := again.table.Remove(want[i].Key()); code != ifp.OK {
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
