// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"

	"tidegate/internal/ifp"
)

// Positions of filters in the table: each has two buckets (core/patrol.h), and moves from one to the other to make room.
// All of this needs the table's lock.

// masked is a key as packets look it up.
type masked struct {
	src, dst [2]uint64
	shape    uint8
}

// position is where a key belongs: its first bucket, and the tag by which it is found in either. The zero value is nobody's: no
// shape has number 0.
type position struct {
	masked
	home, tag uint32
}

func (t *Table) positionOf(m masked) position {
	home, tag := t.place(&m)
	return position{m, home, tag}
}

// maskedKey is a key of a shape.
func maskedKey(k ifp.Key, s *shape) masked {
	return masked{src: words(k.Src.Addr()), dst: words(k.Dst.Addr()), shape: s.id}
}

func family(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

func words(a netip.Addr) (d [2]uint64) {
	if a.Is4() {
		b := a.As4()
		d[0] = uint64(binary.LittleEndian.Uint32(b[:]))
		return d
	}
	b := a.As16()
	return [2]uint64{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

func addrOf(d [2]uint64, family int) netip.Addr {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], d[0])
	binary.LittleEndian.PutUint64(b[8:], d[1])
	if family == 0 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}

// place is tg_patrol_place of core/patrol.h.
func (t *Table) place(m *masked) (b, tag uint32) {
	k := &t.keys
	w := func(d *[2]uint64, i int) uint64 { return d[i>>1] >> (32 * (i & 1)) & 0xffffffff }
	h := k[0]*uint64(m.shape) + k[1]*w(&m.src, 0) + k[2]*w(&m.dst, 0)
	if m.src[0]>>32 != 0 || m.src[1] != 0 || m.dst[0]>>32 != 0 || m.dst[1] != 0 {
		h += k[3]*w(&m.src, 1) + k[4]*w(&m.src, 2) + k[5]*w(&m.src, 3) +
			k[6]*w(&m.dst, 1) + k[7]*w(&m.dst, 2) + k[8]*w(&m.dst, 3)
	}
	h ^= h >> 32
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 29
	h *= 0x94d049bb133111eb
	h ^= h >> 32
	if tag = uint32(h >> 32); tag == 0 {
		tag = 1
	}
	return uint32(h & 0xffffffff * uint64(len(t.tags)) >> 32), tag
}

// other is tg_patrol_other.
func (t *Table) other(b, tag uint32) uint32 {
	n := uint32(len(t.tags))
	sum := uint32(uint64(tag*0x9e3779b1) * uint64(n) >> 32)
	if sum >= b {
		return sum - b
	}
	return sum + n - b
}

// find returns the slot of a key.
func (t *Table) find(p *position) (slot uint32, ok bool) {
	b := p.home
	for range 2 {
		for i := range uint32(bucketTags) {
			if t.tags[b].Tag[i] == p.tag {
				slot = b*bucketSlots + i
				e := &t.entries[slot]
				if e.Shape == p.shape && e.Src.D == p.src && e.Dst.D == p.dst {
					return slot, true
				}
			}
		}
		if t.tags[p.home].Spilled == 0 {
			break
		}
		b = t.other(p.home, p.tag)
	}
	return 0, false
}

// free returns a free slot for a tag: in its first bucket, or in its other one, or one
// freed in either by moving another filter to that filter's other bucket.
func (t *Table) free(home, tag uint32) (slot uint32, ok bool) {
	both := [2]uint32{home, t.other(home, tag)}
	for _, b := range both {
		if slot, ok := t.freeIn(b); ok {
			return slot, true
		}
	}
	for _, b := range both {
		if slot, ok := t.makeRoom(b); ok {
			return slot, true
		}
	}
	return 0, false
}

func (t *Table) freeIn(b uint32) (slot uint32, ok bool) {
	i := uint32(bits.TrailingZeros16(^t.busy[b]))
	return b*bucketSlots + i, i < bucketTags
}

// makeRoom moves a filter of a full bucket to its other bucket: packets find it in
// the new place before it leaves the old one. Hits in between are counted in
// the old place and lost.
func (t *Table) makeRoom(b uint32) (slot uint32, ok bool) {
	for i := range uint32(bucketTags) {
		tag := t.tags[b].Tag[i]
		if tag == 0 {
			continue // rests
		}
		from := b*bucketSlots + i
		to, ok := t.freeIn(t.other(b, tag))
		if !ok {
			continue
		}
		e := &t.entries[from]
		home, _ := t.place(&masked{src: e.Src.D, dst: e.Dst.D, shape: e.Shape})
		t.entries[to] = *e
		t.moveOwner(from, to)
		t.busy[to/bucketSlots] |= 1 << (to % bucketSlots)
		if home == b {
			atomic.StoreUint32(&t.tags[home].Spilled, t.tags[home].Spilled+1)
		}
		atomic.StoreUint32(&t.tags[to/bucketSlots].Tag[to%bucketSlots], tag)
		atomic.StoreUint32(&t.tags[b].Tag[i], 0)
		if home != b {
			atomic.StoreUint32(&t.tags[home].Spilled, t.tags[home].Spilled-1)
		}
		return from, true
	}
	return 0, false
}

// wake makes slots usable that have rested long enough.
func (t *Table) wake(now time.Time) {
	n := 0
	for n < len(t.resting) && now.Sub(t.resting[n].since) >= restFor {
		slot := t.resting[n].slot
		t.busy[slot/bucketSlots] &^= 1 << (slot % bucketSlots)
		n++
	}
	t.resting = t.resting[n:]
}

// clear makes the filter of a slot invisible; the slot rests.
func (t *Table) clear(slot uint32) {
	e := &t.entries[slot]
	m := masked{src: e.Src.D, dst: e.Dst.D, shape: e.Shape}
	home, _ := t.place(&m)
	b := slot / bucketSlots
	atomic.StoreUint32(&t.tags[b].Tag[slot%bucketSlots], 0)
	if b != home {
		atomic.StoreUint32(&t.tags[home].Spilled, t.tags[home].Spilled-1)
	}
	if e.Action != actionAllow {
		t.used--
		t.disown(slot)
	}
	t.resting = append(t.resting, rest{slot, time.Now()})
}
