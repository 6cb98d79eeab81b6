// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"time"

	"tidegate/internal/ifp"
)

// Places: a packet is looked up once for each pair of prefix lengths (shape) in use, so
// there are only eight of one direction and family, and they are shared out so that
// nobody can take them from the others:
//
//   - The pairs that nearly every request needs are open to everybody and always have
//     a place: full address to full address, a /24 (IPv6: /64) to a full address,
//     anybody to a full address; towards customers also what the owner of the source
//     asks for, full address to full address.
//   - Each of the other places is one network's own. Whoever holds at least two more
//     than a newcomer gives up the one that he took last, with its filters: so each
//     network has one as long as there are no more networks than places.
//
// What is given up is counted, and the loser sees it by NOT_FOUND in its statistics.

// shapeKey is what tells shapes of one direction and family apart.
type shapeKey struct {
	srcBits, dstBits uint8
	right            ifp.Right
	owner            uint32 // 0 for open shapes
}

// openBits is the middle one of the lengths that sources of open shapes have.
var openBits = [2]uint8{24, 64}

// openPlaces is how many places are kept for open shapes, by direction.
var openPlaces = [2]int{ifp.FromCustomer: 3, ifp.ToCustomer: 4}

func isOpen(srcBits, dstBits uint8, right ifp.Right, fam int) bool {
	full := uint8(32)
	if fam == 1 {
		full = 128
	}
	if dstBits != full || right == ifp.BySource {
		return srcBits == full && dstBits == full
	}
	return srcBits == full || srcBits == openBits[fam] || srcBits == 0
}

// shapeKeyOf is the shape that a filter of this key, asked for by this right, is of.
func shapeKeyOf(k ifp.Key, right ifp.Right, owner uint32) shapeKey {
	s := shapeKey{srcBits: uint8(k.Src.Bits()), dstBits: uint8(k.Dst.Bits()), right: right, owner: owner}
	if isOpen(s.srcBits, s.dstBits, right, family(k.Dst)) {
		s.owner = 0
	}
	return s
}

func (s *shape) inUse() bool { return s.id != 0 && s.id != shapeHole }

// open says whether a shape is everybody's; fam is its family.
func (s *shape) open(fam int) bool { return isOpen(s.srcBits, s.dstBits, s.right, fam) }

// Places counts what became of requests for places.
type Places struct {
	Refused        uint64 // requests for which there was no place
	GivenUp        uint64 // places that were taken from who held more than his share
	FiltersGivenUp uint64 // with so many filters
}

// Places says how requests for places have fared.
func (t *Table) Places() Places {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.places
}

// takeEvery is how often a place may be taken from somebody: it means looking through
// the table (10 ms or so at ten million filters), and two who play together must not
// keep it locked.
const takeEvery = 100 * time.Millisecond

// placeFor gives a place for a new shape, or says why there is none. Places of open
// shapes are never taken by others, so only shapes that an older version has installed
// can be in their way.
func (t *Table) placeFor(k ifp.Key, key shapeKey) (*shape, ifp.Code) {
	fam := family(k.Dst)
	of := &t.shapes[k.Direction&1][fam]
	var free *shape
	held := map[uint32]int{} // places of one owner each
	owned := 0
	for i := range of {
		switch s := &of[i]; {
		case !s.inUse():
			if free == nil {
				free = s
			}
		case !s.open(fam):
			held[s.owner]++
			owned++
		}
	}
	forAll := isOpen(key.srcBits, key.dstBits, key.right, fam)
	if free != nil && (forAll || owned < shapesMax-openPlaces[k.Direction&1]) {
		return free, ifp.OK
	}
	mine := held[key.owner]
	if forAll {
		mine = -2 // whoever holds any has one too many
	}
	if s := t.takeFrom(of, fam, held, mine+2); s != nil {
		return s, ifp.OK
	}
	t.places.Refused++
	if mine > 0 {
		return nil, ifp.OverShare
	}
	return nil, ifp.TooManyShapes
}

// takeFrom takes the newest place of the owner who holds most, if these are at least so
// many; nil if there is none, or one was taken only just now.
func (t *Table) takeFrom(of *[shapesMax]shape, fam int, held map[uint32]int, atLeast int) *shape {
	now := time.Now()
	if now.Sub(t.taken) < takeEvery {
		return nil
	}
	var from *shape
	for i := range of {
		s := &of[i]
		if !s.inUse() || s.open(fam) || held[s.owner] < max(atLeast, 1) {
			continue
		}
		if from == nil || held[s.owner] > held[from.owner] || held[s.owner] == held[from.owner] && s.opened > from.opened {
			from = s
		}
	}
	if from == nil {
		return nil
	}
	t.taken = now
	t.places.GivenUp++
	t.eachSlot(func(slot uint32) {
		if e := &t.entries[slot]; e.Shape == from.id && e.Action != actionAllow {
			t.clear(slot)
			t.places.FiltersGivenUp++
		}
	})
	*from = shape{id: shapeHole}
	return from
}
