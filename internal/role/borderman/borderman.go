// SPDX-License-Identifier: Apache-2.0

// Package borderman is the border manager: it answers requests of filter managers with a nonce, stores
// nothing about them until the nonce comes back, checks that the sender may request the filter, and passes it
// to the right patrols. It must never store anything about an address that has not returned a nonce.
package borderman

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// Options of a border manager.
type Options struct {
	Listen    netip.AddrPort
	Identity  *upstream.Identity
	Nonces    *ifp.Nonces
	Authority upstream.Authority
	Patrols   []Patrol
	Codepoint uint8 // DSCP of the true-source mark
	Rate      int   // filters a second of one network; 0: DefaultRate, less: any
	Protect   []netip.Prefix
	Log       *slog.Logger
}

// Counters of what came in, by what became of it.
type Counters struct {
	Malformed, NonceSent, NonceWrong, Verified, NotAuthorised, Protected, Busy, Answered, Duplicate, NoPlace,
	Replayed, Signed, Strangers atomic.Uint64
}

// Manager is a running border manager.
type Manager struct {
	opt     Options
	udp     *upstream.UDP
	reach   atomic.Pointer[reach]
	own     ownAddrs
	Count   Counters
	limits  atomic.Pointer[limits] // what it points to is used by the reading goroutine only
	protect atomic.Pointer[[]netip.Prefix]
	answers *answered
	mu      sync.Mutex
	pending map[pendingKey]*pending
	outMu   sync.Mutex
	out     *upstream.Outbox // answers of patrols
	change  sync.Mutex       // of reach, and closed
	closed  bool
	done    sync.WaitGroup
	stop    chan struct{}
	clock   func() time.Time
	ticked  atomic.Pointer[earlyHook]
}

// earlyHook is what the daemon does for XDP: after each tick of the nonces' clock, and for `tidegate status`.
type earlyHook struct {
	call     func()
	counters func(map[string]uint64) // adds those of XDP
}

// rateOf is the rate of Options as limits has it.
func rateOf(n int) int {
	if n == 0 {
		return DefaultRate
	}
	return max(n, 0)
}

// New opens the socket and begins to connect to the patrols.
func New(opt Options) (*Manager, error) {
	udp, err := upstream.ListenUDP(opt.Listen, opt.Codepoint)
	if err != nil {
		return nil, err
	}
	m := &Manager{opt: opt, udp: udp, answers: newAnswered(), pending: map[pendingKey]*pending{}, out: udp.NewOutbox(), stop: make(chan struct{}), clock: time.Now}
	m.own.listen = opt.Listen.Addr()
	if err := m.own.refresh(); err != nil {
		udp.Close()
		return nil, err
	}
	m.limits.Store(newLimits(rateOf(opt.Rate)))
	m.protect.Store(&opt.Protect)
	m.reach.Store(&reach{})
	if err := m.SetPatrols(opt.Patrols); err != nil {
		udp.Close()
		return nil, err
	}
	m.done.Go(m.ticks)
	return m, nil
}

// Addr is where filter managers are answered.
func (m *Manager) Addr() netip.AddrPort { return m.udp.LocalAddr() }

// PatrolsUp counts the patrols that are connected.
func (m *Manager) PatrolsUp() (n int) {
	for _, l := range m.reach.Load().links {
		if l.isUp() {
			n++
		}
	}
	return n
}

// Close ends Run.
func (m *Manager) Close() {
	close(m.stop)
	m.udp.Close()
	m.change.Lock()
	m.closed = true
	for _, l := range m.reach.Load().links {
		l.close()
	}
	m.change.Unlock()
	m.done.Wait()
}

func (m *Manager) ticks() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-m.stop:
			return
		case now := <-t.C:
			m.opt.Nonces.Tick(now)
			m.answers.expire(now)
			if n%ownEvery == 0 {
				if err := m.own.refresh(); err != nil {
					m.opt.Log.Warn("cannot read addresses; those known before stay protected", "error", err)
				}
			}
			if h := m.ticked.Load(); h != nil {
				h.call()
			}
		}
	}
}

