// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"tidegate/internal/binding"
)

// Two trees of records, exchanged one after the other: those that others may
// hang on, and the rest.
const (
	GovernTree = 0
	BindTree   = 1
	Trees      = 2
)

// A tree has a root, Fanout nodes and Fanout*Fanout leaves. A record lies in
// the leaf that the first 12 bits of its slot name.
const (
	Fanout = 64
	Leaves = Fanout * Fanout
)

// Hash is a tree's SHA-256: of a leaf's entries, or of the hashes below.
type Hash [sha256.Size]byte

// EntryLen is the length of an entry: slot, serial (big-endian), digest.
const EntryLen = 16 + 8 + 16

// Entry is what managers tell each other of a record before they send it.
type Entry struct {
	Slot   binding.Slot
	Serial uint64
	Digest binding.Digest
}

// TreeOf names the tree of a record.
func TreeOf(r *binding.Record) int {
	if r.Governs() {
		return GovernTree
	}
	return BindTree
}

// LeafOf names the leaf of a slot.
func LeafOf(slot binding.Slot) int { return int(slot[0])<<4 | int(slot[1])>>4 }

type tree struct {
	leaves [][]*binding.Record // each in ascending order of slots
	hashes []Hash              // of the leaves
	nodes  [Fanout]Hash
	root   Hash
	stale  [Leaves / 64]uint64 // leaves whose hash is to be computed; word i is node i
	dirty  bool
}

func (t *tree) init() {
	t.leaves = make([][]*binding.Record, Leaves)
	t.hashes = make([]Hash, Leaves)
	empty := Hash(sha256.Sum256(nil))
	for i := range t.hashes {
		t.hashes[i] = empty
	}
	for i := range t.nodes {
		t.nodes[i] = hashOf(t.hashes[i*Fanout : (i+1)*Fanout])
	}
	t.root = hashOf(t.nodes[:])
}

func compareSlot(r *binding.Record, slot binding.Slot) int {
	have := r.Slot()
	return bytes.Compare(have[:], slot[:])
}

func (t *tree) find(slot binding.Slot) *binding.Record {
	leaf := t.leaves[LeafOf(slot)]
	if i, ok := slices.BinarySearchFunc(leaf, slot, compareSlot); ok {
		return leaf[i]
	}
	return nil
}

// put stores r and returns the record of the same slot that was there.
func (t *tree) put(r *binding.Record) *binding.Record {
	n := LeafOf(r.Slot())
	t.touch(n)
	i, ok := slices.BinarySearchFunc(t.leaves[n], r.Slot(), compareSlot)
	if ok {
		old := t.leaves[n][i]
		t.leaves[n][i] = r
		return old
	}
	t.leaves[n] = slices.Insert(t.leaves[n], i, r)
	return nil
}

func (t *tree) remove(slot binding.Slot) {
	n := LeafOf(slot)
	if i, ok := slices.BinarySearchFunc(t.leaves[n], slot, compareSlot); ok {
		t.touch(n)
		t.leaves[n] = slices.Delete(t.leaves[n], i, i+1)
	}
}

func (t *tree) touch(leaf int) {
	t.stale[leaf/64] |= 1 << (leaf % 64)
	t.dirty = true
}

func (t *tree) each(f func(*binding.Record)) {
	for _, leaf := range t.leaves {
		for _, r := range leaf {
			f(r)
		}
	}
}

// rehash brings the hashes up to date; only what has changed is computed.
func (t *tree) rehash() {
	if !t.dirty {
		return
	}
	var buf []byte
	for node, word := range t.stale {
		if word == 0 {
			continue
		}
		for i := range Fanout {
			if word&(1<<i) != 0 {
				n := node*Fanout + i
				buf = buf[:0]
				for _, r := range t.leaves[n] {
					buf = appendEntry(buf, r)
				}
				t.hashes[n] = sha256.Sum256(buf)
			}
		}
		t.nodes[node] = hashOf(t.hashes[node*Fanout : (node+1)*Fanout])
		t.stale[node] = 0
	}
	t.root = hashOf(t.nodes[:])
	t.dirty = false
}

func hashOf(list []Hash) Hash {
	h := sha256.New()
	for i := range list {
		h.Write(list[i][:])
	}
	return Hash(h.Sum(nil))
}

func appendEntry(b []byte, r *binding.Record) []byte {
	slot, digest := r.Slot(), r.Digest()
	b = append(b, slot[:]...)
	for shift := 56; shift >= 0; shift -= 8 {
		b = append(b, byte(r.Serial>>shift))
	}
	return append(b, digest[:]...)
}

// ParseEntry reads EntryLen bytes.
func ParseEntry(b []byte) Entry {
	var e Entry
	copy(e.Slot[:], b)
	for _, c := range b[16:24] {
		e.Serial = e.Serial<<8 | uint64(c)
	}
	copy(e.Digest[:], b[24:EntryLen])
	return e
}

// Roots returns the root hash of each tree: equal roots, equal stores.
func (s *Store) Roots() [Trees]Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	var roots [Trees]Hash
	for i := range s.trees {
		s.trees[i].rehash()
		roots[i] = s.trees[i].root
	}
	return roots
}

// Children returns the Fanout hashes below a node: of the root (node 0) or of the
// node node-1 below it.
func (s *Store) Children(t, node int) [Fanout]Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trees[t].rehash()
	if node == 0 {
		return s.trees[t].nodes
	}
	return [Fanout]Hash(s.trees[t].hashes[(node-1)*Fanout : node*Fanout])
}

// AppendEntries appends to b the entries of a leaf whose slots come after the
// given one (zero: all), as long as b does not grow beyond limit, and tells
// whether the leaf has more.
func (s *Store) AppendEntries(b []byte, t, leaf int, after *binding.Slot, limit int) (_ []byte, more bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.trees[t].leaves[leaf]
	if after != nil {
		i, found := slices.BinarySearchFunc(list, *after, compareSlot)
		if found {
			i++
		}
		list = list[i:]
	}
	for _, r := range list {
		if len(b)+EntryLen > limit {
			return b, true
		}
		b = appendEntry(b, r)
	}
	return b, false
}

// Wants tells whether a record that somebody describes so would be news.
func (s *Store) Wants(t int, e Entry) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	have := s.trees[t].find(e.Slot)
	switch {
	case have == nil:
		return true
	case have.Serial != e.Serial:
		return e.Serial > have.Serial
	}
	digest := have.Digest()
	return bytes.Compare(e.Digest[:], digest[:]) > 0
}

// Get returns the record with that slot and digest, or nil.
func (s *Store) Get(t int, slot binding.Slot, digest binding.Digest) *binding.Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.trees[t].find(slot); r != nil && r.Digest() == digest {
		return r
	}
	return nil
}

// All returns every record, those that others hang on first.
func (s *Store) All() []*binding.Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.list()
}

func (s *Store) list() []*binding.Record {
	list := make([]*binding.Record, 0, s.count)
	for t := range s.trees {
		s.trees[t].each(func(r *binding.Record) { list = append(list, r) })
	}
	return list
}
