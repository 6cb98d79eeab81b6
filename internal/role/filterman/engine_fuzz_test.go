// SPDX-License-Identifier: Apache-2.0

package filterman

import (
	"bytes"
	"encoding/binary"
	"errors"
	mrand "math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// The exchange as a state machine, without sockets and in virtual time: a script of
// bytes drives the network and its attackers. See FuzzExchange.

var (
	borderAddr   = netip.MustParseAddrPort("192.0.2.1:4747")
	strangerAddr = netip.MustParseAddrPort("192.0.2.1:4748")
)

// exchangeRig is an engine, a border manager that follows the specification, and the wire between them.
type exchangeRig struct {
	t       *testing.T
	e       *Engine
	now     time.Time
	sent    [][]byte // to the border manager, all of them
	air     [][]byte // its answers, all of them
	epoch   uint64   // from which its nonces are derived
	jobs    int
	ended   map[int]int
	answers map[uint64][][]byte // genuine final answers by request number
	of      map[uint64]int      // job by request number
}

func newExchangeRig(t *testing.T) *exchangeRig {
	r := &exchangeRig{t: t, now: time.Unix(1_700_000_000, 0), ended: map[int]int{}, answers: map[uint64][][]byte{}, of: map[uint64]int{}}
	r.e = &Engine{open: map[uint64]*exchange{}, room: make(chan struct{}, outstandingMax), stop: make(chan struct{}),
		out: upstream.NewSink(func(to netip.AddrPort, m []byte) {
			if to != borderAddr {
				t.Fatalf("a request goes to %v", to)
			}
			r.sent = append(r.sent, bytes.Clone(m))
		})}
	return r
}

func (r *exchangeRig) begin(kind ifp.Type, count int) {
	job := r.jobs
	r.jobs++
	filters := make([]ifp.Filter, count)
	for i := range filters {
		filters[i] = ifp.Filter{Src: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(job), byte(i)}), 32),
			Dst: netip.MustParsePrefix("198.51.100.1/32"), Action: ifp.Block}
	}
	var request uint64
	j := Job{Kind: kind, Filters: filters, BM: upstream.Endpoint{Addr: borderAddr}, Done: func(o Outcome) { r.done(job, request, o) }}
	if r.e.acquire(1) != 1 {
		r.t.Fatal("no room")
	}
	r.e.begin(&j, r.now)
	request = binary.BigEndian.Uint64(r.sent[len(r.sent)-1][8:])
	r.of[request] = job
}

// done checks that the border manager has really given an outcome.
func (r *exchangeRig) done(job int, request uint64, o Outcome) {
	if r.ended[job]++; r.ended[job] != 1 {
		r.t.Fatalf("job %d has ended %d times", job, r.ended[job])
	}
	if o.Err != nil {
		if !errors.Is(o.Err, ErrNoAnswer) {
			r.t.Fatalf("job %d: %v", job, o.Err)
		}
		return
	}
	for _, m := range r.answers[request] {
		h, _ := ifp.ReadHeader(m)
		switch h.Type {
		case ifp.Result:
			codes, _, _ := ifp.ReadResult(&h, m)
			same := len(codes) == len(o.Codes) && len(o.Stats) == 0
			for i := range codes {
				same = same && ifp.Code(codes[i]) == o.Codes[i]
			}
			if same {
				return
			}
		case ifp.Statistics:
			if stats, _ := ifp.ReadStatistics(&h, m); len(o.Codes) == 0 && slices.Equal(o.Stats, stats) {
				return
			}
		case ifp.Error:
			if len(o.Codes) > 0 && len(o.Stats) == len(o.Codes) && o.Codes[0] == h.Code && o.Stats[0].Code == h.Code {
				return
			}
		}
	}
	r.t.Fatalf("job %d ended by %+v, which the border manager has never said", job, o)
}

// border answers datagram i according to docs/ifp.md; how varies the answer.
func (r *exchangeRig) border(i int, how byte) {
	m := r.sent[i]
	h, err := ifp.ReadHeader(m)
	if err != nil {
		r.t.Fatal(err)
	}
	nonce := (binary.BigEndian.Uint64(m[8:])^r.epoch*0x9e3779b97f4a7c15)>>1 | 1
	say := func(b []byte, last bool) {
		r.air = append(r.air, b)
		if last {
			r.answers[h.Request] = append(r.answers[h.Request], b)
		}
	}
	switch {
	case h.Nonce == 0:
		say(ifp.AppendNonce(nil, h.Request, nonce), false)
	case h.Nonce != nonce:
		say(ifp.AppendError(nil, h.Request, h.Nonce, ifp.StaleNonce), false)
	case how&3 == 0:
		say(ifp.AppendError(nil, h.Request, h.Nonce, ifp.Busy), false)
	case how&3 == 1:
		say(ifp.AppendError(nil, h.Request, h.Nonce, ifp.BadMessage), true)
	case h.Type == ifp.Stats:
		stats := make([]ifp.Stat, h.Count)
		for n := range stats {
			stats[n].Packets = uint64(how) + uint64(n)
		}
		say(ifp.AppendStatistics(nil, h.Request, h.Nonce, stats), true)
	default:
		codes := make([]ifp.Code, h.Count)
		for n := range codes {
			codes[n] = ifp.Code(int(how>>2) % 13)
		}
		say(ifp.AppendResult(nil, h.Request, h.Nonce, codes, nil), true)
	}
}

func (r *exchangeRig) deliver(from netip.AddrPort, m []byte) {
	if f := r.e.take(from, m); f != nil {
		<-r.e.room
		f()
	}
}

