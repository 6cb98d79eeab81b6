// SPDX-License-Identifier: Apache-2.0

package sourcelist

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
)

// Numbers of core/source_list.h; TestNumbers compares.
const (
	blockWords = 16
	// BlockBytes is the size of a block.
	BlockBytes = 4 * blockWords
	magic      = 0x74674c32
	more       = 3
	maxBlocks  = 1 << 23 // 512 MiB; the reference has room for 16 times as many

	hash4, hash6 = 0x9e3779b1, 0x85ebca6b

	singlesEach = 7 // single addresses in a block
	singlesMean = 4 // on average: one in fifty finds its block full
)

type block = [blockWords]uint32

// Table is a list in the form of the packet path.
type Table struct {
	blocks  []block
	entries []Entry // by the numbers in the table
}

// Build makes a table. It sorts the entries that it is given, and keeps them. Of several with the same prefix one decides:
// that which denies. The others do not count.
func Build(entries []Entry) (*Table, error) {
	if len(entries) > MaxEntries {
		return nil, fmt.Errorf("%d entries; all lists together may have %d", len(entries), MaxEntries)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return order(&a, &b) })
	kept := entries[:0]
	for i := range entries {
		if n := len(kept); n > 0 && same(&kept[n-1], &entries[i]) {
			continue
		}
		kept = append(kept, entries[i])
	}
	t := &Table{blocks: make([]block, 1, 1+len(kept)/4), entries: kept}
	six := len(kept)
	for i := range kept {
		if kept[i].ipv6 {
			six = i
			break
		}
	}
	wide := t.filter(kept)
	four, singles, blocks, err := t.singles(six)
	if err != nil {
		return nil, err
	}
	root4, err := t.tree(four, 0, 0)
	if err != nil {
		return nil, err
	}
	all6 := make([]uint32, len(kept)-six)
	for i := range all6 {
		all6[i] = uint32(six + i)
	}
	root6, err := t.tree(all6, 0, 0)
	if err != nil {
		return nil, err
	}
	h := &t.blocks[0]
	h[0], h[3], h[4], h[5], h[6], h[7], h[8] = magic, root4, root6, wide[0], wide[1], singles, blocks
	if !slices.ContainsFunc(four, func(i uint32) bool { return kept[i].bits != 32 }) {
		h[9] = 1
	}
	return t, nil
}

// singles puts the IPv4 addresses among the first n entries, all IPv4, that are entries themselves into the hash. It gives the others, and
// those whose block was full, and where the hash is.
func (t *Table) singles(n int) (others []uint32, at, blocks uint32, err error) {
	count := 0
	for i := range t.entries[:n] {
		if t.entries[i].bits == 32 {
			count++
		}
	}
	others = make([]uint32, 0, n-count+count/singlesMean)
	if count > 0 {
		blocks = uint32((count + singlesMean - 1) / singlesMean)
		if at, err = t.room(int(blocks)); err != nil {
			return nil, 0, 0, err
		}
	}
	for i := range t.entries[:n] {
		e := &t.entries[i]
		if e.bits != 32 || !t.addSingle(&t.blocks[at+singlePlace(e.addr[0], blocks)], i) {
			others = append(others, uint32(i))
		}
	}
	return others, at, blocks, nil
}

// addSingle puts an entry into a block; false: it is full.
func (t *Table) addSingle(b *block, i int) bool {
	for j := range singlesEach {
		if b[singlesEach+j] == 0 {
			b[j], b[singlesEach+j] = t.entries[i].addr[0], t.reference(i)
			return true
		}
	}
	return false
}

// singlePlace is the block of a single address.
func singlePlace(addr, blocks uint32) uint32 {
	h := addr * hash4
	h = (h ^ h>>15) * hash6
	return uint32(uint64(h) * uint64(blocks) >> 32)
}

// near is what the filter knows of an address: its family's hash of the first bits.
func near(ipv6 bool, first uint32) uint32 {
	if ipv6 {
		return first * hash6
	}
	return first >> 8 * hash4
}

// A prefix may set 2^widest bits of the filter. One that would set more has the filter of its family say nothing.
const widest = 16