// Run answers until Close.
func (m *Manager) Run() error {
	in, out := upstream.NewInbox(), m.udp.NewOutbox()
	var filters []ifp.Filter
	for {
		n, err := m.udp.Read(in)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			continue // an ICMP error from a host we have answered
		}
		for i := range n {
			filters = m.take(in.From(i), in.TClass(i), in.Data(i), out, filters)
		}
		out.Flush()
		for _, l := range m.reach.Load().links { // a link that a reload has removed since has failed its requests
			l.flush()
		}
	}
}

// take processes one datagram.
func (m *Manager) take(from netip.AddrPort, tclass uint8, message []byte, out *upstream.Outbox, filters []ifp.Filter) []ifp.Filter {
	h, err := ifp.ReadHeader(message)
	if err != nil || !h.Type.IsRequest() || len(message) > ifp.MaxDatagram {
		m.Count.Malformed.Add(1)
		if errors.Is(err, ifp.ErrVersion) && len(message) >= ifp.HeaderLen && message[1]&0x80 == 0 {
			// never longer than the request, and never in answer to an answer
			out.Add(from, func(b []byte) []byte { return ifp.AppendError(b, 0, 0, ifp.BadVersion) })
		}
		return filters
	}
	if h.Nonce == 0 {
		m.Count.NonceSent.Add(1)
		nonce := m.opt.Nonces.Make(from, message)
		out.Add(from, func(b []byte) []byte { return ifp.AppendNonce(b, h.Request, nonce) })
		return filters
	}
	if !m.opt.Nonces.Verify(from, message) {
		m.Count.NonceWrong.Add(1)
		m.refuse(out, from, &h, ifp.StaleNonce)
		return filters
	}
	m.Count.Verified.Add(1)
	if m.isRepeated(from, &h, out) {
		return filters
	}
	filters, bad, err := ifp.ReadFilters(filters, &h, message[ifp.HeaderLen:])
	if err != nil || len(filters) > ifp.PerMessage(false) {
		m.refuse(out, from, &h, ifp.BadMessage)
		return filters
	}
	p := &pending{key: pendingKey{from, h.Request}, nonce: h.Nonce, kind: h.Type, flags: h.Flags,
		codes: make([]ifp.Code, len(filters))}
	for _, i := range bad {
		p.codes[i] = ifp.BadFilter
	}
	grants := m.judgeAll(p, tclass>>2 == m.opt.Codepoint, filters)
	if grants == nil || !m.enter(p) {
		m.Count.Busy.Add(1)
		m.refuse(out, from, &h, ifp.Busy)
		return filters
	}
	if h.Flags&ifp.FlagProof != 0 && !slices.Contains(p.codes, ifp.NotAuthorised) && !slices.Contains(p.codes, ifp.BadFilter) {
		p.proof = append([]byte{}, message[ifp.HeaderLen:]...)
	}
	m.dispatch(p, filters, grants, out)
	return filters
}

func (m *Manager) refuse(out *upstream.Outbox, to netip.AddrPort, h *ifp.Header, code ifp.Code) {
	out.Add(to, func(b []byte) []byte { return ifp.AppendError(b, h.Request, h.Nonce, code) })
}

// isRepeated handles a verified request that came before: while patrols process it, nothing is done;
// once it is answered, the same answer is returned. Counters may be requested any number of times, and are always
// current.
func (m *Manager) isRepeated(from netip.AddrPort, h *ifp.Header, out *upstream.Outbox) bool {
	m.mu.Lock()
	_, under := m.pending[pendingKey{from, h.Request}]
	m.mu.Unlock()
	if under {
		m.Count.Duplicate.Add(1)
		return true
	}
	message, ok := m.answers.find(h.Nonce, from, h.Request)
	if ok {
		m.Count.Replayed.Add(1)
		out.Add(from, func(b []byte) []byte { return append(b, message...) })
	}
	return ok
}

