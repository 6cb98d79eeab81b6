// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"math/rand/v2"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/flood"
	"tidegate/internal/binding/store"
)

// Kinds of hostile managers, dealt out in turn. Each has a certificate and may connect.
const (
	liarForged   = "liar-forged"   // makes up entries and delivers forged records
	liarEmpty    = "liar-empty"    // makes up entries and delivers nothing; pushes records beyond their authority
	liarHashes   = "liar-hashes"   // says that everything differs and shows nothing
	replayer     = "replayer"      // keeps to the protocol and pushes superseded and expired records without end
	withholder   = "withholder"    // keeps to the protocol, but never delivers a record nor passes one on
	floodPush    = "flooder-push"  // pushes known records as fast as the connection takes them
	floodRequest = "flooder-ask"   // asks for everything as fast as the connection takes it
	floodJunk    = "flooder-bytes" // sends bytes that mean nothing
)

var hostileKinds = []string{liarForged, replayer, withholder, floodPush, liarEmpty, floodRequest, liarHashes, floodJunk}

// inTransit is what a flooder may have sent that is not read: a socket's buffers.
const inTransit = 256 << 10

// liar speaks the protocol without an engine.
type liar struct {
	net    *network
	node   *node
	kind   string
	pop    *population
	rand   *rand.Rand
	forged [][]byte
	id     uint32
	ticks  int
	out    []outgoing
}

func newLiar(net *network, n *node, kind string, p *population, seed uint64) *liar {
	l := &liar{net: net, node: n, kind: kind, pop: p, rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range 16 {
		raw := bytes.Clone(p.bindings[(n.index*31+i)%len(p.bindings)].Raw())
		raw[len(raw)-1-i] ^= 1
		l.forged = append(l.forged, raw)
	}
	return l
}

func (l *liar) say(to *node, msg []byte) { l.out = append(l.out, outgoing{to: to, msg: msg}) }

func (l *liar) drain() []outgoing {
	out := l.out
	l.out = nil
	return out
}

func (l *liar) sent(*node, int)                          {}
func (l *liar) wait(*node, int, time.Time) time.Duration { return 0 }
func (l *liar) disconnect(*node)                         {}
func (l *liar) connect(peer *node, _ time.Time) error    { l.say(peer, l.summary()); return nil }
func (l *liar) noise(n int) []byte                       { b := make([]byte, n); l.fill(b); return b }
func (l *liar) pick(list []*binding.Record, n int) (r [][]byte) {
	for range n {
		r = append(r, list[l.rand.IntN(len(list))].Raw())
	}
	return r
}

func (l *liar) fill(b []byte) {
	for i := range b {
		b[i] = byte(l.rand.Uint32())
	}
}

func (l *liar) summary() []byte {
	var roots [store.Trees]store.Hash
	for i := range roots {
		l.fill(roots[i][:])
	}
	return flood.EncodeSummary(roots)
}

func (l *liar) receive(peer *node, msg []byte, _ time.Time) {
	q, err := flood.ReadRequest(msg)
	if err != nil {
		return
	}
	switch q.Kind {
	case flood.GetNodes:
		l.say(peer, flood.EncodeNodes(q.ID, l.noise(len(q.Nodes)*store.Fanout*32)))
	case flood.GetEntries:
		lists := make([][]byte, len(q.Leaves))
		for i, leaf := range q.Leaves {
			lists[i] = l.entries(leaf)
		}
		l.say(peer, flood.EncodeEntries(q.ID, lists, false))
	case flood.GetRecords:
		if l.kind == liarForged {
			l.say(peer, flood.EncodeRecords(q.ID, l.forged[:1]))
		} else {
			l.say(peer, flood.EncodeRecords(q.ID, [][]byte{}))
		}
	}
}

// entries makes up what a leaf holds.
func (l *liar) entries(leaf uint16) []byte {
	if l.kind == liarHashes {
		return []byte{}
	}
	b := l.noise(20 * store.EntryLen)
	for e := b; len(e) > 0; e = e[store.EntryLen:] {
		e[0], e[1], e[16] = byte(leaf>>4), byte(leaf<<4)|e[1]&15, 0
		e[2] = byte((len(b) - len(e)) / store.EntryLen) // in ascending order, or it would be found out at once
		e[1] = byte(leaf << 4)
		if l.kind == liarForged {
			d := binding.DigestOf(l.forged[0])
			copy(e[24:], d[:])
		}
	}
	return b
}

func (l *liar) tick(time.Time) {
	l.ticks++
	for _, to := range l.node.links {
		if !to.up {
			continue
		}
		if l.ticks%5 == 0 {
			l.say(to.to, l.summary())
		}
		switch l.kind {
		case liarForged:
			if l.ticks%50 == 0 { // after some time of lying otherwise
				l.say(to.to, flood.EncodePush(l.forged))
			}
		case liarEmpty:
			l.say(to.to, flood.EncodePush(l.pick(l.pop.wide, 4)))
		case floodPush, floodRequest, floodJunk:
			l.flood(to)
		}
	}
}

// flood fills a connection as TCP would let it.
func (l *liar) flood(to *link) {
	for room := inTransit - to.outstanding; room > 0; {
		var msg []byte
		l.id++
		switch l.kind {
		case floodPush:
			msg = flood.EncodePush(l.pick(l.pop.bindings, 16))
		case floodRequest:
			var leaves []uint16
			for range 64 {
				leaves = append(leaves, uint16(l.rand.IntN(store.Leaves)))
			}
			msg = flood.EncodeGetEntries(l.id, store.BindTree, leaves)
		default:
			msg = l.noise(4096)
		}
		l.say(to.to, msg)
		room -= len(msg)
	}
}

// twisted is the real engine with one vice.
type twisted struct {
	*honest
	kind string
	pop  *population
	rand *rand.Rand
	out  []outgoing
}

func (t *twisted) receive(peer *node, msg []byte, now time.Time) {
	if t.kind == withholder {
		if q, err := flood.ReadRequest(msg); err == nil && q.Kind == flood.GetRecords {
			return
		}
	}
	t.honest.receive(peer, msg, now)
}

func (t *twisted) tick(now time.Time) {
	t.honest.tick(now)
	if t.kind != replayer {
		return
	}
	for _, l := range t.node.links {
		if !l.up || l.outstanding > inTransit {
			continue
		}
		var list [][]byte
		for range 8 {
			list = append(list, t.pop.old[t.rand.IntN(len(t.pop.old))].Raw(), t.pop.expired[t.rand.IntN(len(t.pop.expired))].Raw())
		}
		t.out = append(t.out, outgoing{to: l.to, msg: flood.EncodePush(list)})
	}
}

func (t *twisted) drain() []outgoing {
	out := append(t.honest.drain(), t.out...)
	t.out = nil
	if t.kind != withholder {
		return out
	}
	kept := out[:0]
	for _, o := range out {
		if q, err := flood.ReadRequest(o.msg); o.close || err != nil || q.Kind != flood.Push {
			kept = append(kept, o)
		}
	}
	return kept
}
