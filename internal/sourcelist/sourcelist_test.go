// SPDX-License-Identifier: Apache-2.0

package sourcelist

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// naive is what docs/lists.md says, and nothing else: the longest prefix decides, of equal ones that which denies.
func naive(entries []Entry, a netip.Addr) Verdict {
	best, verdict := -1, None
	for i := range entries {
		p := entries[i].Prefix()
		if p.Contains(a) && (p.Bits() > best || p.Bits() == best && entries[i].Verdict == Deny) {
			best, verdict = p.Bits(), entries[i].Verdict
		}
	}
	return verdict
}

// randomList has prefixes of all lengths, many of which contain others, begin or end together, or are the same.
func randomList(rng *rand.Rand, n int, ipv6 bool) []Entry {
	var list []Entry
	for range n {
		a := randomAddr(rng, ipv6, list)
		length := rng.IntN(a.BitLen() + 1)
		if rng.IntN(3) > 0 { // as real ones: long
			length = a.BitLen() - rng.IntN(a.BitLen()/4)
		}
		p := netip.PrefixFrom(a, length).Masked()
		e := NewEntry(p, Verdict(1+rng.IntN(2)))
		list = append(list, e)
	}
	return list
}

// randomAddr is near one of the list's, mostly.
func randomAddr(rng *rand.Rand, ipv6 bool, list []Entry) netip.Addr {
	var raw [16]byte
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	if len(list) > 0 && rng.IntN(4) > 0 {
		if of := list[rng.IntN(len(list))]; of.ipv6 == ipv6 {
			near := of.Prefix().Addr().As16()
			if !ipv6 {
				four := of.Prefix().Addr().As4()
				copy(near[:], four[:])
			}
			keep := rng.IntN(129)
			for bit := range 128 {
				mask := byte(0x80 >> (bit % 8))
				switch rng.IntN(8) {
				case 0:
				default:
					if bit < keep {
						raw[bit/8] = raw[bit/8]&^mask | near[bit/8]&mask
					} else if rng.IntN(2) == 0 { // the first or last address of something
						raw[bit/8] = raw[bit/8] &^ mask
					}
				}
			}
		}
	}
	if ipv6 {
		raw[0] |= 0x20
		return netip.AddrFrom16(raw)
	}
	return netip.AddrFrom4([4]byte(raw[:4]))
}

// edges are the first and last addresses of all prefixes and those beside them.
func edges(list []Entry) (all []netip.Addr) {
	for i := range list {
		p := list[i].Prefix()
		first := p.Addr()
		raw := first.AsSlice()
		for bit := p.Bits(); bit < first.BitLen(); bit++ {
			raw[bit/8] |= 0x80 >> (bit % 8)
		}
		last, _ := netip.AddrFromSlice(raw)
		for _, a := range []netip.Addr{first, first.Prev(), last, last.Next()} {
			if a.IsValid() {
				all = append(all, a)
			}
		}
	}
	return all
}

func TestTableAgainstNaive(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := rng.IntN(60)
		if seed%20 == 0 {
			n = 2000
		}
		list := append(randomList(rng, n, false), randomList(rng, n, true)...)
		table, err := Build(append([]Entry{}, list...))
		if err != nil {
			t.Fatal(err)
		}
		ask := edges(list)
		if n > 100 {
			rng.Shuffle(len(ask), func(i, j int) { ask[i], ask[j] = ask[j], ask[i] })
			ask = ask[:1000]
		}
		for i := range 500 {
			ask = append(ask, randomAddr(rng, i%2 == 0, list))
		}
		for _, a := range ask {
			got := None
			if e := table.Find(a); e != nil {
				if got = e.Verdict; !e.Prefix().Contains(a) {
					t.Fatalf("seed %d: %s is said to be in %s", seed, a, e.Prefix())
				}
			}
			if want := naive(list, a); got != want {
				t.Fatalf("seed %d, %d entries: %s: %s, want %s", seed, n, a, got, want)
			}
		}
	}
}

