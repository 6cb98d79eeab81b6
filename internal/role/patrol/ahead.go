// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"math/bits"

	"tidegate/internal/ifp"
)

// Looking ahead: a table of a million filters is out of every cache, and what a filter has in it is in three places: the tags of
// its bucket, its slot, and the owners of its bucket. A processor fetches a dozen lines of memory in little more time than one, if
// none of them says where the next is. So those of a group of filters are read before the first of the group needs them.

// aheadMax is how many filters are looked up ahead: their lines fit into a first-level cache twice.
const aheadMax = 64

// ahead is what was last read ahead.
type ahead struct {
	positions [aheadMax]position
	slots     [aheadMax]uint32
	sum       uint64 // of what was read: the compiler omits what nobody uses
}

// lookAhead reads what install, remove and stat will read and write for the next group of filters, if filter i begins one, and
// returns the position of filter i. The table is locked. It changes nothing.
func (t *Table) lookAhead(filters []ifp.Filter, grants []ifp.Grant, i int) *position {
	a := &t.ahead
	if i%aheadMax != 0 {
		return &a.positions[i%aheadMax]
	}
	group := filters[i:min(i+aheadMax, len(filters))]
	positions, slots, sum := a.positions[:len(group)], a.slots[:len(group)], uint64(0)
	for k := range group {
		positions[k] = position{}
		if m, ok := t.maskedOf(group[k].Key(), grantOf(grants, i+k)); ok {
			positions[k] = t.positionOf(m)
		}
	}
	for k := range positions {
		home := positions[k].home
		sum += uint64(t.tags[home].Spilled) + uint64(t.busy[home])
	}
	for k := range positions {
		slots[k] = positions[k].home*bucketSlots + t.slotIn(positions[k].home, positions[k].tag)
	}
	for _, slot := range slots { // no other work between the loads: more of them are under way
		sum += t.entries[slot].Src.D[0] + t.entries[slot/bucketSlots*bucketSlots+bucketTags].Src.D[0]
	}
	a.sum = sum
	return &positions[0]
}

// slotIn is where, in its first bucket, a filter with this tag stands or would stand.
func (t *Table) slotIn(b, tag uint32) uint32 {
	for i, has := range t.tags[b].Tag {
		if has == tag {
			return uint32(i)
		}
	}
	return uint32(bits.TrailingZeros16(^t.busy[b])) % bucketSlots
}

// maskedOf is a filter's key as packets look it up; ok is false if the table has no filter of its shape.
func (t *Table) maskedOf(k ifp.Key, g ifp.Grant) (m masked, ok bool) {
	for _, right := range rights {
		if g.Rights&right == 0 {
			continue
		}
		if s := shapeOf(&t.shapes[k.Direction&1][family(k.Dst)], shapeKeyOf(k, right, g.Owner)); s != nil {
			return maskedKey(k, s), true
		}
	}
	return m, false
}
