// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"hash/maphash"
	"iter"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// entryList finds the requested filters by source and destination. A list of millions is out of every cache, and what a look-up
// costs is the places in memory that it reads: here one, which has eight numbers in a cache line and in pages of 2 MiB if the kernel has
// them. Slots hold no pointers, so the garbage collector does not read them. At most sitesMax filters: 64 MiB of slots.
type entryList struct {
	seed   maphash.Seed
	slots  []uint64 // open addressing: a hash of 32 bits, then a number plus one; 0: free
	chunks []*[entryChunk]*Entry
	unused []uint32 // numbers that are free
	used   int
	next   uint32 // the first number that was never used

	ahead struct { // see lookAhead
		places [aheadMax]entryPlace
		sum    uint64
	}
}

// entryPlace is a key, and the hash by which it is found.
type entryPlace struct {
	key  entryKey
	hash uint32
}

// aheadMax is how many filters are looked up ahead.
const aheadMax = 64

const (
	entryChunk   = 4096
	slotsMin     = 1 << 10
	hugePage     = 2 << 20
	slotHashBits = 32
)

func newEntryList() *entryList {
	l := &entryList{seed: maphash.MakeSeed()}
	l.slots = make([]uint64, slotsMin)
	return l
}

func (l *entryList) len() int { return l.used }

func (l *entryList) hash(k *entryKey) uint32 {
	return uint32(maphash.Bytes(l.seed, unsafe.Slice((*byte)(unsafe.Pointer(k)), unsafe.Sizeof(*k)))) // no padding: see below
}

// entryKey is all bytes: hash reads nothing between its fields.
var _ [2*16 + 2 + 1 - unsafe.Sizeof(entryKey{})]byte

func (l *entryList) at(number uint32) **Entry {
	return &l.chunks[number/entryChunk][number%entryChunk]
}

// slot is where a key's number stands, or the free slot in which it would.
func (l *entryList) slot(k *entryKey, hash uint32) (i uint32, e *Entry) {
	mask := uint32(len(l.slots) - 1)
	for i = hash & mask; l.slots[i] != 0; i = (i + 1) & mask {
		if uint32(l.slots[i]>>slotHashBits) != hash {
			continue
		}
		if e := *l.at(uint32(l.slots[i]) - 1); keyOf(e.Src, e.Dst) == *k {
			return i, e
		}
	}
	return i, nil
}

// lookAhead says where the next filters belong, at most aheadMax of them, until it is called again. It reads the slots that their
// look-ups begin with: the processor fetches a dozen in little more time than one, as none of them says where the next is.
func (l *entryList) lookAhead(next []Entry) []entryPlace {
	places := l.ahead.places[:min(len(next), aheadMax)]
	for i := range places {
		places[i] = l.place(keyOf(next[i].Src, next[i].Dst))
	}
	mask, sum := uint32(len(l.slots)-1), uint64(0)
	for i := range places {
		sum += l.slots[places[i].hash&mask]
	}
	l.ahead.sum = sum // the compiler omits what nobody uses
	return places
}

func (l *entryList) place(k entryKey) entryPlace { return entryPlace{k, l.hash(&k)} }

// get returns the filter of a key; nil: none.
func (l *entryList) get(k entryKey) *Entry {
	p := l.place(k)
	return l.getAt(&p)
}

func (l *entryList) getAt(p *entryPlace) *Entry {
	_, e := l.slot(&p.key, p.hash)
	return e
}

// put enters a filter, in place of an older one of the same key.
func (l *entryList) put(k entryKey, e *Entry) {
	p := l.place(k)
	l.putAt(&p, e)
}

func (l *entryList) putAt(p *entryPlace, e *Entry) {
	i, old := l.slot(&p.key, p.hash)
	if old != nil {
		*l.at(uint32(l.slots[i]) - 1) = e
		return
	}
	if l.used >= len(l.slots)/4*3 {
		l.grow()
		i, _ = l.slot(&p.key, p.hash)
	}
	number := l.next
	if n := len(l.unused); n > 0 {
		number, l.unused = l.unused[n-1], l.unused[:n-1]
	} else {
		if number%entryChunk == 0 {
			l.chunks = append(l.chunks, new([entryChunk]*Entry))
		}
		l.next++
	}
	*l.at(number) = e
	l.slots[i] = uint64(p.hash)<<slotHashBits | uint64(number+1)
	l.used++
}

// remove removes the filter of a key, if there is one. What stands behind it moves up, so that no look-up ends too early.
func (l *entryList) remove(k entryKey) {
	gap, e := l.slot(&k, l.hash(&k))
	if e == nil {
		return
	}
	number := uint32(l.slots[gap]) - 1
	*l.at(number) = nil
	l.unused = append(l.unused, number)
	l.used--
	mask := uint32(len(l.slots) - 1)
	for i := (gap + 1) & mask; l.slots[i] != 0; i = (i + 1) & mask {
		home := uint32(l.slots[i]>>slotHashBits) & mask
		if (i-home)&mask >= (i-gap)&mask {
			l.slots[gap], gap = l.slots[i], i
		}
	}
	l.slots[gap] = 0
}

// grow doubles the slots. Hashes stand in them: no filter is read.
func (l *entryList) grow() {
	old := l.slots
	l.slots = make([]uint64, 2*len(old))
	inHugePages(l.slots)
	mask := uint32(len(l.slots) - 1)
	for _, s := range old {
		if s == 0 {
			continue
		}
		i := uint32(s>>slotHashBits) & mask
		for l.slots[i] != 0 {
			i = (i + 1) & mask
		}
		l.slots[i] = s
	}
}

// inHugePages asks the kernel for large pages, without which each look-up also misses the cache of translations. It may refuse.
func inHugePages(slots []uint64) {
	size := uintptr(len(slots)) * 8
	begin := uintptr(unsafe.Pointer(&slots[0]))
	first := (begin+hugePage-1)/hugePage*hugePage - begin
	last := (begin+size)/hugePage*hugePage - begin
	if first < last && last <= size {
		mem := unsafe.Slice((*byte)(unsafe.Pointer(&slots[0])), size)
		_ = unix.Madvise(mem[first:last], unix.MADV_HUGEPAGE)
	}
	touchPages(slots)
}

// touchPages writes to each page of what has just been allocated, and is all zeros. If a page were read first, by a look-up or by the
// garbage collector, the kernel would map its page of zeros, and replace that later, with an interrupt to every other CPU.
func touchPages[T any](fresh []T) {
	if len(fresh) == 0 {
		return
	}
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&fresh[0])), uintptr(len(fresh))*unsafe.Sizeof(fresh[0]))
	for i := 0; i < len(mem); i += os.Getpagesize() {
		mem[i] = 0
	}
	mem[len(mem)-1] = 0
}

// all visits the filters, in no order. The visitor may remove the one that it visits.
func (l *entryList) all() iter.Seq[*Entry] {
	return func(visit func(*Entry) bool) {
		for _, chunk := range l.chunks {
			for _, e := range chunk {
				if e != nil && !visit(e) {
					return
				}
			}
		}
	}
}
