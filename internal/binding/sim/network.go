// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"container/heap"
	"time"

	"tidegate/internal/binding"
)

// network is managers, links between them and one virtual clock.
type network struct {
	opts   Options
	now    time.Duration // since begin
	events eventHeap
	seq    uint64
	nodes  []*node
	byKey  map[binding.Key]*node
	lib    *library
}

// node is one manager: an actor with a processor of its own.
type node struct {
	key       binding.Key
	index     int
	hostile   string // "", or what kind
	act       actor
	links     []*link
	busyUntil time.Duration
	verified  int // signatures since the last look
	bytesIn   uint64
	bytesOut  uint64
}

// actor is what runs on a node. All output goes through network.transmit.
type actor interface {
	connect(peer *node, now time.Time) error
	disconnect(peer *node)
	receive(peer *node, msg []byte, now time.Time)
	tick(now time.Time)
	// sent tells that the other end has taken n bytes.
	sent(peer *node, n int)
	// wait is how long to read nothing from peer after these n bytes.
	wait(peer *node, n int, now time.Time) time.Duration
}

// link is one direction of a connection.
type link struct {
	from, to    *node
	up          bool
	epoch       int           // of connections: what is on its way when one ends is lost
	free        time.Duration // the sender may put the next bit on the wire
	readable    time.Duration // the receiver reads again
	outstanding int           // bytes sent and not yet read
	queue       []*event      // on their way, in order; only the first one is scheduled
	back        *link
}

type event struct {
	at   time.Duration
	seq  uint64
	link *link
	msg  []byte
	node *node // tick
	do   func()
	gen  int
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *eventHeap) Pop() any {
	old := *h
	n := len(old)
	e := old[n-1]
	old[n-1] = nil
	*h = old[:n-1]
	return e
}

func (n *network) schedule(e *event) {
	n.seq++
	e.seq = n.seq
	heap.Push(&n.events, e)
}

func (n *network) time(at time.Duration) time.Time { return begin.Add(at) }

// transmit puts a message on a link at the time at.
func (n *network) transmit(l *link, msg []byte, at time.Duration) {
	if !l.up {
		return
	}
	start := max(at, l.free)
	l.free = start + time.Duration(float64(len(msg)*8)/n.opts.LinkRate*1e9)
	l.outstanding += len(msg)
	l.from.bytesOut += uint64(len(msg))
	l.queue = append(l.queue, &event{at: l.free + n.opts.Delay, link: l, msg: msg, gen: l.epoch})
	if len(l.queue) == 1 {
		n.schedule(l.queue[0])
	}
}

// run lets time pass until it reaches until or done says so.
func (n *network) run(until time.Duration, done func() bool) {
	for len(n.events) > 0 && n.events[0].at <= until {
		e := heap.Pop(&n.events).(*event)
		n.now = e.at
		switch {
		case e.link != nil:
			n.deliver(e)
		case e.node != nil:
			n.tick(e)
		default:
			e.do()
		}
		if done != nil && done() {
			return
		}
	}
	if len(n.events) == 0 || n.events[0].at > until {
		n.now = until
	}
}

func (n *network) deliver(e *event) {
	l := e.link
	if !l.up || e.gen != l.epoch {
		return
	}
	to := l.to
	if ready := max(l.readable, to.busyUntil); ready > e.at {
		e.at = ready
		n.schedule(e)
		return
	}
	l.queue[0] = nil // what was delivered is nobody's any more
	if l.queue = l.queue[1:]; len(l.queue) > 0 {
		l.queue[0].at = max(l.queue[0].at, e.at)
		n.schedule(l.queue[0])
	}
	now := n.time(e.at)
	if w := to.act.wait(l.from, len(e.msg), now); w > 0 {
		l.readable = e.at + w
	}
	l.outstanding -= len(e.msg)
	l.from.act.sent(to, len(e.msg))
	to.bytesIn += uint64(len(e.msg))
	n.work(to, e.at, func() { to.act.receive(l.from, e.msg, now) })
}

func (n *network) tick(e *event) {
	n.work(e.node, e.at, func() { e.node.act.tick(n.time(e.at)) })
	e.at += tickEvery
	n.schedule(e)
}

// work charges a node for what it does: its output leaves when it has ended.
func (n *network) work(to *node, at time.Duration, f func()) {
	to.verified = 0
	f()
	cost := n.opts.MessageCost + time.Duration(to.verified)*n.opts.VerifyCost
	to.busyUntil = max(to.busyUntil, at) + cost
	n.flush(to, to.busyUntil)
}

// flush puts what a node wants to say on its links.
func (n *network) flush(from *node, at time.Duration) {
	drainer, ok := from.act.(interface{ drain() []outgoing })
	if !ok {
		return
	}
	for _, o := range drainer.drain() {
		l := from.linkTo(o.to)
		if l == nil {
			continue
		}
		if o.close {
			n.disconnect(l)
			continue
		}
		n.transmit(l, o.msg, at)
	}
}

type outgoing struct {
	to    *node
	msg   []byte
	close bool
}

func (x *node) linkTo(to *node) *link {
	for _, l := range x.links {
		if l.to == to {
			return l
		}
	}
	return nil
}

// connect makes the two directions of a connection, if both ends agree.
func (n *network) connect(l *link) bool {
	if l.up {
		return true
	}
	if l.from.hostile != "" && l.to.hostile != "" {
		return false // they spend themselves on the honest
	}
	now := n.time(n.now)
	if l.to.act.connect(l.from, now) != nil {
		return false
	}
	if l.from.act.connect(l.to, now) != nil {
		l.to.act.disconnect(l.from)
		return false
	}
	for _, d := range []*link{l, l.back} {
		d.up, d.free, d.readable, d.outstanding, d.queue = true, n.now, n.now, 0, nil
		d.epoch++
	}
	n.flush(l.from, n.now)
	n.flush(l.to, n.now)
	return true
}

func (n *network) disconnect(l *link) {
	if !l.up {
		return
	}
	l.up, l.back.up = false, false
	l.from.act.disconnect(l.to)
	l.to.act.disconnect(l.from)
}

// join makes a link between two nodes, not yet connected.
func (n *network) join(a, b *node) {
	if a == b || a.linkTo(b) != nil {
		return
	}
	x, y := &link{from: a, to: b}, &link{from: b, to: a}
	x.back, y.back = y, x
	a.links, b.links = append(a.links, x), append(b.links, y)
}
