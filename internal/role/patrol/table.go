// SPDX-License-Identifier: Apache-2.0

// Package patrol is the patrol role: it keeps the filters, sources and ports of
// the packet path, and takes filters from border managers. It must never see a
// packet, nor depend on the wire format between managers.
package patrol

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"tidegate/internal/ifp"
	"tidegate/internal/plane/patrolbpf"
)

// Types of the map ABI.
type (
	bucket   = patrolbpf.PatrolXdpTgPatrolBucket
	entry    = patrolbpf.PatrolXdpTgPatrolFilter
	Settings = patrolbpf.PatrolXdpTgPatrolSettings
)

// core/patrol.h
const (
	bucketTags  = 15
	bucketSlots = 16
	shapesMax   = 8
	keysLen     = 9
	shapeHole   = 255

	actionAllow = 4
)

// restFor is how long a slot stays empty after its filter was removed: a packet
// that has found the old filter has long finished with it.
const restFor = 100 * time.Millisecond

// Table holds the filters in memory that the packet path reads at the same time.
//
// Writing: the 64 bytes of a free slot are filled first, then its tag is stored,
// which is what packets look for; to remove a filter, the tag is cleared, and the slot
// rests. Changes to a live filter are single aligned words. So no
// packet can see half a filter, and packets take no lock.
type Table struct {
	mu      sync.Mutex
	tags    []bucket
	entries []entry
	keys    [keysLen]uint64
	busy    []uint16 // by bucket: slots that are in use or rest
	resting []rest   // oldest first
	used    int

	shapes, allow [2][2][shapesMax]shape // by direction and family
	opened        uint64                 // shapes opened so far
	taken         time.Time              // when a place was last taken from a network
	places        Places
	held          map[uint32]int // filters of each owner (shares.go)
	hand          uint32         // where the search for a filter to be given up goes on
	displaced     uint64
	publish       func(*Table) error // writes shapes to where packets read them
	ahead         ahead
}

// shape is one pair of prefix lengths in use.
type shape struct {
	srcBits, dstBits uint8
	id               uint8
	right            ifp.Right // the right by which its filters were requested
	owner            uint32    // 0: open to everybody
	opened           uint64    // higher: later
	filters          int
}

type rest struct {
	slot  uint32
	since time.Time
}

// ErrMemory: the memory has the wrong size.
var ErrMemory = errors.New("filter table: memory does not fit")

// NewTable places a table over the memory of the two maps. keys are secret random
// numbers; publish is called, with the table locked, when shapes have changed.
// Filters already in the memory are taken over with the shapes in old, unless old is of a table of another form.
func NewTable(tags, entries []byte, keys [keysLen]uint64, old *Settings, publish func(*Table) error) (*Table, error) {
	n := len(tags) / int(unsafe.Sizeof(bucket{}))
	if n == 0 || n > maxBuckets || len(entries) < n*bucketSlots*int(unsafe.Sizeof(entry{})) {
		return nil, ErrMemory
	}
	t := &Table{
		tags:    unsafe.Slice((*bucket)(unsafe.Pointer(&tags[0])), n),
		entries: unsafe.Slice((*entry)(unsafe.Pointer(&entries[0])), n*bucketSlots),
		keys:    keys, busy: make([]uint16, n), held: map[uint32]int{}, publish: publish,
	}
	switch {
	case old == nil:
	case int(old.Buckets) == n:
		t.takeOver(old)
	default: // of a version that placed filters in another way
		clear(t.tags)
		clear(t.entries)
	}
	return t, nil
}

// NewMemoryTable makes a table that no packet sees, for tests and benchmarks of
// the code around it.
func NewMemoryTable(capacity int) (*Table, error) {
	n := BucketsFor(capacity)
	return NewTable(make([]byte, n*int(unsafe.Sizeof(bucket{}))), make([]byte, n*bucketSlots*int(unsafe.Sizeof(entry{}))),
		randomKeys(), nil, func(*Table) error { return nil })
}

// BucketsFor returns the number of buckets for this many filters, which then fill 10 of 15 places on average.
func BucketsFor(filters int) int { return min(max((filters+9)/10, 16), maxBuckets) }

const maxBuckets = 1 << 28 // of which slots have numbers of 32 bits

// Capacity is the number of filters that the table holds at most. The remaining eighth keeps it likely that one of a
// filter's two buckets has a free slot, also while removed filters rest.
func (t *Table) Capacity() int { return len(t.tags) * bucketTags / 8 * 7 }

// Len is the number of filters, exceptions not counted.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// Install adds a filter, or changes the one of the same key. nowS is
// CLOCK_MONOTONIC in seconds.
func (t *Table) Install(f *ifp.Filter, nowS uint32) ifp.Code {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.install(f, nobodys, nil, nowS)
}

// InstallAll installs filters and puts a code for each into codes.
func (t *Table) InstallAll(filters []ifp.Filter, codes []ifp.Code, nowS uint32) {
	t.InstallGranted(filters, nil, codes, nowS)
}

