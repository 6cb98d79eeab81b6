// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"bytes"
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// setKey names a set.
type setKey struct {
	family      nftFamily
	table, name string
}

// nftSet is a set or a map.
type nftSet struct {
	flags    uint32
	keyLen   int
	dataLen  int
	verdicts bool  // a map of verdicts
	parts    []int // sizes of a concatenation's parts; none: one part
	read     bool  // its elements are here
	elements []element
	all      *element // what stands for every key
}

// element is a key or a range of keys.
type element struct {
	from, to []byte // both included
	verdict  fields
}

// Flags of sets and elements that the package unix lacks, from linux/netfilter/nf_tables.h.
const (
	verdictData     = 0xffffff00 // NFT_DATA_VERDICT
	elementCatchAll = 2
	elementKeyEnd   = 10
	setDescConcat   = 2
	setFieldLen     = 1
)

// changing reports whether packets or time add and remove elements, without notification.
func (s *nftSet) changing() bool { return s.flags&(unix.NFT_SET_EVAL|unix.NFT_SET_TIMEOUT) != 0 }

func newSet(f fields) *nftSet {
	s := &nftSet{flags: f.number(unix.NFTA_SET_FLAGS), keyLen: int(f.number(unix.NFTA_SET_KEY_LEN)),
		dataLen: int(f.number(unix.NFTA_SET_DATA_LEN)), verdicts: f.number(unix.NFTA_SET_DATA_TYPE) == verdictData}
	parts, _ := attrs(fieldsOf(f.get(unix.NFTA_SET_DESC)).get(setDescConcat))
	for _, p := range parts {
		s.parts = append(s.parts, (int(fieldsOf(p.value).number(setFieldLen))+3)&^3)
	}
	return s
}

// fill takes the elements as the kernel reports them.
func (s *nftSet) fill(list []fields) {
	s.read = true
	type edge struct {
		element
		end bool
	}
	var edges []edge
	for _, f := range list {
		key := fieldsOf(f.get(unix.NFTA_SET_ELEM_KEY)).get(unix.NFTA_DATA_VALUE)
		e := element{from: key, to: key}
		if data, there := f.find(unix.NFTA_SET_ELEM_DATA); there {
			e.verdict = fieldsOf(fieldsOf(data).get(unix.NFTA_DATA_VERDICT))
		}
		if end, there := f.find(elementKeyEnd); there {
			e.to = fieldsOf(end).get(unix.NFTA_DATA_VALUE)
		}
		flags := f.number(unix.NFTA_SET_ELEM_FLAGS)
		if flags&elementCatchAll != 0 {
			s.all = &e
			continue
		}
		edges = append(edges, edge{e, flags&unix.NFT_SET_ELEM_INTERVAL_END != 0})
	}
	if s.flags&unix.NFT_SET_INTERVAL == 0 || len(s.parts) > 1 {
		for _, e := range edges {
			s.elements = append(s.elements, e.element)
		}
		return
	}
	// A range is two elements: its begin, and what follows its end.
	slices.SortStableFunc(edges, func(a, b edge) int {
		if c := bytes.Compare(a.from, b.from); c != 0 {
			return c
		}
		return cmp.Compare(endFirst(a.end), endFirst(b.end))
	})
	for i, e := range edges {
		if e.end {
			continue
		}
		e.to = bytes.Repeat([]byte{0xff}, len(e.from))
		if i+1 < len(edges) {
			e.to = before(edges[i+1].from)
		}
		s.elements = append(s.elements, e.element)
	}
}

func endFirst(end bool) int {
	if end {
		return 0
	}
	return 1
}

// before is the key before another.
func before(key []byte) []byte {
	b := bytes.Clone(key)
	for i := len(b) - 1; i >= 0; i-- {
		b[i]--
		if b[i] != 0xff {
			break
		}
	}
	return b
}

// find looks a key up: whether it is there, and what it may meet.
func (s *nftSet) find(key value) (m match, hits []element) {
	if !s.read && !s.verdicts {
		return key.unsure(), nil
	}
	m = no
	for _, e := range s.elements {
		is := s.meets(key, e)
		if is == no {
			continue
		}
		if is == yes {
			m, hits = yes, []element{e}
			break
		}
		m, hits = max(m, is), append(hits, e)
	}
	if s.all != nil && m != yes {
		if hits = append(hits, *s.all); m == no {
			m = yes
		}
	}
	if s.changing() {
		m = max(maybe, key.unsure())
	}
	return m, hits
}

// meets compares part by part: each part of a concatenation has its own range.
func (s *nftSet) meets(key value, e element) match {
	if len(e.from) < len(key) || len(e.to) < len(key) {
		return key.unsure()
	}
	parts := s.parts
	if len(parts) == 0 {
		parts = []int{len(key)}
	}
	m, at := yes, 0
	for _, size := range parts {
		end := min(len(key), at+size)
		if m = m.and(key[at:end].within(e.from[at:end], e.to[at:end])); m == no {
			return no
		}
		at = end
	}
	return m
}