// filter makes the filter, of 16 times as many bits as are set, at least 4,096.
func (t *Table) filter(entries []Entry) (wide [2]uint32) {
	each := func(set func(e *Entry, first uint32)) {
		for i := range entries {
			e := &entries[i]
			unit := 24
			if e.ipv6 {
				unit = 32
			}
			short := max(unit-int(e.bits), 0)
			if short > widest {
				wide[e.family()] = 1
				continue
			}
			for n := range uint32(1) << short {
				set(e, e.addr[0]+n<<(32-unit))
			}
		}
	}
	count, last := 0, ^uint64(0)
	each(func(e *Entry, first uint32) { // neighbours come one after the other
		if at := uint64(near(e.ipv6, first))<<1 | uint64(e.family()); at != last {
			count, last = count+1, at
		}
	})
	size := min(max(bits.Len(uint(16*count)), 12), 24)
	at := uint32(len(t.blocks))
	t.blocks = append(t.blocks, make([]block, 1<<size/512)...)
	each(func(e *Entry, first uint32) {
		bit := near(e.ipv6, first) >> (32 - size)
		t.blocks[at+bit>>9][bit>>5&15] |= 1 << (bit & 31)
	})
	t.blocks[0][1], t.blocks[0][2] = uint32(32-size), at
	return wide
}

func (e *Entry) family() int {
	if e.ipv6 {
		return 1
	}
	return 0
}

// span is a range of a tree: up to its last address, what a reference says.
type span struct{ last, ref uint32 }

func (t *Table) reference(i int) uint32 { return uint32(t.entries[i].Verdict)<<30 | uint32(i) }

// tree makes the tree of a word of the address for the entries with these numbers, in order, which agree in all words before. outside is
// what holds where none of them does. It gives the reference to the tree.
func (t *Table) tree(list []uint32, word uint, outside uint32) (uint32, error) {
	switch len(list) {
	case 0:
		return outside, nil
	case 1:
		return t.one(int(list[0]), outside)
	}
	var spans []span
	var open []span // prefixes that are not yet at their end, the longest last
	next := uint64(0)
	emit := func(last uint64, ref uint32) {
		if last < next {
			return
		}
		if n := len(spans); n > 0 && spans[n-1].ref == ref {
			spans[n-1].last = uint32(last)
		} else {
			spans = append(spans, span{uint32(last), ref})
		}
		next = last + 1
	}
	now := func() uint32 {
		if n := len(open); n > 0 {
			return open[n-1].ref
		}
		return outside
	}
	begin := func(first uint32) { // what ends before ends
		for n := len(open); n > 0 && open[n-1].last < first; n = len(open) {
			emit(uint64(open[n-1].last), open[n-1].ref)
			open = open[:n-1]
		}
		if first > 0 {
			emit(uint64(first)-1, now())
		}
	}
	for i := 0; i < len(list); {
		e := &t.entries[list[i]]
		first := e.addr[word]
		begin(first)
		if length := int(e.bits) - int(32*word); length <= 32 {
			last := uint32(uint64(first) + 1<<(32-length) - 1)
			open = append(open, span{last, t.reference(int(list[i]))})
			i++
			continue
		}
		end := i + 1
		for end < len(list) && t.entries[list[end]].addr[word] == first { // all of them longer: shorter ones come before
			end++
		}
		ref, err := t.tree(list[i:end], word+1, now())
		if err != nil {
			return 0, err
		}
		emit(uint64(first), ref)
		i = end
	}
	for n := len(open); n > 0; n = len(open) {
		emit(uint64(open[n-1].last), open[n-1].ref)
		open = open[:n-1]
	}
	emit(1<<32-1, outside)
	return t.layOut(spans)
}

// one compares an address with a single prefix.
func (t *Table) one(i int, outside uint32) (uint32, error) {
	e := &t.entries[i]
	var b block
	for w := range 4 {
		mask := ^uint32(0)
		if length := int(e.bits) - 32*w; length < 32 {
			mask <<= 32 - max(length, 0)
		}
		b[w], b[4+w] = e.addr[w], mask
	}
	b[8], b[9] = t.reference(i), outside
	at, err := t.room(1)
	if err != nil {
		return 0, err
	}
	t.blocks[at] = b
	return more<<30 | at, nil
}

// room appends blocks.
func (t *Table) room(n int) (at uint32, err error) {
	if len(t.blocks)+n > maxBlocks {
		return 0, fmt.Errorf("the table would exceed %d MiB; shorten the lists", maxBlocks*BlockBytes>>20)
	}
	t.blocks = append(t.blocks, make([]block, n)...)
	return uint32(len(t.blocks) - n), nil
}

