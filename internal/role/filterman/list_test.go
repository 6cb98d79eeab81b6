// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The list against a map: many keys come, are replaced and go, at every size from one slot's to several growths.
func TestEntryList(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 153))
	l, want := newEntryList(), map[entryKey]*Entry{}
	entry := func(n int) *Entry {
		e := &Entry{}
		if n%3 == 0 { // the same bits in the other family are another filter
			e.Src = netip.PrefixFrom(netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff, 12: 10, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}), 32)
		} else {
			e.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32-n%2)
		}
		e.Dst = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(n % 7)}), 32)
		return e
	}
	for step := range 200_000 {
		e := entry(random.IntN(12_000))
		k := keyOf(e.Src, e.Dst)
		if step%20_000 < 12_000 == (random.IntN(4) > 0) { // grows, then shrinks
			l.put(k, e)
			want[k] = e
		} else {
			l.remove(k)
			delete(want, k)
		}
		if got := l.get(k); got != want[k] {
			t.Fatalf("step %d: %v, want %v", step, got, want[k])
		}
		if step%9973 == 0 {
			sameAs(t, l, want)
		}
	}
	sameAs(t, l, want)
	for e := range l.all() {
		l.remove(keyOf(e.Src, e.Dst)) // while it is visited
	}
	if sameAs(t, l, nil); l.next > 12_000 {
		t.Errorf("%d numbers for at most 12,000 filters: numbers are not used again", l.next)
	}
}

func sameAs(t *testing.T, l *entryList, want map[entryKey]*Entry) {
	t.Helper()
	n := 0
	for e := range l.all() {
		if n++; want[keyOf(e.Src, e.Dst)] != e {
			t.Fatalf("%v -> %v is in the list", e.Src, e.Dst)
		}
	}
	if n != len(want) || l.len() != n {
		t.Fatalf("%d filters are visited, %d counted, want %d", n, l.len(), len(want))
	}
	for k, e := range want {
		if l.get(k) != e {
			t.Fatalf("%v -> %v is not found", e.Src, e.Dst)
		}
	}
}

// Whoever reads fresh memory after touchPages, or writes to it, interrupts no other CPU: there is no fault left.
func TestTouchedPagesAreThere(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	faults := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return u.Minflt
	}
	fresh := make([]Entry, 64<<20/unsafe.Sizeof(Entry{}))
	pages := int64(uintptr(len(fresh)) * unsafe.Sizeof(fresh[0]) / uintptr(os.Getpagesize()))
	touchPages(fresh)
	before := faults()
	for i := range fresh {
		if fresh[i].Since == 0 {
			fresh[i].dirty = true
		}
	}
	if n := faults() - before; n > pages/20 {
		t.Errorf("%d faults in %d pages", n, pages)
	}
	touchPages([]Entry{})
}
