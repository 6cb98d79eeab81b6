// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"encoding/binary"
	"net/netip"

	"tidegate/internal/ifp"
)

// Shapes: the pairs of prefix lengths with which packets must be looked up. A place in
// a list keeps its meaning as long as filters of it exist, so that a packet that
// reads the list while it changes reads old entries or new ones.

func shapeOf(of *[shapesMax]shape, key shapeKey) *shape {
	for i := range of {
		s := &of[i]
		if s.inUse() && s.srcBits == key.srcBits && s.dstBits == key.dstBits && s.right == key.right &&
			(s.owner == key.owner || s.owner == 0) { // 0: open, or of an older version, which did not know whose
			return s
		}
	}
	return nil
}

// shapeFor returns the shape of a filter, a new one if need be; before is the earlier content of
// its place, nil if the shape is not new. The code is the reason there is none.
func (t *Table) shapeFor(k ifp.Key, g ifp.Grant) (s, before *shape, code ifp.Code) {
	key := shapeKeyOf(k, g.Rights, g.Owner)
	if s := shapeOf(&t.shapes[k.Direction&1][family(k.Dst)], key); s != nil {
		return s, nil, ifp.OK
	}
	if s, code = t.placeFor(k, key); s == nil {
		return nil, nil, code
	}
	was := *s
	t.opened++
	*s = shape{srcBits: key.srcBits, dstBits: key.dstBits, right: key.right, owner: key.owner, id: t.freeID(), opened: t.opened}
	return s, &was, ifp.OK
}

// allowFor returns the shape of an exception. Exceptions are the patrol's own: first come, first served.
func (t *Table) allowFor(k ifp.Key) (s, before *shape, code ifp.Code) {
	key := shapeKey{srcBits: uint8(k.Src.Bits()), dstBits: uint8(k.Dst.Bits()), right: ifp.ByDestination}
	of := &t.allow[k.Direction&1][family(k.Dst)]
	if s := shapeOf(of, key); s != nil {
		return s, nil, ifp.OK
	}
	for i := range of {
		if s := &of[i]; !s.inUse() {
			was := *s
			*s = shape{srcBits: key.srcBits, dstBits: key.dstBits, right: key.right, id: t.freeID()}
			return s, &was, ifp.OK
		}
	}
	return nil, nil, ifp.TooManyShapes
}

// freeID returns a number that no shape has: there are 64 places and 254 numbers.
func (t *Table) freeID() uint8 {
	for id := uint8(1); ; id++ {
		if t.shapeByID(&t.shapes, id) == nil && t.shapeByID(&t.allow, id) == nil {
			return id
		}
	}
}

func (t *Table) shapeByID(list *[2][2][shapesMax]shape, id uint8) *shape {
	_, _, s := t.whereShape(list, id)
	return s
}

func (t *Table) whereShape(list *[2][2][shapesMax]shape, id uint8) (dir, fam int, s *shape) {
	for dir := range list {
		for fam := range list[dir] {
			for i := range list[dir][fam] {
				if list[dir][fam][i].id == id {
					return dir, fam, &list[dir][fam][i]
				}
			}
		}
	}
	return 0, 0, nil
}

func maskWords(bits, fam int) [2]uint64 {
	if fam == 0 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), bits)
		return words(p.Masked().Addr())
	}
	all := [16]byte{}
	for i := range all {
		all[i] = 255
	}
	return words(netip.PrefixFrom(netip.AddrFrom16(all), bits).Masked().Addr())
}

// fillShapes writes the shapes and their masks into settings. With hide,
// shapes that settings do not have yet get their masks, but no number.
func (t *Table) fillShapes(s *Settings, hide bool) {
	before := *s
	for dir := range 2 {
		for fam := range 2 {
			for i := range shapesMax {
				for n, list := range []*[2][2][shapesMax]shape{&t.shapes, &t.allow} {
					to, was := &s.Shapes[dir][fam][i], before.Shapes[dir][fam][i].Id
					if n == 1 {
						to, was = &s.Allow[dir][fam][i], before.Allow[dir][fam][i].Id
					}
					sh := &list[dir][fam][i]
					if sh.id != 0 && sh.id != shapeHole {
						to.SrcMask.D, to.DstMask.D = maskWords(int(sh.srcBits), fam), maskWords(int(sh.dstBits), fam)
					}
					to.Id, to.Owner = uint32(sh.id), sh.owner
					if sh.right == ifp.BySource {
						to.Owner |= bySource
					}
					if hide && to.Id != was {
						to.Id = shapeHole
					}
				}
			}
		}
	}
	s.Keys, s.Buckets = t.keys, uint32(len(t.tags))
	s.Filtering = 0
	if t.used > 0 {
		s.Filtering = 1
	}
}

// bySource marks, beside the owner, shapes of filters requested by the source's right:
// both outlive the process in the settings, and packets read neither.
const bySource = 1 << 31

// takeOver rebuilds this process's state from the maps of the earlier one.
func (t *Table) takeOver(old *Settings) {
	t.opened = shapesMax
	for dir := range 2 {
		for fam := range 2 {
			for i := range shapesMax {
				f, a := &old.Shapes[dir][fam][i], &old.Allow[dir][fam][i]
				t.shapes[dir][fam][i] = shape{id: uint8(f.Id), srcBits: ones(f.SrcMask.D), dstBits: ones(f.DstMask.D),
					right: ifp.ByDestination, owner: f.Owner &^ bySource, opened: uint64(i)}
				if f.Owner&bySource != 0 {
					t.shapes[dir][fam][i].right = ifp.BySource
				}
				t.allow[dir][fam][i] = shape{id: uint8(a.Id), srcBits: ones(a.SrcMask.D), dstBits: ones(a.DstMask.D), right: ifp.ByDestination}
			}
		}
	}
	t.eachSlot(func(slot uint32) {
		e := &t.entries[slot]
		list := &t.shapes
		if e.Action == actionAllow {
			list = &t.allow
		} else {
			t.used++
			t.held[*t.ownerAt(slot)]++
		}
		t.busy[slot/bucketSlots] |= 1 << (slot % bucketSlots)
		if s := t.shapeByID(list, e.Shape); s != nil {
			s.filters++
		}
	})
	for dir := range 2 { // a shape without filters is unused
		for fam := range 2 {
			for i := range shapesMax {
				for _, s := range []*shape{&t.shapes[dir][fam][i], &t.allow[dir][fam][i]} {
					if s.id != 0 && s.filters == 0 {
						*s = shape{id: shapeHole}
					}
				}
			}
		}
	}
}

// ones counts the bits of a mask as it stands in memory.
func ones(d [2]uint64) (n uint8) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], d[0])
	binary.LittleEndian.PutUint64(b[8:], d[1])
	for _, x := range b {
		for ; x != 0; x &= x - 1 {
			n++
		}
	}
	return n
}
