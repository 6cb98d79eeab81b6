// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"bufio"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"tidegate/internal/ifp"
	"tidegate/internal/upstream"
)

// Patrol is a patrol in the border manager's configuration.
type Patrol struct {
	Name     string
	Addr     netip.AddrPort
	Key      ed25519.PublicKey
	Prefixes []netip.Prefix // customers behind it
}

const (
	beat       = 15 * time.Second // keepalive on an idle connection; patrols wait 60 s
	redialMin  = 100 * time.Millisecond
	redialMax  = 5 * time.Second
	dialLimit  = 5 * time.Second
	answerTime = 10 * time.Second

	// perStream is how many filters go into one message to a patrol: with this many,
	// neither the message nor the answer to STATS exceeds the size limit.
	perStream = 1200
)

// part is one request's share of a message: the next len(which) filters there, in order,
// are those of the pending request at the indices in which.
type part struct {
	to    *pending
	which []int // place in the request, by place in the message
}

// load is a message being collected, or one that waits for its answer.
type load struct {
	kind  ifp.Type
	body  []byte // header and filters
	count int
	parts []part
}

// link is the connection to one patrol. It collects the filters of requests while
// the last message is being written.
type link struct {
	patrol Patrol
	tls    *tls.Config
	log    *slog.Logger
	done   func(*pending, []int, []ifp.Code, []ifp.Stat) // an answer for a part
	send   func()                                        // all parts of a message are answered

	mu       sync.Mutex
	wake     *sync.Cond
	up       bool
	closed   bool
	waiting  []*load // not written yet, in order
	inflight []*load
	free     []*load
	room     int // filters that may still be queued
	conn     net.Conn
}

const queueMax = 1 << 18 // filters queued for one patrol; more are refused as BUSY

func newLink(p Patrol, id *upstream.Identity, log *slog.Logger, done func(*pending, []int, []ifp.Code, []ifp.Stat), send func()) (*link, error) {
	config, err := id.TLS(p.Key)
	if err != nil {
		return nil, err
	}
	l := &link{patrol: p, tls: config, log: log, done: done, send: send, room: queueMax}
	l.wake = sync.NewCond(&l.mu)
	return l, nil
}

// add queues filters of a request. A code other than OK is the reason for refusal.
func (l *link) add(kind ifp.Type, to *pending, filters []ifp.Filter, grants []ifp.Grant, which []int) ifp.Code {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.up {
		return ifp.PatrolDown
	}
	if l.room < len(which) {
		return ifp.Busy
	}
	l.room -= len(which)
	var q *load
	if n := len(l.waiting); n > 0 {
		q = l.waiting[n-1]
	}
	if q == nil || q.kind != kind || q.count+len(which) > perStream {
		q = l.fresh(kind)
		l.waiting = append(l.waiting, q)
	}
	for _, i := range which {
		q.body = ifp.AppendGrant(ifp.AppendFilter(q.body, &filters[i]), grants[i])
	}
	q.count += len(which)
	q.parts = append(q.parts, part{to, which})
	return ifp.OK
}

func (l *link) fresh(kind ifp.Type) *load {
	var q *load
	if n := len(l.free); n > 0 {
		q, l.free = l.free[n-1], l.free[:n-1]
	} else {
		q = &load{}
	}
	*q = load{kind: kind, body: append(q.body[:0], make([]byte, ifp.HeaderLen)...), parts: q.parts[:0]}
	return q
}

// flush has the queued filters written.
func (l *link) flush() {
	l.mu.Lock()
	if len(l.waiting) > 0 {
		l.wake.Signal()
	}
	l.mu.Unlock()
}

// run keeps the connection up until close.
func (l *link) run() {
	pause := redialMin
	for {
		begin := time.Now()
		err := l.once()
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return
		}
		if time.Since(begin) > redialMax {
			pause = redialMin
		}
		l.log.Warn("no connection to a patrol; its filters stay in force", "patrol", l.patrol.Name, "error", err, "again_in", pause)
		time.Sleep(pause)
		pause = min(2*pause, redialMax)
	}
}

// once dials, serves one connection until it breaks, and fails requests in progress.
func (l *link) once() error {
	d := &net.Dialer{Timeout: dialLimit}
	conn, err := tls.DialWithDialer(d, "tcp", l.patrol.Addr.String(), l.tls)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		conn.Close()
		return net.ErrClosed
	}
	l.up, l.conn = true, conn
	l.mu.Unlock()
	l.log.Info("connected to a patrol", "patrol", l.patrol.Name)
	ended := make(chan error, 1)
	stop := make(chan struct{})
	go l.beats(stop)
	go func() {
		err := l.write(conn)
		conn.Close()
		ended <- err
	}()
	err = l.read(conn)
	conn.Close()
	l.mu.Lock()
	l.up = false
	l.wake.Broadcast()
	l.mu.Unlock()
	close(stop)
	err = errors.Join(err, <-ended)
	l.fail()
	return err
}

