// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"testing"
	"time"
)

// A source lives for between one and two rounds after its last use; its page is
// visited until it is empty, and a round takes one period however it is divided.
func TestWhiteSweep(t *testing.T) {
	words := whiteWords(24)
	w := &whiteBits{bits: make([]uint64, words), marks: make([]uint64, whiteMarks(words))}
	pages := len(w.bits) / whitePageWords
	const at = 3*whitePageWords + 17
	if w.count() != 0 {
		t.Errorf("an empty bitmap has %d sources", w.count())
	}
	use := func() { w.bits[at] |= 3 << 6; w.marks[0] |= 1 << 3 }
	round := func() {
		for range 30 {
			w.sweep(time.Second, 30*time.Second)
		}
	}
	use()
	w.bits[at] |= 1 << 40
	if w.count() != 2 { // one fresh, one that a sweep has seen
		t.Errorf("%d sources, want 2", w.count())
	}
	w.bits[at] &^= 1 << 40
	for range 5 {
		round()
		if w.bits[at] != 1<<6 {
			t.Fatalf("after a round the word is %x", w.bits[at])
		}
		use()
	}
	round()
	round()
	if w.bits[at] != 0 || w.marks[0]&(1<<3) == 0 && w.bits[at] != 0 {
		t.Errorf("two rounds after its last use the word is %x", w.bits[at])
	}
	if w.next > 1 && w.next < pages-1 {
		t.Errorf("after whole rounds the sweep stands at page %d of %d", w.next, pages)
	}
	round()
	if w.marks[0] != 0 {
		t.Errorf("marks of empty pages are left: %x", w.marks[0])
	}
	if got := whiteWords(32); got != 1<<27 { // 8 bytes each: 1 GiB
		t.Errorf("%d words for single addresses", got)
	}
}

func TestMemoryFor(t *testing.T) {
	if memoryFor(4096) != nil {
		t.Error("4 KiB are refused")
	}
	if memoryFor(1<<60) == nil {
		t.Error("an exbibyte is not refused")
	}
}
