// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/keys"
	"tidegate/internal/role/patrol"
	"tidegate/internal/upstream"
)

// The border manager and a patrol's table as state machines, without sockets and in
// virtual time, among filter managers and attackers that replay, reorder, forge and damage
// their messages. A script of bytes drives the actors. See FuzzBorder.

var (
	victim   = netip.MustParseAddrPort("192.0.2.11:4746") // owns 10.1.0.0/16 and 198.51.100.0/24
	claimed  = netip.MustParseAddrPort("192.0.2.12:4746") // owns 203.0.113.0/24
	stranger = netip.MustParseAddrPort("192.0.2.13:4746")
	actors   = []netip.AddrPort{victim, claimed, stranger, netip.AddrPortFrom(victim.Addr(), 4799)}

	victims  = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("198.51.100.0/24")}
	claimeds = netip.MustParsePrefix("203.0.113.0/24")
	guarded  = netip.MustParsePrefix("10.1.77.0/24")
)

// datagram has its sender or receiver.
type datagram struct {
	by      netip.AddrPort
	message []byte
}

type execution struct {
	from           netip.AddrPort
	request, nonce uint64
}

type borderRig struct {
	t        *testing.T
	m        *Manager
	l        *link
	table    *patrol.Table
	patrol   patrol.Answerer
	id       *upstream.Identity
	now      time.Time
	requests uint64
	sent     []datagram // everything sent to the border manager
	heard    []datagram // everything it has sent, with the receiver
	asking   *datagram  // the datagram being processed; nil: answers of patrols
	known    map[*pending]bool
	done     map[execution]bool
	filters  []ifp.Filter
	executed int
}

func newBorderRig(t *testing.T) *borderRig {
	t.Helper()
	authority := &upstream.Static{}
	for _, p := range victims {
		authority.AddFilter(p, victim.Addr())
	}
	authority.AddFilter(claimeds, claimed.Addr())
	r := &borderRig{t: t, id: upstream.NewIdentity(&keys.Secret{9}), now: time.Unix(1_700_000_000, 0),
		known: map[*pending]bool{}, done: map[execution]bool{}}
	box := Patrol{Name: "p", Addr: netip.MustParseAddrPort("192.0.2.99:4748"), Key: r.id.Public(), Prefixes: victims}
	r.m = &Manager{opt: Options{Identity: r.id, Nonces: ifp.NewNonces(&keys.Secret{8}, r.now), Authority: authority,
		Patrols: []Patrol{box}, Codepoint: 47, Protect: []netip.Prefix{guarded}, Log: slog.New(slog.DiscardHandler)},
		answers: newAnswered(), pending: map[pendingKey]*pending{},
		clock: func() time.Time { return r.now }}
	r.m.own.list.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	r.m.out = upstream.NewSink(r.hear)
	var err error
	if r.l, err = newLink(box, r.id, r.m.opt.Log, r.m.patrolAnswered, func() {}); err != nil {
		t.Fatal(err)
	}
	r.l.up = true
	r.m.reach.Store(&reach{links: []*link{r.l}, route: newRoutes([]Patrol{box})})
	r.m.limits.Store(newLimits(1000))
	r.m.protect.Store(&r.m.opt.Protect)
	if r.table, err = patrol.NewMemoryTable(2000); err != nil {
		t.Fatal(err)
	}
	return r
}

// filter returns one of a few hundred filters, valid and invalid.
func (r *borderRig) filter(a, b byte) ifp.Filter {
	src := []string{"203.0.113.5/32", "10.1.0.9/32", "10.1.0.0/24", "10.1.0.0/20", "0.0.0.0/0", "10.1.77.1/32", "192.0.2.1/32"}[a%7]
	dst := []string{"10.1.0.9/32", "198.51.100.1/32", "198.51.100.0/24", "203.0.113.9/32", "10.1.77.9/32", "198.51.0.0/16"}[b%6]
	f := ifp.Filter{Src: netip.MustParsePrefix(src), Dst: netip.MustParsePrefix(dst), Action: ifp.Action(1 + a/7%3), Direction: ifp.Direction(b / 6 % 2)}
	if b > 240 {
		f.ExpiresS = ifp.MaxExpiresS + 1 // invalid
	}
	return f
}

// hear checks what the border manager sends.
func (r *borderRig) hear(to netip.AddrPort, message []byte) {
	h, err := ifp.ReadHeader(message)
	if err != nil {
		r.t.Fatalf("it sends %x: %v", message, err)
	}
	if r.asking != nil && to != r.asking.by {
		r.t.Fatalf("it answers %v by a message to %v", r.asking.by, to)
	}
	verified := h.Type == ifp.Result || h.Type == ifp.Statistics
	if r.asking != nil && !verified && len(message) > len(r.asking.message) {
		r.t.Fatalf("%d bytes answer %d from who may be anybody", len(message), len(r.asking.message))
	}
	if h.Flags&ifp.FlagProof != 0 {
		r.checkProof(to, &h, message)
	}
	r.heard = append(r.heard, datagram{to, bytes.Clone(message)})
}

