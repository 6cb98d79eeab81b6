// SPDX-License-Identifier: Apache-2.0

// Package flood brings every binding to every manager: what is new is pushed
// along the links at once, and trees of hashes find what was missed. A record is
// checked before it is stored and before it is passed on.
//
// The engine is a state machine: messages, time and connections go in, messages
// go out. It must not open a socket, read a clock or start a goroutine: the same
// code runs over TLS (internal/binding/node) and in a simulation
// (internal/binding/sim). docs/bindings.md has the protocol.
package flood

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tidegate/internal/binding"
	"tidegate/internal/binding/store"
)

// Peer is who is at the other end: the key that its certificate proves.
type Peer = binding.Key

// TickEvery is how often Tick wants to be called.
const TickEvery = 100 * time.Millisecond

// Options of an engine.
type Options struct {
	Store  *store.Store
	Limits Limits
	// Allow tells whether a peer may be connected at all; asked again every second.
	// nil: anybody.
	Allow func(Peer) bool
	// Seed of the engine's own randomness: jitter and the order of repairs.
	Seed uint64
	// OnRecord hears of every record that was accepted. It must not call the engine.
	OnRecord func(r *binding.Record, from Peer)
}

// Output is one thing to do: send Msg to Peer or, if Close is set, end the connection.
type Output struct {
	Peer  Peer
	Msg   []byte
	Close bool
	Why   Reason
}

// Engine must be used by one goroutine at a time.
type Engine struct {
	opts  Options
	store *store.Store
	rand  *rand.Rand

	peers    map[Peer]*peer
	order    []*peer // of connecting, so that nothing depends on the order of a map
	bans     map[Peer]ban
	inFlight map[binding.Digest]flight
	seen     *recent // pushed records that need not be looked at again

	out         []Output
	stats       Stats
	nextSummary time.Time
	lastSummary time.Time
	nextReview  time.Time
	changed     bool // by repair, since the last summary
	lastID      uint32
	forwards    limiter
}

type ban struct {
	until time.Time
	times int
}

type flight struct {
	peer     Peer
	deadline time.Time
}

// peer is what the engine knows of one connection.
type peer struct {
	id     Peer
	gone   bool
	queued int // bytes handed out and not yet sent
	heard  time.Time

	read, serve, push, ignored limiter
	waiting                    []*decoded // requests that wait for their share

	roots     [store.Trees]store.Hash
	haveRoots bool
	pull      pull
}

const (
	summaryGap  = 250 * time.Millisecond // between summaries that changes cause
	reviewEvery = time.Second
	maxBans     = 4096
	maxSeen     = 16384
)

// New makes an engine without peers.
func New(o Options) *Engine {
	o.Limits.setDefaults()
	return &Engine{opts: o, forwards: newLimiter(o.Limits.ForwardRate, 4*o.Limits.ForwardRate), store: o.Store, rand: rand.New(rand.NewPCG(o.Seed, 0x7469646567617465)),
		peers: map[Peer]*peer{}, bans: map[Peer]ban{}, inFlight: map[binding.Digest]flight{}, seen: newRecent(maxSeen)}
}

// Connect tells of a new connection. An error says why it is not wanted.
func (e *Engine) Connect(id Peer, now time.Time) error {
	l := &e.opts.Limits
	switch b, banned := e.bans[id]; {
	case banned && now.Before(b.until):
		return fmt.Errorf("peer %s: %s until %s", id, BannedReason, b.until.UTC().Format(time.RFC3339))
	case e.opts.Allow != nil && !e.opts.Allow(id):
		return fmt.Errorf("peer %s: %s: neither a configured neighbour nor a manager with a valid binding", id, NotAllowed)
	case e.peers[id] != nil:
		return fmt.Errorf("peer %s is connected already", id)
	case len(e.peers) >= l.Peers:
		return fmt.Errorf("peer %s: %s: %d connections", id, TooMany, len(e.peers))
	}
	p := &peer{id: id, heard: now, read: newLimiter(l.ReadRate, l.ReadRate), serve: newLimiter(l.ServeRate, l.ServeRate),
		push: newLimiter(l.PushRate*pushCost, l.PushBurst*pushCost), ignored: newLimiter(l.IgnoreRate, 10*l.IgnoreRate)}
	p.pull.init()
	e.peers[id] = p
	e.order = append(e.order, p)
	e.send(p, e.summary())
	return nil
}

// Disconnect tells that a connection has ended by itself.
func (e *Engine) Disconnect(id Peer) {
	if p := e.peers[id]; p != nil {
		e.forget(p)
	}
}

func (e *Engine) forget(p *peer) {
	p.gone = true
	delete(e.peers, p.id)
	e.order = slices.DeleteFunc(e.order, func(q *peer) bool { return q == p })
	for _, r := range p.pull.open {
		e.land(p, r.wants)
	}
}