// nobodys is the grant of filters without an owner.
var nobodys = ifp.Grant{Rights: ifp.ByDestination}

// grantOf is the grant of filter i; a list of grants may be missing.
func grantOf(grants []ifp.Grant, i int) ifp.Grant {
	if grants == nil {
		return nobodys
	}
	return grants[i]
}

// InstallGranted installs filters in the name of their requesters.
func (t *Table) InstallGranted(filters []ifp.Filter, grants []ifp.Grant, codes []ifp.Code, nowS uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range filters {
		at := t.lookAhead(filters, grants, i)
		codes[i] = t.install(&filters[i], grantOf(grants, i), at, nowS)
	}
}

// install installs a filter; at: its position, if it has been looked up ahead.
func (t *Table) install(f *ifp.Filter, g ifp.Grant, at *position, nowS uint32) ifp.Code {
	if f.Check() != nil || g.Rights != ifp.ByDestination && g.Rights != ifp.BySource {
		return ifp.BadFilter
	}
	k := f.Key()
	s, before, code := t.shapeFor(k, g)
	if code != ifp.OK {
		return code
	}
	return t.put(s, before, k, at, uint8(f.Action), f, g.Owner, nowS)
}

// Except adds an exception: no filter applies to this traffic.
func (t *Table) Except(k ifp.Key) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, before, code := t.allowFor(k)
	if code == ifp.OK {
		code = t.put(s, before, k, nil, actionAllow, &ifp.Filter{}, 0, 0)
	}
	if code != ifp.OK {
		return fmt.Errorf("exception %s -> %s: %v; use fewer different prefix lengths", k.Src, k.Dst, code)
	}
	return nil
}

// DropExceptions removes all exceptions.
func (t *Table) DropExceptions() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.eachSlot(func(slot uint32) {
		if t.entries[slot].Action == actionAllow {
			t.clear(slot)
		}
	})
	t.allow = [2][2][shapesMax]shape{}
	_ = t.publish(t)
}

// put enters a filter of shape s; before is the earlier content of the shape's place if it is new.
func (t *Table) put(s, before *shape, k ifp.Key, at *position, action uint8, f *ifp.Filter, owner, nowS uint32) ifp.Code {
	expires := uint32(0)
	if f.ExpiresS != 0 {
		expires = max(nowS+f.ExpiresS, 1)
	}
	policy := uint32(action) | uint32(s.id)<<8 | uint32(f.FloorLog2)<<16 | uint32(f.WindowS)<<24
	if at == nil || at.shape != s.id {
		p := t.positionOf(maskedKey(k, s))
		at = &p
	}
	slot, ok := t.find(at)
	if ok {
		e := &t.entries[slot]
		atomic.StoreUint32(&e.WindowMark, uint32(atomic.LoadUint64(&e.Packets)))
		atomic.StoreUint32(&e.WindowBeganS, nowS)
		atomic.StoreUint32(&e.ExpiresS, expires)
		atomic.StoreUint32(policyWord(e), policy)
		return ifp.OK
	}
	if len(t.resting) > 0 {
		t.wake(time.Now())
	}
	gaveUp := false
	if ok = action == actionAllow; !ok {
		ok, gaveUp = t.roomFor(s, owner, nowS)
	}
	if ok {
		slot, ok = t.free(at.home, at.tag)
	}
	if !ok {
		if before != nil {
			*s = *before // a 0 here would end the list before others
			if gaveUp {  // which may have published the new shape
				_ = t.publish(t)
			}
		}
		return ifp.TableFull
	}
	e := &t.entries[slot]
	*e = entry{ExpiresS: expires, WindowBeganS: nowS}
	e.Src.D, e.Dst.D = at.src, at.dst
	*policyWord(e) = policy
	b := slot / bucketSlots
	t.busy[b] |= 1 << (slot % bucketSlots)
	if b != at.home { // first where to look, then the tag
		atomic.StoreUint32(&t.tags[at.home].Spilled, t.tags[at.home].Spilled+1)
	}
	atomic.StoreUint32(&t.tags[b].Tag[slot%bucketSlots], at.tag)
	s.filters++
	if action != actionAllow {
		t.used++
		t.own(slot, owner)
	}
	if before != nil && t.publish(t) != nil {
		return ifp.PatrolDown
	}
	return ifp.OK
}

// policyWord is the word of action, shape, floor and window.
func policyWord(e *entry) *uint32 { return (*uint32)(unsafe.Pointer(&e.Action)) }

// lookup finds the filter of a key that was asked for by one right.
func (t *Table) lookup(k ifp.Key, right ifp.Right, owner uint32) (slot uint32, s *shape, ok bool) {
	if s = shapeOf(&t.shapes[k.Direction&1][family(k.Dst)], shapeKeyOf(k, right, owner)); s == nil {
		return 0, nil, false
	}
	p := t.positionOf(maskedKey(k, s))
	slot, ok = t.find(&p)
	return slot, s, ok
}

