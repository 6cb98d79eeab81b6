// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"time"

	"tidegate/internal/binding/store"
)

// Repair: when a peer's roots differ from ours, walk its trees down to the
// entries that we lack and ask for their records. One tree after the other,
// because what others hang on must come first. Every queue is bounded; work
// that finds no room is found again by the next walk.

type pull struct {
	open map[uint32]*openRequest

	active    bool
	tree      int
	nodes     []uint16
	leaves    []leafJob
	wants     []store.Entry
	parked    []store.Entry // wanted, but asked of somebody else just now
	listing   int           // open requests for entries
	listed    int           // leaves, in this walk
	gained    int           // records, in this walk
	refused   int           // records, in this walk
	skipped   bool          // there was no room for all that it has
	hurry     bool          // begin as soon as possible
	nextHurry time.Time
	summaries int // heard
	used      int // summaries, when the last walk began

	due      time.Time     // not before
	idle     time.Duration // how long walks without gain are put off
	strikes  int           // questions in a row that were not really answered
	distrust time.Time     // nothing is asked before
	patience int           // how often it was distrusted
	// What it has and we may not take: not asked for again for a while.
	rejected *recent
}

type leafJob struct {
	leaf  uint16
	after []byte
}

type openRequest struct {
	kind     Kind
	tree     int
	deadline time.Time
	nodes    []uint16
	leaves   []leafJob
	wants    []store.Entry
}

const (
	settle      = 300 * time.Millisecond // roots that differ may be about to agree
	hurryGap    = 2 * time.Second
	idleMin     = time.Second
	idleMax     = 16 * time.Second
	refusedMax  = time.Minute
	maxListing  = 2 // open requests for entries: their answers fit into WantQueue
	maxStrikes  = 3
	distrustMin = 20 * time.Second
	maxRejected = 4096
)

func (l *pull) init() {
	l.open = map[uint32]*openRequest{}
	l.rejected = newRecent(maxRejected)
	l.idle = idleMin
}

// repair begins a walk if one is due, and asks on if there is room.
func (e *Engine) repair(p *peer, now time.Time) {
	l := &p.pull
	if p.gone || now.Before(l.distrust) {
		return
	}
	if !l.active && (l.hurry || p.haveRoots && l.summaries != l.used) {
		if !l.hurry && now.Before(l.due) {
			return
		}
		if p.roots == e.store.Roots() && !l.hurry {
			l.due = now.Add(settle)
			return
		}
		e.begin(p, now)
	}
	e.ask(p, now)
}

func (e *Engine) begin(p *peer, now time.Time) {
	l := &p.pull
	l.active, l.hurry, l.used = true, false, l.summaries
	l.listed, l.gained, l.refused, l.skipped = 0, 0, 0, false
	e.stats.Sessions++
	e.beginTree(p, store.GovernTree)
}

func (e *Engine) beginTree(p *peer, tree int) {
	l := &p.pull
	roots := e.store.Roots()
	for ; tree < store.Trees; tree++ {
		if p.roots[tree] != roots[tree] {
			l.tree, l.nodes = tree, []uint16{0}
			return
		}
	}
	l.tree = store.Trees
}

// ask sends requests as far as the window allows.
func (e *Engine) ask(p *peer, now time.Time) {
	l := &p.pull
	for l.active && !p.gone && len(l.open) < e.opts.Limits.Window {
		switch {
		case len(l.wants) > 0:
			e.askRecords(p, now)
		case len(l.leaves) > 0 && l.listing < maxListing:
			e.askEntries(p, now)
		case len(l.nodes) > 0 && len(l.leaves) == 0:
			n := min(len(l.nodes), maxNodes)
			r := &openRequest{kind: GetNodes, nodes: l.nodes[:n]}
			l.nodes = l.nodes[n:]
			e.open(p, r, getNodesBody{Tree: uint8(l.tree), Nodes: r.nodes}, now)
		case len(l.open) > 0:
			return // answers will bring more
		case len(l.parked) > 0:
			if e.unpark(p, now); len(l.wants) == 0 && len(l.parked) > 0 {
				return // until the next tick
			}
		case l.tree+1 < store.Trees:
			e.beginTree(p, l.tree+1)
		default:
			e.end(p, now)
		}
	}
}

// unpark asks for what another peer was asked for and did not bring.
func (e *Engine) unpark(p *peer, now time.Time) {
	l := &p.pull
	kept := l.parked[:0]
	for _, w := range l.parked {
		if !e.store.Wants(l.tree, w) {
			continue
		}
		if f, asked := e.inFlight[w.Digest]; asked && now.Before(f.deadline) {
			kept = append(kept, w)
		} else {
			l.wants = append(l.wants, w)
		}
	}
	l.parked = kept
}