// closePeer ends a connection and remembers why.
func (e *Engine) closePeer(p *peer, why Reason, text string, now time.Time) {
	if p.gone {
		return
	}
	if len(text) > maxByeText {
		text = text[:maxByeText]
	}
	e.send(p, encode(Bye, 0, byeBody{Code: why, Text: text}))
	e.out = append(e.out, Output{Peer: p.id, Close: true, Why: why})
	e.stats.Closed[why]++
	if why.banned() {
		e.ban(p.id, now)
	}
	e.forget(p)
}

func (e *Engine) ban(id Peer, now time.Time) {
	if _, ok := e.bans[id]; !ok && len(e.bans) >= maxBans {
		for other, b := range e.bans {
			if now.After(b.until) {
				delete(e.bans, other)
			}
		}
		if len(e.bans) >= maxBans {
			return // this many keys of valid bindings misbehave: the limits per peer must do
		}
	}
	b := e.bans[id]
	b.until = now.Add(e.opts.Limits.BanTime << min(b.times, 6))
	b.times++
	e.bans[id] = b
}

// Receive takes one message. The engine keeps no part of msg.
func (e *Engine) Receive(id Peer, msg []byte, now time.Time) {
	p := e.peers[id]
	if p == nil {
		return
	}
	e.stats.BytesIn += uint64(len(msg))
	p.heard = now
	d, err := decode(msg)
	if err != nil {
		e.closePeer(p, BadMessage, err.Error(), now)
		return
	}
	switch d.kind {
	case Summary:
		p.roots, p.haveRoots = d.roots, true
		p.pull.summaries++
	case GetNodes, GetEntries, GetRecords:
		e.request(p, d, now)
	case Nodes, Entries, Records:
		e.answer(p, d, now)
	case Push:
		e.pushed(p, d.records, now)
	case Bye:
		e.out = append(e.out, Output{Peer: p.id, Close: true, Why: d.bye.Code})
		e.forget(p)
	}
}

// Tick does what is due. Call it every TickEvery or so.
func (e *Engine) Tick(now time.Time) {
	if !now.Before(e.nextReview) {
		e.nextReview = now.Add(reviewEvery)
		e.review(now)
	}
	for _, p := range slices.Clone(e.order) {
		e.timeouts(p, now)
		e.serveWaiting(p, now)
		e.repair(p, now)
	}
	due := e.changed && now.Sub(e.lastSummary) >= summaryGap
	if due || !now.Before(e.nextSummary) {
		every := e.opts.Limits.SummaryEvery
		e.nextSummary = now.Add(every*3/4 + time.Duration(e.rand.Int64N(int64(every/2))))
		e.lastSummary, e.changed = now, false
		e.broadcast(e.summary(), nil)
	}
}

// review drops what has run out: records, silent peers, peers whose right has ended.
func (e *Engine) review(now time.Time) {
	e.store.Expire(now)
	for _, p := range slices.Clone(e.order) {
		switch {
		case now.Sub(p.heard) > e.opts.Limits.SilenceTime:
			e.closePeer(p, Silent, "nothing heard", now)
		case p.queued > e.opts.Limits.QueuedBytes:
			e.closePeer(p, TooSlow, "the peer does not read", now)
		case e.opts.Allow != nil && !e.opts.Allow(p.id):
			e.closePeer(p, NotAllowed, "no valid binding", now)
		}
	}
}

func (e *Engine) summary() []byte { return EncodeSummary(e.store.Roots()) }

func (e *Engine) send(p *peer, msg []byte) {
	p.queued += len(msg)
	e.stats.BytesOut += uint64(len(msg))
	e.out = append(e.out, Output{Peer: p.id, Msg: msg})
}

func (e *Engine) broadcast(msg []byte, except *peer) {
	for _, p := range e.order {
		// Who does not read gets no more pushed; repair will tell it later.
		if p != except && p.queued < e.opts.Limits.QueuedBytes/2 {
			e.send(p, msg)
		}
	}
}

// Drain returns what is to be done, in order, and forgets it.
func (e *Engine) Drain() []Output {
	out := e.out
	e.out = nil
	return out
}

// Sent tells that n bytes of messages have left for a peer.
func (e *Engine) Sent(id Peer, n int) {
	if p := e.peers[id]; p != nil {
		p.queued -= n
	}
}

// Wait tells how long to wait before the next n bytes are read from a peer, which
// bounds what it can make us work. Call it once for each message.
func (e *Engine) Wait(id Peer, n int, now time.Time) time.Duration {
	if p := e.peers[id]; p != nil {
		return p.read.pay(n, now)
	}
	return 0
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Peers, s.Bans = len(e.peers), len(e.bans)
	return s
}

// Synced tells whether every peer's last summary shows what our store holds.
func (e *Engine) Synced() bool {
	roots := e.store.Roots()
	for _, p := range e.order {
		if !p.haveRoots || p.roots != roots {
			return false
		}
	}
	return true
}

// Banned tells whether a peer was closed for what it did.
func (e *Engine) Banned(id Peer) bool {
	_, ok := e.bans[id]
	return ok
}
