// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"net/netip"
	"testing"

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
		if code := table.Remove(f.Key()); code != ifp.OK {
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