func (e *Engine) askEntries(p *peer, now time.Time) {
	l := &p.pull
	n := min(len(l.leaves), maxLeaves)
	for i := 1; i < n; i++ {
		if l.leaves[i].after != nil {
			n = i // only the first leaf of a request can go on where it left off
		}
	}
	r := &openRequest{kind: GetEntries, leaves: l.leaves[:n]}
	l.leaves = l.leaves[n:]
	body := getEntriesBody{Tree: uint8(l.tree), After: r.leaves[0].after}
	if body.After == nil {
		body.After = []byte{}
	}
	for _, j := range r.leaves {
		body.Leaves = append(body.Leaves, j.leaf)
	}
	l.listing++
	l.listed += n
	e.open(p, r, body, now)
}

func (e *Engine) askRecords(p *peer, now time.Time) {
	l := &p.pull
	r := &openRequest{kind: GetRecords}
	body := getRecordsBody{Tree: uint8(l.tree)}
	for len(l.wants) > 0 && len(r.wants) < maxWants {
		w := l.wants[0]
		l.wants = l.wants[1:]
		if !e.store.Wants(l.tree, w) {
			continue
		}
		if f, asked := e.inFlight[w.Digest]; asked && now.Before(f.deadline) {
			l.parked = append(l.parked, w)
			continue
		}
		if len(e.inFlight) >= e.opts.Limits.InFlight {
			l.skipped = true
			continue
		}
		e.inFlight[w.Digest] = flight{p.id, now.Add(e.opts.Limits.RequestTime)}
		r.wants = append(r.wants, w)
		body.Wants = append(append(body.Wants, w.Slot[:]...), w.Digest[:]...)
	}
	if len(r.wants) > 0 {
		e.stats.Asked += uint64(len(r.wants))
		e.open(p, r, body, now)
	}
}

func (e *Engine) open(p *peer, r *openRequest, body any, now time.Time) {
	e.lastID++
	if e.lastID == 0 {
		e.lastID = 1
	}
	r.tree, r.deadline = p.pull.tree, now.Add(e.opts.Limits.RequestTime)
	p.pull.open[e.lastID] = r
	e.send(p, encode(r.kind, e.lastID, body))
}

func (e *Engine) close(l *pull, id uint32, r *openRequest) {
	delete(l.open, id)
	if r.kind == GetEntries {
		l.listing--
	}
}

// land forgets that records were asked of a peer.
func (e *Engine) land(p *peer, wants []store.Entry) {
	for _, w := range wants {
		if e.inFlight[w.Digest].peer == p.id {
			delete(e.inFlight, w.Digest)
		}
	}
}

// end closes a walk and says when the next may begin.
func (e *Engine) end(p *peer, now time.Time) {
	l := &p.pull
	l.active = false
	if l.gained > 0 {
		e.changed = true
		l.idle = idleMin
	}
	switch {
	case l.gained > 0 || l.skipped:
		l.due = now.Add(settle)
		l.used-- // its last summary may still show more than we have now
	case l.refused > 0 || l.listed > 0:
		// It has nothing for us: it lacks what we have, its clock or anchors are other
		// ones, or its hashes are lies. Look less and less often.
		limit := idleMax
		if l.refused > 0 {
			limit = refusedMax
		}
		l.due = now.Add(l.idle)
		l.idle = min(2*l.idle, limit)
	default:
		l.due = now.Add(settle)
	}
}

// timeouts gives up requests that were not answered in time.
func (e *Engine) timeouts(p *peer, now time.Time) {
	for id, r := range p.pull.open {
		if now.After(r.deadline) {
			e.close(&p.pull, id, r)
			e.land(p, r.wants)
			e.stats.Unanswered++
			e.strike(p, now)
		}
	}
}

// strike counts a question that was not answered. After some in a row the peer is
// asked nothing for a while, and others are.
func (e *Engine) strike(p *peer, now time.Time) {
	l := &p.pull
	if l.strikes++; l.strikes < maxStrikes {
		return
	}
	l.strikes = 0
	l.distrust = now.Add(distrustMin << min(l.patience, 5))
	l.patience++
	for id, r := range l.open {
		e.close(l, id, r)
		e.land(p, r.wants)
	}
	l.active, l.nodes, l.leaves, l.wants, l.parked = false, nil, nil, nil, nil
	l.due = l.distrust
}