// mustNotEnd delivers a message from a sender that has not seen the exchange; it must not be believed.
func (r *exchangeRig) mustNotEnd(what string, from netip.AddrPort, m []byte) {
	open := len(r.e.open)
	r.deliver(from, m)
	if len(r.e.open) != open {
		r.t.Fatalf("%s has ended an exchange: %x", what, m)
	}
}

// step executes three bytes of a script.
func (r *exchangeRig) step(op, which, how byte) {
	pick := func(list [][]byte) []byte { return list[int(which)*7919%len(list)] }
	switch op % 10 {
	case 0:
		if r.jobs < 200 {
			r.begin([]ifp.Type{ifp.Install, ifp.Remove, ifp.Stats, ifp.Conditional}[which&3], 1+int(how&3))
		}
	case 1, 2:
		if len(r.sent) > 0 {
			r.border(len(r.sent)-1-int(which)%len(r.sent), how)
		}
	case 3, 4: // in any order, any number of times
		if len(r.air) > 0 {
			r.deliver(borderAddr, pick(r.air[max(0, len(r.air)-1-int(how)):]))
		}
	case 5: // from another address
		if len(r.air) > 0 {
			r.mustNotEnd("an answer from elsewhere", strangerAddr, pick(r.air))
		}
	case 6: // damaged in the fields that identify it
		if len(r.air) > 0 {
			m := bytes.Clone(pick(r.air))
			at := []int{0, 1, 2, 3, 8, 9, 12, 15, 16, 19, 22, 23}[how%12]
			m[at] ^= 1 << (how >> 5)
			r.mustNotEnd("a damaged answer", borderAddr, m)
		}
	case 7: // guessed by a sender that knows the request number, but not the nonce
		for request := range r.e.open {
			var m []byte
			switch nonce := uint64(how) * 0x2545f4914f6cdd1d; which % 4 {
			case 0:
				m = ifp.AppendResult(nil, request, nonce, make([]ifp.Code, r.e.open[request].count), nil)
			case 1:
				m = ifp.AppendStatistics(nil, request, nonce, make([]ifp.Stat, r.e.open[request].count))
			case 2:
				m = ifp.AppendError(nil, request, nonce, ifp.Code(how%14))
				if ifp.Code(how%14) == ifp.BadVersion {
					return // believed: it can only come from a border manager of another version, with request number 0
				}
			case 3:
				m = ifp.AppendRequest(nil, ifp.Install, 0, request, nonce, nil)
			}
			r.mustNotEnd("a guess", borderAddr, m)
			return
		}
	case 8: // another epoch: earlier nonces are no longer valid
		r.epoch++
	case 9:
		r.now = r.now.Add(time.Duration(which)*8*time.Millisecond + time.Millisecond)
		r.e.expire(r.now)
	}
	if len(r.e.room) != len(r.e.open) {
		r.t.Fatalf("%d exchanges hold %d places", len(r.e.open), len(r.e.room))
	}
}

// finish lets the time run out: every exchange ends, once.
func (r *exchangeRig) finish() {
	for range 5 {
		r.now = r.now.Add(9 * time.Second)
		r.e.expire(r.now)
	}
	if len(r.e.open) != 0 || len(r.e.room) != 0 {
		r.t.Fatalf("%d exchanges are left, %d places taken", len(r.e.open), len(r.e.room))
	}
	for job := range r.jobs {
		if r.ended[job] != 1 {
			r.t.Fatalf("job %d has ended %d times", job, r.ended[job])
		}
	}
	for try := range r.e.queue {
		if q := &r.e.queue[try]; len(q.list) != q.head {
			r.t.Fatalf("%d requests wait for nothing", len(q.list)-q.head)
		}
	}
}

func runExchange(t *testing.T, script []byte) *exchangeRig {
	r := newExchangeRig(t)
	for ; len(script) >= 3; script = script[3:] {
		r.step(script[0], script[1], script[2])
	}
	r.finish()
	return r
}

// FuzzExchange: loss, duplicates, any order, forged and damaged answers, lost nonces:
// each request ends once, and only by an answer of its border manager.
func FuzzExchange(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 0, 0, 3, 0, 0, 1, 0, 2, 3, 0, 0})
	f.Add([]byte{0, 2, 3, 1, 0, 0, 3, 0, 0, 8, 0, 0, 1, 0, 2, 3, 0, 0, 9, 200, 0, 1, 0, 0, 3, 0, 0, 1, 0, 2, 3, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) { runExchange(t, script[:min(len(script), 3000)]) })
}

// The same with random scripts of a fixed seed, so that `make test` has it, too.
func TestExchangeUnderHostility(t *testing.T) {
	random := mrand.New(mrand.NewPCG(13, 14))
	answered, unanswered := 0, 0
	for range 300 {
		var script []byte
		for range 500 { // mostly what an honest network does with the newest messages
			op, newest := byte(random.Uint32()), byte(random.IntN(4))
			if random.IntN(4) > 0 {
				op = []byte{0, 1, 1, 1, 3, 3, 3}[random.IntN(7)]
			}
			if op%10 == 3 || op%10 == 4 {
				script = append(script, op, byte(random.Uint32()), newest)
			} else {
				script = append(script, op, newest, byte(random.Uint32()))
			}
		}
		r := runExchange(t, script)
		for request, job := range r.of {
			if len(r.answers[request]) > 0 && r.ended[job] == 1 {
				answered++
			} else {
				unanswered++
			}
		}
	}
	t.Logf("%d exchanges with an answer, %d without", answered, unanswered)
	if answered < 500 || unanswered < 500 {
		t.Error("the mix does not test it")
	}
}
