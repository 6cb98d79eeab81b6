// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"bytes"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

// What a peer answers to the questions of pull.go. Nothing in an answer is
// believed: an entry is a hint, a record is checked.

// answer takes the answer to a request of ours.
func (e *Engine) answer(p *peer, d *decoded, now time.Time) {
	l := &p.pull
	r := l.open[d.id]
	if r == nil {
		return // late: it was given up
	}
	e.close(l, d.id, r)
	if r.kind+1 != d.kind {
		e.closePeer(p, BadMessage, "an answer of another kind than the question", now)
		return
	}
	switch d.kind {
	case Nodes:
		e.gotNodes(p, r, d.hashes, now)
	case Entries:
		e.gotEntries(p, r, &d.entries, now)
	case Records:
		e.gotRecords(p, r, d.records, now)
	}
	e.ask(p, now)
}

func (e *Engine) gotNodes(p *peer, r *openRequest, hashes []byte, now time.Time) {
	const hashLen = len(store.Hash{})
	l := &p.pull
	if len(hashes) != len(r.nodes)*store.Fanout*hashLen {
		e.closePeer(p, BadMessage, "hashes of another number of nodes than asked for", now)
		return
	}
	for i, node := range r.nodes {
		mine := e.store.Children(r.tree, int(node))
		theirs := hashes[i*store.Fanout*hashLen:]
		// Each walk begins elsewhere, so that walks along several peers meet less.
		start := e.rand.IntN(store.Fanout)
		for k := range store.Fanout {
			c := (start + k) % store.Fanout
			if store.Hash(theirs[c*hashLen:(c+1)*hashLen]) == mine[c] {
				continue
			}
			if node == 0 {
				l.nodes = append(l.nodes, uint16(c+1))
			} else {
				l.leaves = append(l.leaves, leafJob{leaf: (node-1)*store.Fanout + uint16(c)})
			}
		}
	}
}

func (e *Engine) gotEntries(p *peer, r *openRequest, body *entriesBody, now time.Time) {
	l := &p.pull
	n := len(body.Lists)
	if n == 0 || n > len(r.leaves) || body.More && len(body.Lists[n-1]) == 0 && n == 1 {
		e.closePeer(p, BadMessage, "entries of other leaves than asked for", now)
		return
	}
	for i, list := range body.Lists {
		last := r.leaves[i].after
		for ; len(list) > 0; list = list[store.EntryLen:] {
			entry := store.ParseEntry(list)
			// Ascending, so that a leaf comes to an end.
			if store.LeafOf(entry.Slot) != int(r.leaves[i].leaf) || bytes.Compare(list[:len(entry.Slot)], last) <= 0 {
				e.closePeer(p, FalseEntry, "an entry outside its leaf or out of order", now)
				return
			}
			last = list[:len(entry.Slot)]
			if !e.store.Wants(r.tree, entry) || l.rejected.has(entry.Digest) {
				continue
			}
			if len(l.wants)+len(l.parked) >= e.opts.Limits.WantQueue {
				l.skipped = true
				continue
			}
			l.wants = append(l.wants, entry)
		}
	}
	rest := r.leaves[n:]
	if body.More {
		rest = r.leaves[n-1:]
		if last := body.Lists[n-1]; len(last) > 0 {
			slot := store.ParseEntry(last[len(last)-store.EntryLen:]).Slot
			rest[0].after = slot[:]
		}
	}
	l.leaves = append(rest[:len(rest):len(rest)], l.leaves...)
}

func (e *Engine) gotRecords(p *peer, r *openRequest, records [][]byte, now time.Time) {
	l := &p.pull
	e.land(p, r.wants)
	asked := make(map[binding.Digest]store.Entry, len(r.wants))
	for _, w := range r.wants {
		asked[w.Digest] = w
	}
	var later [][]byte
	for _, raw := range records {
		digest := binding.DigestOf(raw)
		entry, ok := asked[digest]
		if !ok {
			e.closePeer(p, BadMessage, "a record that was not asked for", now)
			return
		}
		delete(asked, digest)
		if !e.take(p, raw, entry, now, &later) {
			return
		}
	}
	// Authorities may have come in another order than they hang on each other.
	for more := true; more && len(later) > 0; {
		list := later
		later = nil
		for _, raw := range list {
			if !e.take(p, raw, store.Entry{}, now, &later) {
				return
			}
		}
		more = len(later) < len(list)
	}
	l.refused += len(later)
	if len(records) == 0 {
		e.strike(p, now)
		return
	}
	l.strikes = 0               // only records count: hashes and entries are cheap to make up
	for _, w := range r.wants { // too many for one answer
		if _, missing := asked[w.Digest]; missing {
			l.wants = append(l.wants, w)
		}
	}
}

// take admits one record that was asked for. It returns false if the peer is gone.
func (e *Engine) take(p *peer, raw []byte, entry store.Entry, now time.Time, later *[][]byte) bool {
	r, err := e.store.Admit(raw, now)
	if r != nil && entry != (store.Entry{}) && (r.Slot() != entry.Slot || r.Serial != entry.Serial) {
		e.closePeer(p, FalseEntry, "an entry that its record does not bear out", now)
		return false
	}
	code := binding.CodeOf(err)
	switch {
	case code == binding.OK:
		p.pull.gained++
		e.accepted(r, p)
		return true
	case code.Forged():
		e.stats.Refused[code]++
		e.closePeer(p, BadRecord, err.Error(), now)
		return false
	case code == binding.NoAuthority || code == binding.Wider:
		*later = append(*later, raw)
		return true
	case code != binding.Duplicate && code != binding.Stale:
		p.pull.refused++
		p.pull.rejected.add(binding.DigestOf(raw))
	}
	e.stats.Refused[code]++
	return true
}
