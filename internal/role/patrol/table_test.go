// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"net/netip"
	"testing"
	"unsafe"

	"tidegate/internal/ifp"
)

// Addresses at regular intervals, as providers assign them, fill the table as far as
// intended: with a merely linear hash it was full at half of that.
func TestRegularAddressesFillTheTable(t *testing.T) {
	const n = 200_000
	table, err := NewMemoryTable(163_000) // 16,384 buckets: 12.2 of 15 places
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(n) {
		f := regular(i)
		if code := table.Install(&f, 0); code != ifp.OK {
			t.Fatalf("filter %d: %v", i, code)
		}
	}
	spilled := uint32(0)
	for b := range table.tags {
		spilled += table.tags[b].Spilled
	}
	t.Logf("%d filters in %d buckets, %d not in their first", n, len(table.tags), spilled)
	if spilled > n/8 {
		t.Errorf("%d of %d are not in their first bucket", spilled, n)
	}
	for i := range uint32(n) { // each is found where it is now
		f := regular(i)
		if code := table.removeOne(f.Key(), nobodys); code != ifp.OK {
			t.Fatalf("filter %d: %v", i, code)
		}
	}
	for b := range table.tags {
		if table.tags[b].Spilled != 0 {
			t.Fatalf("bucket %d says %d are spilled", b, table.tags[b].Spilled)
		}
	}
}

func regular(i uint32) ifp.Filter {
	v := (i % 2000) * 0x9e3779b1
	return ifp.Filter{Src: netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), 1}), 32),
		Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i / 2000 >> 8), byte(i / 2000)}), 32), Action: ifp.Block}
}

// A table of any size takes at most 110 bytes for each filter that it is made for, and holds them all.
func TestTableIsNoLargerThanNeeded(t *testing.T) {
	for _, n := range []int{1000, 1025, 10_000, 17_000, 40_961, 100_000, 1_000_000, 10_000_000} {
		buckets := BucketsFor(n)
		each := float64(buckets*(int(unsafe.Sizeof(bucket{}))+bucketSlots*int(unsafe.Sizeof(entry{})))) / float64(n)
		if each > 110 {
			t.Errorf("%d filters: %.1f bytes each", n, each)
		}
		if n > 50_000 {
			continue
		}
		table, err := NewMemoryTable(n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range uint32(n) {
			f := regular(i)
			if code := table.Install(&f, 0); code != ifp.OK {
				t.Fatalf("%d filters: filter %d: %v", n, i, code)
			}
		}
	}
}

// What another version has placed in another way is not taken over: the table is empty.
func TestTableOfAnotherForm(t *testing.T) {
	n := BucketsFor(1000)
	tags, entries, keys := make([]byte, n*int(unsafe.Sizeof(bucket{}))), make([]byte, n*bucketSlots*int(unsafe.Sizeof(entry{}))), randomKeys()
	var settings Settings
	publish := func(t *Table) error { t.fillShapes(&settings, false); return nil }
	table, err := NewTable(tags, entries, keys, nil, publish)
	if err != nil {
		t.Fatal(err)
	}
	f := regular(1)
	if code := table.Install(&f, 0); code != ifp.OK {
		t.Fatal(code)
	}
	for _, c := range []struct {
		buckets uint32
		want    int
	}{{uint32(n), 1}, {uint32(n) - 1, 0}} {
		settings.Buckets = c.buckets
		if table, err = NewTable(tags, entries, keys, &settings, publish); err != nil || table.Len() != c.want {
			t.Errorf("%d buckets said to be %d: %d filters, %v; want %d", n, c.buckets, table.Len(), err, c.want)
		}
	}
}

func BenchmarkInstall(b *testing.B) {
	table, err := NewMemoryTable(1_000_000)
	if err != nil {
		b.Fatal(err)
	}
	f := ifp.Filter{Src: netip.MustParsePrefix("10.0.0.0/32"), Dst: netip.MustParsePrefix("198.18.0.1/32"), Action: ifp.Block}
	for i := 0; b.Loop(); i++ {
		v := uint32(i) % 1_000_000
		f.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(v >> 16), byte(v >> 8), byte(v)}), 32)
		if code := table.Install(&f, 0); code != ifp.OK {
			b.Fatal(code)
		}
	}
}