// checkProof: a signature covers only what its requester may request, and verifies.
func (r *borderRig) checkProof(to netip.AddrPort, h *ifp.Header, message []byte) {
	_, proof, err := ifp.ReadResult(h, message)
	if err != nil || to.Addr() == stranger.Addr() || bytes.IndexByte(message[ifp.HeaderLen:ifp.HeaderLen+int(h.Count)], byte(ifp.NotAuthorised)) >= 0 {
		r.t.Fatalf("signed for %v: %x, %v", to, message, err)
	}
	for _, s := range r.sent {
		if s.by == to && len(s.message) > ifp.HeaderLen && binary.BigEndian.Uint64(s.message[8:]) == h.Request && ifp.NonceOf(s.message) == h.Nonce &&
			ed25519.Verify(r.id.Public(), ifp.ProofInput(message[:len(message)-ifp.ProofLen], s.message[ifp.HeaderLen:]), proof) {
			return
		}
	}
	r.t.Fatalf("a proof of nothing that was asked: %x", message)
}

// deliver hands a datagram to the border manager and checks the result.
func (r *borderRig) deliver(by netip.AddrPort, message []byte) {
	r.asking = &datagram{by, bytes.Clone(message)}
	r.sent = append(r.sent, *r.asking)
	verified := r.m.Count.Verified.Load()
	pendings, answers, owners := len(r.m.pending), len(r.m.answers.by), len(r.m.limits.Load().owners)
	r.filters = r.m.take(by, uint8(r.requests&1)*47<<2, bytes.Clone(message), upstream.NewSink(r.hear), r.filters)
	unverified := r.m.Count.Verified.Load() == verified
	if kept := len(r.m.pending) + len(r.m.answers.by) + len(r.m.limits.Load().owners) - pendings - answers - owners; kept != 0 &&
		(unverified || by.Addr() == stranger.Addr()) {
		r.t.Fatalf("%d entries are kept of %v (verified: %v): %x", kept, by, !unverified, message)
	}
	r.asking = nil
	r.checkQueue()
}

// checkQueue: every filter sent to the patrol was requested by an authorised sender, and is sent once.
func (r *borderRig) checkQueue() {
	for _, q := range r.l.waiting {
		for _, p := range q.parts {
			if r.known[p.to] {
				continue
			}
			r.known[p.to] = true
			x := execution{p.to.key.from, p.to.key.request, p.to.nonce}
			if r.done[x] && p.to.kind != ifp.Stats {
				r.t.Fatalf("request %d of %v goes to the patrol twice", x.request, x.from)
			}
			if x.from.Addr() == stranger.Addr() {
				r.t.Fatal("a stranger's request goes to the patrol")
			}
			r.done[x] = true
			r.executed++
		}
	}
}