// judgeAll judges the filters of a request, converts a conditional request to the filter it
// means here, and charges the allowance of the requesting network; nil: the allowance is
// used up. A sender not entitled to the first filter is a stranger; the rest of its filters
// is examined only while the strangers' allowance lasts.
func (m *Manager) judgeAll(p *pending, trueSource bool, filters []ifp.Filter) []ifp.Grant {
	grants := make([]ifp.Grant, len(filters))
	by := requester{authority: m.opt.Authority, fm: p.key.from.Addr()}
	install := p.kind == ifp.Install || p.kind == ifp.Conditional
	for i := range filters {
		if p.codes[i] == ifp.OK {
			if p.kind == ifp.Conditional {
				filters[i] = conditional(filters[i], trueSource)
			}
			grants[i], p.codes[i] = m.judge(&by, &filters[i], install)
		}
		if i > 0 {
			continue
		}
		if grants[0].Owner == 0 {
			m.Count.Strangers.Add(1)
		}
		if !m.limits.Load().take(grants[0].Owner, len(filters), p.flags&ifp.FlagProof != 0, m.clock()) {
			return nil
		}
	}
	return grants
}

// dispatch sends a request's filters to their patrols.
func (m *Manager) dispatch(p *pending, filters []ifp.Filter, grants []ifp.Grant, out *upstream.Outbox) {
	if p.kind == ifp.Stats {
		p.stats = make([]ifp.Stat, len(filters))
	}
	to := m.reach.Load()
	targets := targets{count: len(filters)}
	for i := range filters {
		if p.codes[i] == ifp.OK {
			p.codes[i] = to.route.find(&filters[i], i, &targets)
		}
	}
	kind := p.kind
	if kind == ifp.Conditional {
		kind = ifp.Install
	}
	p.asked = len(targets.list) > 0
	p.waiting = len(targets.list) + 1 // this function is one part
	for _, t := range targets.list {
		if code := to.links[t.patrol].add(kind, p, filters, grants, t.which); code != ifp.OK {
			failed := make([]ifp.Code, len(t.which))
			for i := range failed {
				failed[i] = code
			}
			m.merge(p, t.which, failed, nil)
		}
	}
	if m.merge(p, nil, nil, nil) {
		m.answer(p, out)
	}
}

// conditional is the request of Terminus, III.D: Src is the victim S, Dst the
// reflector R.
func conditional(f ifp.Filter, trueSource bool) ifp.Filter {
	if trueSource {
		f.Action, f.Direction = ifp.BlockTS0, ifp.ToCustomer
		return f
	}
	f.Src, f.Dst = f.Dst, f.Src
	f.Action, f.Direction = ifp.ClearTS, ifp.FromCustomer
	return f
}

// requester asks the authority what the sender of one message may request: once for filters in a row of one destination.
type requester struct {
	authority upstream.Authority
	fm        netip.Addr

	asked netip.Prefix // the last one
	owner uint32
	ok    bool
}

func (r *requester) mayRequest(dst netip.Prefix) (owner uint32, ok bool) {
	if dst != r.asked {
		r.asked = dst
		r.owner, r.ok = r.authority.FilterManagerMayRequest(r.fm, dst)
	}
	return r.owner, r.ok
}

// judge decides whether this filter manager may have this filter, and by which right. A
// request for counters or a removal may refer to a filter installed by either right:
// the patrol goes by the filter it has, never by the action in the request.
// Nor do protected addresses restrict these: they may have changed since.
func (m *Manager) judge(by *requester, f *ifp.Filter, install bool) (g ifp.Grant, code ifp.Code) {
	if owner, ok := by.mayRequest(f.Dst); ok {
		g = ifp.Grant{Rights: ifp.ByDestination, Owner: owner}
	}
	if f.Direction == ifp.ToCustomer && (!install || g.Rights == 0 && f.Action == ifp.BlockTS0) {
		// the owner may also refuse traffic that falsely claims his source
		if owner, ok := by.mayRequest(f.Src); ok {
			if g.Rights == 0 {
				g.Owner = owner
			}
			g.Rights |= ifp.BySource
		}
	}
	if g.Rights == 0 {
		m.Count.NotAuthorised.Add(1)
		return g, ifp.NotAuthorised
	}
	if install && m.cutsControl(by.fm, f) {
		m.Count.Protected.Add(1)
		return g, ifp.Protected
	}
	return g, ifp.OK
}