// Nearly all single addresses stand in the hash, each once, in one block; who finds it full stands in the tree, which need not be asked
// about the others if there are no networks.
func TestSingles(t *testing.T) {
	for _, network := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 5))
		list := []Entry{NewEntry(netip.MustParsePrefix("0.0.0.0/32"), Deny)}
		if network {
			list = append(list, NewEntry(netip.MustParsePrefix("10.0.0.0/8"), Allow))
		}
		for i := range 20_000 { // scattered, and neighbours
			raw := [4]byte{10, byte(i >> 8), byte(i), 1}
			if i%2 == 0 {
				raw = [4]byte{byte(1 + rng.IntN(200)), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}
			}
			list = append(list, NewEntry(netip.PrefixFrom(netip.AddrFrom4(raw), 32), Deny))
		}
		table, err := Build(slices.Clone(list))
		if err != nil {
			t.Fatal(err)
		}
		hashed := 0
		for _, b := range table.blocks[table.blocks[0][7]:][:table.blocks[0][8]] {
			for _, ref := range b[singlesEach : 2*singlesEach] {
				if ref != 0 {
					hashed++
				}
			}
		}
		if left := len(table.Entries()) - hashed; left < 2 || left > len(list)/20 {
			t.Errorf("network %v: %d of %d entries are in the tree: nothing was tested, or the hash is bad", network, left, len(list))
		}
		if only := table.blocks[0][9] == 1; only == network {
			t.Errorf("network %v: the table says that there are only single addresses: %v", network, only)
		}
		for i := range list {
			if e := table.Find(list[i].Prefix().Addr()); e == nil || *e != list[i] {
				t.Fatalf("network %v: %v: found %v", network, &list[i], e)
			}
		}
		for i := range 10_000 {
			a := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 2})
			if slices.ContainsFunc(list, func(e Entry) bool { return e.bits == 32 && e.Prefix().Addr() == a }) {
				continue
			}
			if e := table.Find(a); (e != nil) != network || e != nil && e.Verdict != Allow {
				t.Fatalf("network %v: %s, beside an entry: found %v", network, a, e)
			}
		}
	}
}