// patrolAnswers makes the patrol process the oldest message.
func (r *borderRig) patrolAnswers() {
	if len(r.l.waiting) == 0 {
		return
	}
	q := r.l.waiting[0]
	r.l.waiting = append(r.l.waiting[:0], r.l.waiting[1:]...)
	r.l.inflight = append(r.l.inflight, q)
	h := ifp.Header{Type: q.kind, Flags: ifp.FlagGrants, Count: uint16(q.count), Length: uint16(len(q.body))}
	h.Put(q.body)
	answer, err := r.patrol.Answer(r.table, q.body)
	if err == nil {
		err = r.l.answered(answer)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.checkTable()
}

// checkTable: the table holds only filters that the owner of the destination, or for BLOCK_TS0 of
// the source, could have requested.
func (r *borderRig) checkTable() {
	r.table.Each(0, func(f ifp.Filter, _ ifp.Stat) bool {
		byVictim := false
		for _, p := range victims {
			byVictim = byVictim || p.Bits() <= f.Dst.Bits() && p.Contains(f.Dst.Addr())
		}
		byClaimed := claimeds.Bits() <= f.Dst.Bits() && claimeds.Contains(f.Dst.Addr())
		bySource := f.Action == ifp.BlockTS0 && f.Direction == ifp.ToCustomer
		if !byVictim && !byClaimed && !bySource || f.Src.Overlaps(guarded) && f.Src.Bits() >= guarded.Bits() || f.Dst.Overlaps(guarded) {
			r.t.Fatalf("the table has %v", &f)
		}
		return true
	})
}

// step executes four bytes of a script.
func (r *borderRig) step(op, who, a, b byte) {
	by := actors[int(who)%len(actors)]
	switch op % 12 {
	case 0, 1: // a first request
		r.requests++
		kind := []ifp.Type{ifp.Install, ifp.Install, ifp.Remove, ifp.Stats, ifp.Conditional}[a%5]
		list := []ifp.Filter{r.filter(a, b), r.filter(b, a), r.filter(a^b, a+b)}[:1+int(who>>6)%3]
		r.deliver(by, ifp.AppendRequest(nil, kind, (a^b)&ifp.FlagProof, r.requests, 0, list))
	case 2, 3, 4: // a nonce is echoed by its receiver, with the original request
		for i := len(r.heard) - 1 - int(a)%8; i >= 0; i-- {
			if n := r.heard[i]; n.message[1] == byte(ifp.Nonce) {
				r.echo(n.by, n.message)
				return
			}
		}
	case 5, 6: // any message repeated by its original sender
		if len(r.sent) > 0 {
			s := r.sent[len(r.sent)-1-(int(a)<<8|int(b))%len(r.sent)]
			r.deliver(s.by, s.message)
		}
	case 7: // from another address
		if len(r.sent) > 0 {
			r.deliver(by, r.sent[len(r.sent)-1-int(a)%len(r.sent)].message)
		}
	case 8: // damaged or truncated
		if len(r.sent) > 0 {
			s := r.sent[len(r.sent)-1-int(a)%len(r.sent)]
			m := bytes.Clone(s.message)
			if len(m) == 0 {
				return
			}
			m[int(b)%len(m)] ^= 1 << (who & 7)
			if who > 200 {
				m = m[:int(b)%len(m)]
			}
			r.deliver(s.by, m)
		}
	case 9:
		r.patrolAnswers()
	case 10: // the patrol disconnects, loses its queued requests, and reconnects
		if who < 32 {
			r.l.up = false
			r.l.fail()
		} else {
			r.l.up = true
			r.patrolAnswers()
		}
	case 11:
		r.now = r.now.Add(time.Duration(a) * 20 * time.Millisecond)
		r.m.opt.Nonces.Tick(r.now)
		r.m.answers.expire(r.now)
	}
}

func (r *borderRig) echo(to netip.AddrPort, nonce []byte) {
	for i := len(r.sent) - 1; i >= 0; i-- {
		s := r.sent[i]
		if s.by == to && len(s.message) >= ifp.HeaderLen && bytes.Equal(s.message[8:16], nonce[8:16]) && ifp.NonceOf(s.message) == 0 {
			m := bytes.Clone(s.message)
			ifp.SetNonce(m, ifp.NonceOf(nonce))
			r.deliver(to, m)
			return
		}
	}
}

func runBorder(t *testing.T, script []byte) *borderRig {
	r := newBorderRig(t)
	for ; len(script) >= 4; script = script[4:] {
		r.step(script[0], script[1], script[2], script[3])
	}
	r.l.up = false
	r.l.fail()
	if len(r.m.pending) != 0 {
		t.Fatalf("%d requests are never ended", len(r.m.pending))
	}
	r.now = r.now.Add(answeredFor)
	r.m.answers.expire(r.now)
	if len(r.m.answers.by) != 0 || len(r.m.limits.Load().owners) > 2*len(actors) {
		t.Fatalf("%d answers, %d allowances are kept", len(r.m.answers.by), len(r.m.limits.Load().owners))
	}
	return r
}

// FuzzBorder: whatever is replayed, reordered, forged or damaged, a request has its
// effect once and only for an authorised sender; strangers leave no state behind.
func FuzzBorder(f *testing.F) {
	f.Add([]byte{0, 0, 5, 1, 2, 0, 0, 0, 9, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 1, 7, 6, 2, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 11, 0, 250, 0, 5, 0, 0, 1, 8, 3, 0, 4, 10, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) { runBorder(t, script[:min(len(script), 2000)]) })
}

// The same with random scripts of a fixed seed, so that `make test` has it, too.
func TestBorderAmongHostilePeers(t *testing.T) {
	random := mrand.New(mrand.NewPCG(21, 22))
	total := map[string]uint64{}
	for range 60 {
		script := make([]byte, 1200)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		r := runBorder(t, script)
		c := &r.m.Count
		total["executed"] += uint64(r.executed)
		total["replayed"] += c.Replayed.Load()
		total["duplicate"] += c.Duplicate.Load()
		total["wrong nonce"] += c.NonceWrong.Load()
		total["strangers"] += c.Strangers.Load()
		total["signed"] += c.Signed.Load()
		total["protected"] += c.Protected.Load()
		total["filters"] += uint64(r.table.Len())
	}
	t.Log(fmt.Sprint(total))
	for what, n := range total {
		if n < 20 {
			t.Errorf("%s: %d; the mix does not test it", what, n)
		}
	}
}
