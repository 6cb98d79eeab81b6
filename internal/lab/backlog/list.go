// SPDX-License-Identifier: Apache-2.0

package backlog

import "math/rand/v2"

// tcbBytes is about what a half-open connection took up (a socket, its PCB and its TCP control block), so that a walk
// touches as much memory: 736 bytes, by *Me Love (SYN-)Cookies*.
const tcbBytes = 736

// tuple identifies a client.
type tuple struct {
	ip   uint32
	port uint16
}

// entry is one half-open connection.
type entry struct {
	next, prev *entry
	who        tuple
	iss, irs   uint32
	_          [tcbBytes - 16 - 16]byte
}

// list is a listen queue: new connections are appended; the place of each is found only by walking from the front.
type list struct {
	head, tail *entry
	free       *entry
	n, limit   int
	rng        *rand.Rand

	// Counts of what walking cost.
	Dropped  uint64 // at random, for a newcomer
	Walked   uint64 // entries passed on the way to those
	Searches uint64
	Searched uint64 // entries compared in them
}

// limitFor is how many half-open connections 4.4BSD keeps for a backlog.
func limitFor(backlog int) int { return backlog * 3 / 2 }

func newList(limit int, seed uint64) *list {
	l := &list{limit: limit, rng: rand.New(rand.NewPCG(seed, 4))}
	all := make([]entry, limit)
	for i := range all {
		all[i].next, l.free = l.free, &all[i]
	}
	return l
}

// add appends a newcomer, in place of a random entry if the list is full.
func (l *list) add(who tuple, iss, irs uint32) {
	if l.n == l.limit {
		l.dropRandom()
	}
	e := l.free
	l.free = e.next
	e.who, e.iss, e.irs, e.next, e.prev = who, iss, irs, nil, l.tail
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
	l.n++
}

// dropRandom is sodropablereq() of 4.4BSD: it walks to an entry chosen at random.
func (l *list) dropRandom() {
	e := l.head
	steps := l.rng.IntN(l.n)
	for range steps {
		e = e.next
	}
	l.Dropped++
	l.Walked += uint64(steps) + 1
	l.remove(e)
}

// find searches for a client's entry.
func (l *list) find(who tuple) *entry {
	l.Searches++
	for e := l.head; e != nil; e = e.next {
		l.Searched++
		if e.who == who {
			return e
		}
	}
	return nil
}

func (l *list) remove(e *entry) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.next, l.free = l.free, e
	l.n--
}