// layOut writes ranges as leaves, and above them nodes, until there is one.
func (t *Table) layOut(spans []span) (uint32, error) {
	if len(spans) == 1 {
		return spans[0].ref, nil
	}
	n := (len(spans) + 15) / 16
	at, err := t.room(2 * n)
	if err != nil {
		return 0, err
	}
	lasts := make([]uint32, n)
	for i := range n {
		leaf, refs := &t.blocks[at+uint32(i)], &t.blocks[at+uint32(n+i)]
		for j := range 15 {
			leaf[j] = ^uint32(0)
		}
		leaf[15] = at + uint32(n+i)
		for j, s := range spans[16*i : min(16*i+16, len(spans))] {
			if j < 15 {
				leaf[j] = s.last
			}
			refs[j], lasts[i] = s.ref, s.last
		}
	}
	levels := uint32(1)
	for ; n > 1; levels++ {
		below, parents := at, (n+15)/16
		if at, err = t.room(parents); err != nil {
			return 0, err
		}
		above := make([]uint32, parents)
		for i := range parents {
			node := &t.blocks[at+uint32(i)]
			for j := range 15 {
				node[j] = ^uint32(0)
			}
			node[15] = below + uint32(16*i)
			for j, last := range lasts[16*i : min(16*i+16, n)] {
				if j < 15 {
					node[j] = last
				}
				above[i] = last
			}
		}
		n, lasts = parents, above
	}
	return more<<30 | levels<<27 | at, nil
}

// FrontBits are the most bits of the filter that is kept in front of the table, 2 to this.
const FrontBits = 22

// Front is the filter once more, for a place in front of the table: its words; how many bits of a hash are not for it; and whether it says
// nothing of IPv4, of IPv6.
func (t *Table) Front() (words []uint64, shift uint32, wide [2]bool) {
	h := &t.blocks[0]
	size, most := 32-h[1], min(32-h[1], FrontBits)
	words = make([]uint64, 1<<most/64)
	for bit := range uint32(1) << size {
		if t.blocks[h[2]+bit>>9][bit>>5&15]>>(bit&31)&1 != 0 {
			words[bit>>(size-most)>>6] |= 1 << (bit >> (size - most) & 63)
		}
	}
	return words, 32 - most, [2]bool{h[5] != 0, h[6] != 0}
}

// Bytes writes the table as the packet path reads it.
func (t *Table) Bytes(to []byte) {
	for i := range t.blocks {
		for j, w := range t.blocks[i] {
			binary.LittleEndian.PutUint32(to[i*BlockBytes+4*j:], w)
		}
	}
}

// Blocks is how many blocks it has.
func (t *Table) Blocks() int { return len(t.blocks) }

// Entries are those that count, in order; nobody may change them.
func (t *Table) Entries() []Entry { return t.entries }

// Find gives the entry that decides about an address; nil: none does. It goes the packet path's way through the table.
func (t *Table) Find(a netip.Addr) *Entry {
	a = a.Unmap()
	x, h := words(a), &t.blocks[0]
	root, wide := h[3], h[5]
	if !a.Is4() {
		root, wide = h[4], h[6]
	}
	bit := near(!a.Is4(), x[0]) >> h[1]
	if wide == 0 && t.blocks[h[2]+bit>>9][bit>>5&15]>>(bit&31)&1 == 0 {
		return nil
	}
	if blocks := h[8]; a.Is4() && blocks != 0 {
		b := &t.blocks[h[7]+singlePlace(x[0], blocks)]
		for i := range singlesEach {
			if ref := b[singlesEach+i]; ref != 0 && b[i] == x[0] {
				return &t.entries[ref&0x3fffffff]
			}
		}
		if h[9] == 1 && b[2*singlesEach-1] == 0 {
			return nil
		}
	}
	for word := 0; root>>30 == more; {
		at, levels := root&0x7ffffff, root>>27&7
		if levels == 0 {
			b, differs := &t.blocks[at], uint32(0)
			for i := range x {
				differs |= x[i]&b[4+i] ^ b[i]
			}
			if root = b[9]; differs == 0 {
				root = b[8]
			}
			continue
		}
		for ; levels > 0; levels-- {
			b, n := &t.blocks[at], uint32(0)
			for n < 15 && b[n] < x[word] {
				n++
			}
			if at = b[15] + n; levels == 1 {
				root = t.blocks[b[15]][n]
			}
		}
		word++
	}
	if root>>30 == 0 {
		return nil
	}
	return &t.entries[root&0x3fffffff]
}
