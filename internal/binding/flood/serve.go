// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"time"

	"tidegate/internal/binding"
)

// request answers now if the peer's share allows, later if not, and never if too
// many wait already.
func (e *Engine) request(p *peer, d *decoded, now time.Time) {
	if len(p.waiting) == 0 && p.serve.take(0, now) {
		e.serve(p, d, now)
		return
	}
	if len(p.waiting) >= e.opts.Limits.ServeQueue {
		e.closePeer(p, TooMany, "more open requests than allowed", now)
		return
	}
	p.waiting = append(p.waiting, d)
}

func (e *Engine) serveWaiting(p *peer, now time.Time) {
	for len(p.waiting) > 0 && !p.gone && p.serve.take(0, now) {
		d := p.waiting[0]
		p.waiting = p.waiting[1:]
		e.serve(p, d, now)
	}
}

func (e *Engine) serve(p *peer, d *decoded, now time.Time) {
	var msg []byte
	switch d.kind {
	case GetNodes:
		var b []byte
		for _, n := range d.getNodes.Nodes {
			for _, h := range e.store.Children(int(d.getNodes.Tree), int(n)) {
				b = append(b, h[:]...)
			}
		}
		msg = encode(Nodes, d.id, b)
	case GetEntries:
		msg = encode(Entries, d.id, e.listEntries(&d.getEntries))
	case GetRecords:
		msg = encode(Records, d.id, e.findRecords(&d.getRecords))
	}
	p.serve.pay(len(msg), now)
	e.send(p, msg)
}

func (e *Engine) listEntries(q *getEntriesBody) entriesBody {
	var body entriesBody
	left := maxEntries
	for i, leaf := range q.Leaves {
		var after *binding.Slot
		if i == 0 && len(q.After) > 0 {
			slot := binding.Slot(q.After)
			after = &slot
		}
		list, more := e.store.AppendEntries([]byte{}, int(q.Tree), int(leaf), after, left)
		body.Lists = append(body.Lists, list)
		if left -= len(list); more {
			body.More = true
			break
		}
	}
	return body
}

func (e *Engine) findRecords(q *getRecordsBody) [][]byte {
	found := [][]byte{}
	size := 0
	for b := q.Wants; len(b) >= wantLen; b = b[wantLen:] {
		r := e.store.Get(int(q.Tree), binding.Slot(b[:16]), binding.Digest(b[16:wantLen]))
		if r == nil {
			continue
		}
		if size > 0 && size+len(r.Raw()) > maxAnswer {
			break
		}
		size += len(r.Raw())
		found = append(found, r.Raw())
	}
	return found
}