// beats wakes the writer, which then sends a message even without requests.
func (l *link) beats(stop chan struct{}) {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			l.mu.Lock()
			if len(l.waiting) == 0 && len(l.inflight) == 0 {
				l.waiting = append(l.waiting, l.fresh(ifp.Stats))
				l.wake.Signal()
			}
			l.mu.Unlock()
		}
	}
}

func (l *link) write(conn net.Conn) error {
	var loads []*load
	var buffers net.Buffers
	for {
		l.mu.Lock()
		for len(l.waiting) == 0 && l.up {
			l.wake.Wait()
		}
		if !l.up {
			l.mu.Unlock()
			return nil
		}
		loads = append(loads[:0], l.waiting...)
		l.waiting = l.waiting[:0]
		l.inflight = append(l.inflight, loads...)
		l.mu.Unlock()
		buffers = buffers[:0]
		for _, q := range loads {
			h := ifp.Header{Type: q.kind, Flags: ifp.FlagGrants, Count: uint16(q.count), Length: uint16(len(q.body))}
			h.Put(q.body)
			buffers = append(buffers, q.body)
		}
		_ = conn.SetWriteDeadline(time.Now().Add(answerTime))
		_ = conn.SetReadDeadline(time.Now().Add(answerTime + beat + dialLimit))
		for _, b := range buffers {
			if _, err := conn.Write(b); err != nil {
				return err
			}
		}
	}
}

func (l *link) read(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 1<<16)
	message := make([]byte, ifp.MaxStream)
	for {
		if _, err := io.ReadFull(in, message[:ifp.HeaderLen]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint16(message[2:]))
		if n < ifp.HeaderLen {
			return ifp.ErrMessage
		}
		if _, err := io.ReadFull(in, message[ifp.HeaderLen:n]); err != nil {
			return err
		}
		if err := l.answered(message[:n]); err != nil {
			return err
		}
	}
}

// answered passes an answer to the requests that wait for it.
func (l *link) answered(message []byte) error {
	h, err := ifp.ReadHeader(message)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if len(l.inflight) == 0 {
		l.mu.Unlock()
		return fmt.Errorf("%w: unsolicited answer", ifp.ErrMessage)
	}
	q := l.inflight[0]
	l.inflight = append(l.inflight[:0], l.inflight[1:]...)
	l.room += q.count
	l.mu.Unlock()
	if int(h.Count) != q.count {
		l.failLoad(q)
		return fmt.Errorf("%w: %d answers to %d filters", ifp.ErrMessage, h.Count, q.count)
	}
	var raw []byte
	var stats []ifp.Stat
	if q.kind == ifp.Stats {
		stats, err = ifp.ReadStatistics(&h, message)
	} else {
		raw, _, err = ifp.ReadResult(&h, message)
	}
	if err != nil {
		l.failLoad(q)
		return err
	}
	codes := make([]ifp.Code, len(raw))
	for i, c := range raw {
		codes[i] = ifp.Code(c)
	}
	at := 0
	for _, p := range q.parts {
		if stats != nil {
			l.done(p.to, p.which, nil, stats[at:at+len(p.which)])
		} else {
			l.done(p.to, p.which, codes[at:at+len(p.which)], nil)
		}
		at += len(p.which)
	}
	l.send()
	l.mu.Lock()
	if len(l.free) < 16 {
		l.free = append(l.free, q)
	}
	l.mu.Unlock()
	return nil
}

// fail completes, with an error, everything that waits for the broken connection.
func (l *link) fail() {
	l.mu.Lock()
	lost := append(append([]*load(nil), l.inflight...), l.waiting...)
	l.inflight, l.waiting, l.room = nil, nil, queueMax
	l.mu.Unlock()
	for _, q := range lost {
		l.failLoad(q)
	}
}

func (l *link) failLoad(q *load) {
	for _, p := range q.parts {
		codes, stats := make([]ifp.Code, len(p.which)), []ifp.Stat(nil)
		for i := range codes {
			codes[i] = ifp.PatrolDown
		}
		if q.kind == ifp.Stats {
			codes, stats = nil, make([]ifp.Stat, len(p.which))
			for i := range stats {
				stats[i].Code = ifp.PatrolDown
			}
		}
		l.done(p.to, p.which, codes, stats)
	}
	l.send()
}

func (l *link) close() {
	l.mu.Lock()
	l.closed, l.up = true, false
	if l.conn != nil {
		l.conn.Close()
	}
	l.wake.Broadcast()
	l.mu.Unlock()
}

// isUp reports whether the patrol is connected.
func (l *link) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}