// rights are all that a grant can hold.
var rights = [...]ifp.Right{ifp.ByDestination, ifp.BySource}

// RemoveGranted removes filters requested by their grants' rights, and nothing else, and puts a code for each into codes.
func (t *Table) RemoveGranted(filters []ifp.Filter, grants []ifp.Grant, codes []ifp.Code) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range filters {
		t.lookAhead(filters, grants, i)
		codes[i] = t.remove(filters[i].Key(), grantOf(grants, i))
	}
}

func (t *Table) remove(k ifp.Key, g ifp.Grant) ifp.Code {
	code := ifp.NotFound
	for _, right := range rights {
		if slot, s, ok := t.lookup(k, right, g.Owner); ok && g.Rights&right != 0 {
			t.clear(slot)
			t.leave(s)
			code = ifp.OK
		}
	}
	return code
}

// leave notes that a shape has one filter less.
func (t *Table) leave(s *shape) {
	if s.filters--; s.filters == 0 {
		*s = shape{id: shapeHole}
		_ = t.publish(t) // if it fails, a look-up finds nothing: slower, not wrong
	}
}

// StatGranted appends to stats the counters of filters requested by their grants' rights.
func (t *Table) StatGranted(filters []ifp.Filter, grants []ifp.Grant, stats []ifp.Stat, nowS uint32) []ifp.Stat {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range filters {
		t.lookAhead(filters, grants, i)
		stats = append(stats, t.stat(filters[i].Key(), grantOf(grants, i), nowS))
	}
	return stats
}

func (t *Table) stat(k ifp.Key, g ifp.Grant, nowS uint32) ifp.Stat {
	st := ifp.Stat{Code: ifp.NotFound}
	for _, right := range rights {
		slot, _, ok := t.lookup(k, right, g.Owner)
		if !ok || g.Rights&right == 0 || t.expired(slot, nowS) {
			continue
		}
		e := &t.entries[slot]
		st.Code = ifp.OK
		st.Packets += atomic.LoadUint64(&e.Packets)
		st.Bytes += atomic.LoadUint64(&e.Bytes)
		if x := atomic.LoadUint32(&e.ExpiresS); x != 0 {
			st.ExpiresS = max(st.ExpiresS, x-nowS)
		}
	}
	return st
}

// expired returns what tg_patrol_ask would find, without a packet.
func (t *Table) expired(slot uint32, nowS uint32) bool {
	e := &t.entries[slot]
	if x := atomic.LoadUint32(&e.ExpiresS); x != 0 && int32(nowS-x) >= 0 {
		return true
	}
	if e.FloorLog2 == 0 {
		return false
	}
	elapsed := nowS - atomic.LoadUint32(&e.WindowBeganS)
	met := uint32(atomic.LoadUint64(&e.Packets)) - atomic.LoadUint32(&e.WindowMark)
	return elapsed > uint32(e.WindowS) && uint64(met) < uint64(elapsed)<<(e.FloorLog2-1)
}

// Sweep removes expired filters and returns how many.
func (t *Table) Sweep(nowS uint32) (removed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake(time.Now())
	t.eachSlot(func(slot uint32) {
		if t.entries[slot].Action == actionAllow || !t.expired(slot, nowS) {
			return
		}
		s := t.shapeByID(&t.shapes, t.entries[slot].Shape)
		t.clear(slot)
		t.leave(s)
		removed++
	})
	return removed
}

// eachSlot visits the slots whose tag is set.
func (t *Table) eachSlot(visit func(slot uint32)) {
	for b := range t.tags {
		for i := range bucketTags {
			if t.tags[b].Tag[i] != 0 {
				visit(uint32(b*bucketSlots + i))
			}
		}
	}
}

// Each visits every filter except exceptions, until visit returns false.
func (t *Table) Each(nowS uint32, visit func(ifp.Filter, ifp.Stat) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	goOn := true
	t.eachSlot(func(slot uint32) {
		e := &t.entries[slot]
		if !goOn || e.Action == actionAllow || t.expired(slot, nowS) {
			return
		}
		dir, fam, s := t.whereShape(&t.shapes, e.Shape)
		if s == nil {
			return
		}
		f := ifp.Filter{Src: netip.PrefixFrom(addrOf(e.Src.D, fam), int(s.srcBits)),
			Dst:    netip.PrefixFrom(addrOf(e.Dst.D, fam), int(s.dstBits)),
			Action: ifp.Action(e.Action), Direction: ifp.Direction(dir), FloorLog2: e.FloorLog2, WindowS: e.WindowS}
		st := ifp.Stat{Packets: atomic.LoadUint64(&e.Packets), Bytes: atomic.LoadUint64(&e.Bytes)}
		if e.ExpiresS != 0 {
			f.ExpiresS, st.ExpiresS = e.ExpiresS-nowS, e.ExpiresS-nowS
		}
		goOn = visit(f, st)
	})
}
