// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"time"

	"tidegate/internal/binding"
)

// governCost is what a record that others may hang on costs of a peer's push
// budget: replacing one may mean looking through the whole store.
const governCost = 20

// pushCost is what any other record costs, in tokens; one that is known already costs a tenth.
const pushCost = 10

// Publish takes a record of our own, stores it and pushes it to every peer.
func (e *Engine) Publish(raw []byte, now time.Time) (*binding.Record, error) {
	r, err := e.store.Admit(raw, now)
	if err != nil {
		return r, err
	}
	e.accepted(r, nil)
	e.forward(r, nil, now)
	return r, nil
}

// pushed looks at records that a peer sent unasked. What is beyond its budget is
// not looked at: if it was real, repair will find it.
func (e *Engine) pushed(p *peer, records [][]byte, now time.Time) {
	for _, raw := range records {
		if p.gone {
			return
		}
		digest := binding.DigestOf(raw)
		seen := e.seen.has(digest)
		cost := pushCost
		if seen { // in a mesh most records come more than once
			cost = 1
			e.stats.PushSeen++
		}
		if !p.push.take(cost, now) {
			e.stats.PushIgnored++
			if !p.ignored.take(1, now) {
				e.closePeer(p, TooMany, "more records pushed than any honest manager passes on", now)
			}
			continue
		}
		if !seen {
			e.judgePushed(p, raw, digest, now)
		}
	}
}

func (e *Engine) judgePushed(p *peer, raw []byte, digest binding.Digest, now time.Time) {
	r, err := e.store.Admit(raw, now)
	code := binding.CodeOf(err)
	if code == binding.OK {
		e.seen.add(digest)
		if r.Governs() {
			p.push.take((governCost-1)*pushCost, now)
		}
		e.accepted(r, p)
		e.forward(r, p, now)
		return
	}
	e.stats.Refused[code]++
	switch {
	case code.Forged():
		e.closePeer(p, BadRecord, err.Error(), now)
	case code == binding.Duplicate || code == binding.Stale:
		e.seen.add(digest)
	case code == binding.NoAuthority || code == binding.Wider:
		if l := &p.pull; !now.Before(l.nextHurry) {
			l.hurry, l.nextHurry = true, now.Add(hurryGap) // it may know an authority that we do not
		}
	}
}

func (e *Engine) accepted(r *binding.Record, from *peer) {
	e.stats.Accepted++
	if e.opts.OnRecord != nil {
		var id Peer
		if from != nil {
			id = from.id
		}
		e.opts.OnRecord(r, id)
	}
}

func (e *Engine) forward(r *binding.Record, except *peer, now time.Time) {
	if !e.forwards.take(1, now) {
		e.changed = true // a summary tells instead
		return
	}
	e.stats.Forwarded++
	e.broadcast(encode(Push, 0, [][]byte{r.Raw()}), except)
}

// recent remembers the last digests, in two halves that take turns.
type recent struct {
	limit    int
	new, old map[binding.Digest]struct{}
}

func newRecent(limit int) *recent {
	return &recent{limit: limit / 2, new: map[binding.Digest]struct{}{}}
}

func (s *recent) has(d binding.Digest) bool {
	if _, ok := s.new[d]; ok {
		return true
	}
	_, ok := s.old[d]
	return ok
}

func (s *recent) add(d binding.Digest) {
	if len(s.new) >= s.limit {
		s.old, s.new = s.new, map[binding.Digest]struct{}{}
	}
	s.new[d] = struct{}{}
}
