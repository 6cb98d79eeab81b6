// SPDX-License-Identifier: Apache-2.0

package patrol

import "unsafe"

// Shares: while the table has room, each network may install as many filters as it likes. A full table is shared out
// evenly among the networks that have filters in it: one with less than its share gets room, and a network with more gives
// up a filter for that; one with its share or more gets TABLE_FULL. So no network moves another below its share.
//
// Exceptions are the patrol's own: they count for nobody.

// searchMax bounds the search for a filter to be given up: the table is locked meanwhile (less than a millisecond).
const searchMax = 1 << 14

// searchStep is odd and leads to another part of the table: room is made everywhere alike.
const searchStep = 0x9e3779b1

// ownersOf are the owners of the filters of a bucket. They are kept in its last, unused slot, where packets do not
// look, so that the next process knows them.
func (t *Table) ownersOf(b uint32) *[bucketTags]uint32 {
	return (*[bucketTags]uint32)(unsafe.Pointer(&t.entries[b*bucketSlots+bucketTags]))
}

// ownerAt is the owner of a slot's filter; 0: none in particular.
func (t *Table) ownerAt(slot uint32) *uint32 {
	return &t.ownersOf(slot / bucketSlots)[slot%bucketSlots]
}

// own enters the owner of a new filter, and disown removes it.
func (t *Table) own(slot, owner uint32) {
	*t.ownerAt(slot) = owner
	t.held[owner]++
}

func (t *Table) disown(slot uint32) {
	owner := *t.ownerAt(slot)
	*t.ownerAt(slot) = 0
	if t.held[owner]--; t.held[owner] <= 0 {
		delete(t.held, owner)
	}
}

// roomFor makes room for one filter of this owner, of shape s, in a full table; ok is false if there is none for it. gaveUp:
// a filter was removed for it, perhaps the last of its shape.
func (t *Table) roomFor(s *shape, owner, nowS uint32) (ok, gaveUp bool) {
	if t.used < t.Capacity() {
		return true, false
	}
	owners, mine := len(t.held), t.held[owner]
	if mine == 0 {
		owners++
	}
	share := max(t.Capacity()/owners, 1)
	if mine >= share {
		return false, false
	}
	s.filters++ // its place must outlive the filter that is given up
	defer func() { s.filters-- }()
	for range searchMax {
		t.hand = (t.hand + searchStep) % uint32(len(t.entries)) // which is a power of two: every slot has its turn
		slot := t.hand
		if slot%bucketSlots == bucketTags || t.tags[slot/bucketSlots].Tag[slot%bucketSlots] == 0 || t.entries[slot].Action == actionAllow {
			continue
		}
		expired := t.expired(slot, nowS)
		if !expired && t.held[*t.ownerAt(slot)] <= share {
			continue
		}
		if of := t.shapeByID(&t.shapes, t.entries[slot].Shape); of != nil {
			t.clear(slot)
			t.leave(of)
		} else {
			t.clear(slot)
		}
		if !expired {
			t.displaced++
		}
		return true, true
	}
	return false, false
}

// Displaced is how many filters networks with more than their share have given up for others.
func (t *Table) Displaced() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.displaced
}

// moveOwner follows a filter to another slot.
func (t *Table) moveOwner(from, to uint32) {
	*t.ownerAt(to), *t.ownerAt(from) = *t.ownerAt(from), 0
}

// The owners of a bucket fit into one slot.
var _ [unsafe.Sizeof(entry{}) - unsafe.Sizeof([bucketTags]uint32{})]byte
