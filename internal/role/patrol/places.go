// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"time"

	"tidegate/internal/ifp"
)

// Places: a packet is looked up once for each pair of prefix lengths (shape) in use, so
// there are only eight for each direction and family, and they are allocated so that
// no network can deprive the others:
//
//   - The pairs that nearly every request needs are open to everybody and always have
//     a place: full address to full address, a /24 (IPv6: /64) to a full address,
//     any address to a full address; towards customers also, for requests by the owner of the
//     source, full address to full address.
//   - Each of the other places belongs to one network. A network that holds at least two more
//     than a newcomer gives up the one it took last, with its filters: so each
//     network has one as long as there are no more networks than places.
//
// Places given up are counted, and the loser sees NOT_FOUND in its statistics.

// shapeKey distinguishes shapes of one direction and family.
type shapeKey struct {
	srcBits, dstBits uint8
	right            ifp.Right
	owner            uint32 // 0 for open shapes
}

// openBits is, by family, the middle one of the source prefix lengths of open shapes.
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

// shapeKeyOf is the shape of a filter with this key, requested by this right.
func shapeKeyOf(k ifp.Key, right ifp.Right, owner uint32) shapeKey {
	s := shapeKey{srcBits: uint8(k.Src.Bits()), dstBits: uint8(k.Dst.Bits()), right: right, owner: owner}
	if isOpen(s.srcBits, s.dstBits, right, family(k.Dst)) {
		s.owner = 0
	}
	return s
}

func (s *shape) inUse() bool { return s.id != 0 && s.id != shapeHole }

// open reports whether a shape is open to everybody; fam is its family.
func (s *shape) open(fam int) bool { return isOpen(s.srcBits, s.dstBits, s.right, fam) }

// Places counts the results of requests for places.
type Places struct {
	Refused        uint64 // requests for which there was no place
	GivenUp        uint64 // places taken from networks that held more than their share
	FiltersGivenUp uint64 // filters removed with those places
}

// Places returns the counts of requests for places.
func (t *Table) Places() Places {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.places
}

// takeEvery is how often a place may be taken from a network: it means scanning
// the table (10 ms or so at ten million filters), and two networks that collude must not
// keep it locked.
const takeEvery = 100 * time.Millisecond

// placeFor returns a place for a new shape, or the reason there is none. Places of open
// shapes are never taken by others, so only shapes that an older version has installed
// can block them.
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
		mine = -2 // a holder of any has one too many
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

// takeFrom takes the newest place of the owner with the most, if it has at least
// atLeast; nil if there is none, or one was taken only just now.
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