func TestRules(t *testing.T) {
	read := func(v Verdict, text string) []Entry {
		list, err := Read(strings.NewReader(text), "list", v, 0, MaxEntries, nil)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	list := append(read(Deny, "203.0.113.0/24 # a network\n\n; nothing\n198.51.100.7 until 2030-01-01T00:00:00Z\n2001:db8::/32\n192.0.2.1\n"),
		read(Allow, "203.0.113.128/25\n192.0.2.1\n2001:db8:1::/48\n")...)
	table, err := Build(list)
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{"203.0.113.1": "deny 203.0.113.0/24", "203.0.113.200": "allow 203.0.113.128/25", "192.0.2.1": "deny 192.0.2.1/32",
		"192.0.2.2": "", "2001:db8::1": "deny 2001:db8::/32", "2001:db8:1::1": "allow 2001:db8:1::/48", "2001:db9::": "", "::ffff:203.0.113.1": "deny 203.0.113.0/24"} {
		got := ""
		if e := table.Find(netip.MustParseAddr(addr)); e != nil {
			got = e.Verdict.String() + " " + e.Prefix().String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
	e := table.Find(netip.MustParseAddr("198.51.100.7"))
	if e == nil || !e.Expires().Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) || e.Line != 4 {
		t.Errorf("%+v", e)
	}
	if e := table.Find(netip.MustParseAddr("203.0.113.1")); e == nil || e.Comment != "a network" {
		t.Errorf("%+v", e)
	}
}

func TestWrongLines(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.0/24\n192.0.2.1/24\n":            "line 2: \"192.0.2.1/24\" has bits behind its length; want 192.0.2.0/24, or 192.0.2.1",
		"nonsense":                                "line 1: \"nonsense\" is no prefix",
		"192.0.2.0/33":                            "line 1: \"192.0.2.0/33\" is no prefix",
		"fe80::1%eth0":                            "line 1: \"fe80::1%eth0\" is no prefix",
		"::ffff:192.0.2.0/120":                    "line 1: \"::ffff:192.0.2.0/120\": write it as an IPv4 prefix",
		"192.0.2.0/24 until tomorrow":             "line 1: until \"tomorrow\": want a time",
		"192.0.2.0/24 x":                          "line 1: \"x\": want PREFIX",
		"192.0.2.0/24 until 1960-01-01T00:00:00Z": "after 1970",
		strings.Repeat("1", 2000):                 "line 1: longer than 1024 bytes",
		"\n" + strings.Repeat("1", 200000):        "line 2: longer than 1024 bytes",
		"192.0.2.0/24\n192.0.2.1\n192.0.2.2\n":    "line 3: one entry more than",
	} {
		_, err := Read(strings.NewReader(text), "list", Deny, 0, 2, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// Of two million lines the one that is wrong is named, and reading takes no more memory than the entries before it.
func TestTwoMillionLinesOneWrong(t *testing.T) {
	const wrong = 1_999_000
	path := filepath.Join(t.TempDir(), "deny")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := 1; i <= 2_000_000; i++ {
		if i == wrong {
			text.WriteString("10.0.0.256\n")
			continue
		}
		fmt.Fprintf(&text, "10.%d.%d.%d\n", i>>16, i>>8&255, i&255)
	}
	if _, err := f.WriteString(text.String()); err != nil {
		t.Fatal(err)
	}
	f.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	list, err := ReadFile(path, Deny, 0, MaxEntries, nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	var line *LineError
	if !errors.As(err, &line) || line.Line != wrong {
		t.Fatalf("%v, want line %d", err, wrong)
	}
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 250<<20 {
		t.Errorf("%d MiB are held", held>>20)
	}
	runtime.KeepAlive(list)
}

// millionEntries is a list as large as the issue asks for: addresses and networks of both families.
func millionEntries(n int) []Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]Entry, 0, n)
	for i := range n {
		var raw [16]byte
		for j := range raw {
			raw[j] = byte(rng.Uint32())
		}
		if i%4 == 3 {
			raw[0], raw[1], raw[2] = 0x2a, raw[1]&15, 0
			list = append(list, NewEntry(netip.PrefixFrom(netip.AddrFrom16(raw), 48+rng.IntN(17)), Deny))
			continue
		}
		list = append(list, NewEntry(netip.PrefixFrom(netip.AddrFrom4([4]byte(raw[:4])), 24+rng.IntN(9)), Deny))
	}
	return list
}

func BenchmarkBuildMillion(b *testing.B) {
	for range b.N {
		b.StopTimer()
		list := millionEntries(1_000_000)
		b.StartTimer()
		table, err := Build(list)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(table.Blocks()*BlockBytes)/(1<<20), "MiB")
	}
}

// The filter in front excludes nothing that has an entry near it, and most of what has none, be the table's own as large as it or larger.
func TestFront(t *testing.T) {
	for _, n := range []int{10, 20_000, 400_000} {
		r := rand.New(rand.NewPCG(uint64(n), 5))
		var entries []Entry
		for i := range n {
			a := netip.AddrFrom4([4]byte{byte(1 + r.IntN(223)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})
			p := netip.PrefixFrom(a, 32-8*(i%3/2))
			if i%5 == 0 {
				p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), 1}), 48)
			}
			entries = append(entries, NewEntry(p.Masked(), Deny))
		}
		table, err := Build(entries)
		if err != nil {
			t.Fatal(err)
		}
		front, shift, wide := table.Front()
		if wide != [2]bool{} || len(front) > 1<<FrontBits/64 {
			t.Fatalf("%d entries: %d words, wide %v", n, len(front), wide)
		}
		is := func(a netip.Addr) bool {
			bit := near(!a.Is4(), words(a)[0]) >> shift
			return front[bit>>6]>>(bit&63)&1 != 0
		}
		for i := range table.Entries() {
			if e := &table.Entries()[i]; !is(e.Prefix().Addr()) {
				t.Fatalf("%d entries: the filter excludes %s", n, e.Prefix())
			}
		}
		excluded := 0
		for range 10_000 {
			if !is(netip.AddrFrom4([4]byte{byte(1 + r.IntN(223)), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())})) {
				excluded++
			}
		}
		if excluded < 8_500 {
			t.Errorf("%d entries: the filter excludes %d of 10,000 addresses", n, excluded)
		}
	}
}
