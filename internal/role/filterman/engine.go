// SPDX-License-Identifier: Apache-2.0

// Package filterman is the filter manager: it takes filter requests from detectors, refuses addresses that may
// be forged, finds the border manager of each source, drives the exchange with it, and removes filters
// that are no longer hit. It must never request a filter on a source that has not been proven true.
package filterman

import (
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// Timers of the exchange, docs/ifp.md.
const (
	firstWait = 500 * time.Millisecond // doubled at each try
	tries     = 5
	// outstandingMax bounds requests that wait for border managers; callers wait.
	outstandingMax = 8192
)

// Outcome of a request. Err is set when no answer came at all.
type Outcome struct {
	Codes  []ifp.Code
	Stats  []ifp.Stat
	Proven bool // the border manager has signed it, and the signature is good
	Err    error
}

// ErrNoAnswer: the border manager does not answer.
var ErrNoAnswer = errors.New("the border manager does not answer")

// exchange is one request under way.
type exchange struct {
	bm      upstream.Endpoint
	message []byte // as it is sent: header with the nonce, filters
	request uint64
	count   int
	try     int
	due     time.Time
	done    func(Outcome)
}

// Engine drives exchanges over one socket.
type Engine struct {
	udp   *upstream.UDP
	mu    sync.Mutex
	open  map[uint64]*exchange
	queue [tries]fifo // by try: due in the order in which they were sent
	room  chan struct{}
	out   *upstream.Outbox // with mu
	stop  chan struct{}
	wg    sync.WaitGroup

	closing sync.Once

	Sent, Retransmits, Wrong atomic.Uint64
}

// fifo is a list of requests by the time they are due.
type fifo struct {
	list []*exchange
	head int
}

// NewEngine opens the socket. dscp is the DSCP of its datagrams.
func NewEngine(at netip.AddrPort, dscp uint8) (*Engine, error) {
	udp, err := upstream.ListenUDP(at, dscp)
	if err != nil {
		return nil, err
	}
	e := &Engine{udp: udp, open: map[uint64]*exchange{}, room: make(chan struct{}, outstandingMax),
		out: udp.NewOutbox(), stop: make(chan struct{})}
	e.wg.Go(e.read)
	e.wg.Go(e.timers)
	return e, nil
}

// Addr is the address that border managers see.
func (e *Engine) Addr() netip.AddrPort { return e.udp.LocalAddr() }

// Close abandons the exchanges under way.
func (e *Engine) Close() { e.closing.Do(e.shut) }

func (e *Engine) shut() {
	close(e.stop)
	e.udp.Close()
	e.wg.Wait()
	e.mu.Lock()
	left := e.open
	e.open = nil
	e.mu.Unlock()
	for _, x := range left {
		x.done(Outcome{Err: net.ErrClosed})
	}
}

// Job is one request to be sent.
type Job struct {
	Kind    ifp.Type
	Filters []ifp.Filter // at most ifp.PerMessage; not used any more when Do returns
	BM      upstream.Endpoint
	Proof   bool
	Done    func(Outcome) // called once, on the engine's goroutine: must not wait
}

// Do sends requests; it waits when too many are outstanding, so hold no lock that Done needs. After Close
// they end at once.
func (e *Engine) Do(jobs ...Job) {
	for begin := 0; begin < len(jobs); {
		n := e.acquire(len(jobs) - begin)
		if n == 0 {
			for i := range jobs[begin:] {
				jobs[begin+i].Done(Outcome{Err: net.ErrClosed})
			}
			return
		}
		e.mu.Lock()
		if e.open == nil { // closed since there was room
			e.mu.Unlock()
			continue
		}
		now := time.Now()
		for i := range jobs[begin : begin+n] {
			e.begin(&jobs[begin+i], now)
		}
		e.out.Flush()
		e.mu.Unlock()
		begin += n
	}
}

// acquire takes room for up to n exchanges, at least one; 0 when the engine is closed.
func (e *Engine) acquire(n int) int {
	select {
	case <-e.stop:
		return 0
	default:
	}
	select {
	case <-e.stop:
		return 0
	case e.room <- struct{}{}:
	}
	for got := 1; got < n; got++ {
		select {
		case e.room <- struct{}{}:
		default:
			return got
		}
	}
	return n
}

func (e *Engine) begin(j *Job, now time.Time) {
	// The request number is what an attacker off the path must guess; the runtime's
	// generator is ChaCha8 with a random seed.
	x := &exchange{bm: j.BM, request: rand.Uint64(), count: len(j.Filters), done: j.Done}
	for e.open[x.request] != nil {
		x.request = rand.Uint64()
	}
	flags := uint8(0)
	if j.Proof {
		flags = ifp.FlagProof
	}
	x.message = ifp.AppendRequest(make([]byte, 0, ifp.HeaderLen+len(j.Filters)*ifp.FilterLen6), j.Kind, flags, x.request, 0, j.Filters)
	e.open[x.request] = x
	e.send(x, now)
}

func (e *Engine) send(x *exchange, now time.Time) {
	x.due = now.Add(firstWait << x.try)
	e.queue[x.try].list = append(e.queue[x.try].list, x)
	e.Sent.Add(1)
	e.out.Add(x.bm.Addr, func(b []byte) []byte { return append(b, x.message...) })
}

// read receives answers until the socket is closed.
func (e *Engine) read() {
	in := upstream.NewInbox()
	finished := make([]func(), 0, upstream.BatchLen)
	for {
		n, err := e.udp.Read(in)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		e.mu.Lock()
		for i := range n {
			if f := e.take(in.From(i), in.Data(i)); f != nil {
				finished = append(finished, f)
			}
		}
		e.out.Flush()
		e.mu.Unlock()
		for _, f := range finished {
			<-e.room
			f()
		}
		finished = finished[:0]
	}
}

// take processes one answer; call the function it returns without the lock.
func (e *Engine) take(from netip.AddrPort, message []byte) func() {
	h, err := ifp.ReadHeader(message)
	if err != nil {
		e.Wrong.Add(1)
		return nil
	}
	x := e.open[h.Request]
	if x == nil || from != x.bm.Addr {
		e.Wrong.Add(1) // late, or not from the border manager asked
		return nil
	}
	own := ifp.NonceOf(x.message)
	if h.Type == ifp.Nonce {
		if own == 0 && h.Nonce != 0 {
			ifp.SetNonce(x.message, h.Nonce)
			e.Sent.Add(1)
			e.out.Add(x.bm.Addr, func(b []byte) []byte { return append(b, x.message...) })
		}
		return nil
	}
	if own == 0 || h.Nonce != own { // only the receiver of the nonce can answer
		if h.Type == ifp.Error && h.Code == ifp.BadVersion {
			return e.end(x, Outcome{Err: errors.New("the border manager speaks another version of the protocol")})
		}
		e.Wrong.Add(1)
		return nil
	}
	switch h.Type {
	case ifp.Result:
		codes, proof, err := ifp.ReadResult(&h, message)
		if err != nil || len(codes) != x.count {
			e.Wrong.Add(1)
			return nil
		}
		o := Outcome{Codes: make([]ifp.Code, len(codes))}
		for i, c := range codes {
			o.Codes[i] = ifp.Code(c)
		}
		if len(proof) > 0 && len(x.bm.Key) == ed25519.PublicKeySize {
			o.Proven = ed25519.Verify(x.bm.Key, ifp.ProofInput(message[:len(message)-ifp.ProofLen], x.message[ifp.HeaderLen:]), proof)
		}
		return e.end(x, o)
	case ifp.Statistics:
		stats, err := ifp.ReadStatistics(&h, message)
		if err != nil || len(stats) != x.count {
			e.Wrong.Add(1)
			return nil
		}
		return e.end(x, Outcome{Stats: stats})
	case ifp.Error:
		return e.refused(x, h.Code)
	}
	e.Wrong.Add(1)
	return nil
}

// refused handles an ERROR: a stale nonce restarts the exchange, a busy
// border manager is asked later, any other error is final.
func (e *Engine) refused(x *exchange, code ifp.Code) func() {
	switch code {
	case ifp.StaleNonce:
		ifp.SetNonce(x.message, 0)
		return nil // the timer sends it
	case ifp.Busy:
		return nil
	}
	o := Outcome{Codes: make([]ifp.Code, x.count), Stats: make([]ifp.Stat, x.count)}
	for i := range o.Codes {
		o.Codes[i], o.Stats[i].Code = code, code
	}
	return e.end(x, o)
}

func (e *Engine) end(x *exchange, o Outcome) func() {
	delete(e.open, x.request)
	return func() { x.done(o) }
}

// timers retransmits what was not answered in time, and finally gives up.
func (e *Engine) timers() {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-e.stop:
			return
		case now := <-t.C:
			e.expire(now)
		}
	}
}

func (e *Engine) expire(now time.Time) {
	var finished []func()
	e.mu.Lock()
	for try := range e.queue {
		q := &e.queue[try]
		for q.head < len(q.list) && (now.After(q.list[q.head].due) || e.open[q.list[q.head].request] != q.list[q.head]) {
			x := q.list[q.head]
			q.list[q.head] = nil
			q.head++
			if e.open[x.request] != x {
				continue // answered
			}
			if try == tries-1 {
				finished = append(finished, e.end(x, Outcome{Err: ErrNoAnswer}))
				continue
			}
			x.try++
			e.Retransmits.Add(1)
			e.send(x, now)
		}
		if q.head == len(q.list) {
			q.list, q.head = q.list[:0], 0
		} else if q.head > 4096 && q.head > len(q.list)/2 {
			n := copy(q.list, q.list[q.head:])
			clear(q.list[n:])
			q.list, q.head = q.list[:n], 0
		}
	}
	e.out.Flush()
	e.mu.Unlock()
	for _, f := range finished {
		<-e.room
		f()
	}
}
