package patrol

import (
	"encoding/binary"
	"net/netip"

	"tidegate/internal/ifp"
)

// Shapes: which pairs of prefix lengths packets must be looked up with. A place in
// a list keeps its meaning as long as filters of it exist, so that a packet that
// reads the list while it changes reads old entries or new ones.

func (t *Table) shapeOf(list *[2][2][shapesMax]shape, k ifp.Key) *shape {
	of := &list[k.Direction&1][family(k.Dst)]
	for i := range of {
		s := &of[i]
		if s.id != 0 && s.id != shapeHole && int(s.srcBits) == k.Src.Bits() && int(s.dstBits) == k.Dst.Bits() {
			return s
		}
	}
	return nil
}

// shapeFor gives the shape of a key, a new one if need be; nil if there is no room.
func (t *Table) shapeFor(list *[2][2][shapesMax]shape, k ifp.Key) (s *shape, fresh bool) {
	if s := t.shapeOf(list, k); s != nil {
		return s, false
	}
	of := &list[k.Direction&1][family(k.Dst)]
	for i := range of {
		if of[i].id == 0 || of[i].id == shapeHole {
			of[i] = shape{srcBits: uint8(k.Src.Bits()), dstBits: uint8(k.Dst.Bits()), id: t.freeID()}
			return &of[i], true
		}
	}
	return nil, false
}

// freeID gives a number that no shape has: there are 64 places and 254 numbers.
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

// fillShapes writes the shapes and what belongs to them into settings. With hide,
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
					to.Id = uint32(sh.id)
					if hide && to.Id != was {
						to.Id = shapeHole
					}
				}
			}
		}
	}
	s.Keys, s.BucketMask = t.keys, t.mask
	s.Filtering = 0
	if t.used > 0 {
		s.Filtering = 1
	}
}

// takeOver rebuilds what this process must know from the maps of the one before.
func (t *Table) takeOver(old *Settings) {
	for dir := range 2 {
		for fam := range 2 {
			for i := range shapesMax {
				f, a := &old.Shapes[dir][fam][i], &old.Allow[dir][fam][i]
				t.shapes[dir][fam][i] = shape{id: uint8(f.Id), srcBits: ones(f.SrcMask.D), dstBits: ones(f.DstMask.D)}
				t.allow[dir][fam][i] = shape{id: uint8(a.Id), srcBits: ones(a.SrcMask.D), dstBits: ones(a.DstMask.D)}
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
		}
		t.busy[slot/bucketSlots] |= 1 << (slot % bucketSlots)
		if s := t.shapeByID(list, e.Shape); s != nil {
			s.filters++
		}
	})
	for dir := range 2 { // a shape without filters is none
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
