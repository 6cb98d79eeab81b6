// SPDX-License-Identifier: Apache-2.0

package taggedtest

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/keys"
	"tidegate/internal/lab/rig"
)

// edge is an edge in userspace: it answers SYNs, verifies ACKs, tags until it receives
// a confirmation, and forwards. One goroutine for each direction.
type edge struct {
	secret  keys.Secret
	epoch   time.Duration
	skew    time.Duration // of its clock
	id      uint16
	wscale  byte // that it announces
	maxMSS  uint16
	noTS    bool // offers no timestamps
	plain   bool // forwards what it has verified as it is
	sampled bool // forwards everything unknown as a probe

	outer, inner int // packet sockets

	mu        sync.Mutex
	confirmed map[string]bool
	pending   map[string]bool // verified, not confirmed
	sent      int             // segments tagged
	probes    int
	confirms  int
	foreign   int // confirmations for another edge, or that do not verify

	// toServer may change, drop, delay or repeat what is tagged; toEdge drops
	// confirmations. Called under mu; n counts from 0.
	toServer func(n int, frame []byte) [][]byte
	toEdge   func(n int) bool

	lose, lost, forwarded int // of segments with data one in so many; and how many that were

	done sync.WaitGroup
	stop chan struct{}
}

// edgeAddr4 and edgeAddr6 are where the server sends confirmations: nobody's, but
// routed through the middle.
var (
	edgeAddr4 = netip.MustParseAddr("198.18.9.9")
	edgeAddr6 = netip.MustParseAddr("fd7d:7467:9::9")
)

func packetSocket(p *rig.Port) (fd int, err error) {
	err = p.NS.Do(func() error {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		if err != nil {
			return err
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: p.Index}); err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
		// with a timeout, so that the loop sees the end
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	})
	if err != nil {
		return -1, fmt.Errorf("packet socket on %s: %w", p.Name, err)
	}
	return fd, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// run starts forwarding between the two ports of the middle.
func (e *edge) run(w *rig.Wire) (err error) {
	e.confirmed, e.pending, e.stop = map[string]bool{}, map[string]bool{}, make(chan struct{})
	if e.outer, err = packetSocket(w.OuterPort); err != nil {
		return err
	}
	if e.inner, err = packetSocket(w.InnerPort); err != nil {
		return err
	}
	e.done.Add(2)
	go e.loop(e.outer, e.fromClient)
	go e.loop(e.inner, e.fromServer)
	return nil
}

func (e *edge) close() {
	close(e.stop)
	e.done.Wait()
	unix.Close(e.outer)
	unix.Close(e.inner)
}

func (e *edge) loop(fd int, handle func([]byte)) {
	defer e.done.Done()
	buf := make([]byte, 1<<16)
	for {
		select {
		case <-e.stop:
			return
		default:
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil || n < ethLen+20 {
			continue
		}
		handle(append([]byte{}, buf[:n]...))
	}
}

func (e *edge) now() uint64 { return keys.Epoch(time.Now().Add(e.skew), e.epoch) }

func (e *edge) send(fd int, frame []byte) { _, _ = unix.Write(fd, frame) }

func (e *edge) fromClient(frame []byte) {
	s, ok := parse(frame)
	if !ok {
		e.send(e.inner, frame)
		return
	}
	if s.flags&(flagSYN|flagACK) == flagSYN {
		e.send(e.outer, e.answer(&s))
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	flow := flowOf(&s)
	switch {
	case e.confirmed[flow]:
		if !e.loses(&s) {
			e.send(e.inner, frame)
		}
	case s.flags&flagACK != 0 && s.flags&flagRST == 0 && verifyCookie(&e.secret, &s, e.now()):
		e.pending[flow] = true
		if e.plain {
			e.confirmed[flow] = true
			e.send(e.inner, frame)
			return
		}
		e.tagged(&s, tagSetup)
	case e.pending[flow] || e.sampled:
		e.probes++
		e.tagged(&s, tagProbe)
	}
}

func (e *edge) tagged(s *segment, what byte) {
	out := *s
	out.options = append(makeTag(&e.secret, s, what, e.id, e.wscale, e.now()), s.options...)
	if len(out.options) > 40 {
		return
	}
	frames := [][]byte{out.build(s.frame)}
	if e.toServer != nil {
		frames = e.toServer(e.sent, frames[0])
	}
	e.sent++
	for _, f := range frames {
		e.send(e.inner, f)
	}
}

func (e *edge) fromServer(frame []byte) {
	if c, ok := readConfirm(&e.secret, frame, e.now()); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.edge != e.id {
			e.foreign++
			return
		}
		e.confirms++
		if e.toEdge == nil || e.toEdge(e.confirms-1) {
			e.confirmed[c.flow] = true
		}
		return
	}
	if s, ok := parse(frame); !ok && len(frame) > ethLen+20 && (frame[ethLen+9] == 17 || frame[ethLen+6] == 17) {
		e.mu.Lock()
		e.foreign++
		e.mu.Unlock()
		return
	} else if ok && s.flags&(flagSYN|flagACK) == flagSYN|flagACK {
		panic("a SYN-ACK of the server's own stack has come out")
	}
	if s, ok := parse(frame); ok {
		e.mu.Lock()
		lost := e.loses(&s)
		e.mu.Unlock()
		if lost {
			return
		}
	}
	e.send(e.outer, frame)
}

// loses decides whether a segment is lost: every so many.
func (e *edge) loses(s *segment) bool {
	if e.lose == 0 || len(s.payload) == 0 {
		return false
	}
	e.forwarded++
	if e.forwarded%e.lose != 0 {
		return false
	}
	e.lost++
	return true
}

// forget empties the filter, as on an edge that has never seen the connections.
func (e *edge) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.confirmed)
	clear(e.pending)
}

// trouble sets what happens to tagged segments, and to confirmations, counted from zero.
func (e *edge) trouble(toServer func(n int, frame []byte) [][]byte, toEdge func(n int) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.toServer, e.toEdge, e.sent, e.confirms = toServer, toEdge, 0, 0
}

// confirmations is how many confirmations have arrived.
func (e *edge) confirmations() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.confirms
}

// answer is the SYN-ACK with a cookie.
func (e *edge) answer(s *segment) []byte {
	mss, wscale, sack := uint16(536), uint32(15), uint32(0)
	if d := option(s.options, 2); len(d) == 2 {
		mss = uint16(d[0])<<8 | uint16(d[1])
	}
	if d := option(s.options, 3); len(d) == 1 && e.wscale != 15 {
		wscale = uint32(d[0])
	}
	if option(s.options, 4) != nil {
		sack = 1
	}
	tsval, _, ts := s.timestamps()
	ts = ts && !e.noTS
	var index uint32
	for i, m := range mssTable[s.v6] {
		if mss >= m {
			index = uint32(i)
		}
	}
	if ts {
		index = uint32(mss)
	}
	isn, own := makeCookie(&e.secret, s, s.seq, index<<6|wscale<<2|sack<<1, ts, e.now())
	o := []byte{2, 4, byte(e.maxMSS >> 8), byte(e.maxMSS)}
	if sack == 1 {
		o = append(o, 1, 1, 4, 2)
	}
	if ts {
		o = append(o, 1, 1, 8, 10, byte(own>>24), byte(own>>16), byte(own>>8), byte(own),
			byte(tsval>>24), byte(tsval>>16), byte(tsval>>8), byte(tsval))
	}
	if wscale != 15 {
		o = append(o, 1, 3, 3, e.wscale)
	}
	a := segment{v6: s.v6, src: s.dst, dst: s.src, sport: s.dport, dport: s.sport, seq: isn, ack: s.seq + 1,
		flags: flagSYN | flagACK, window: 65535, options: o}
	eth := append(append(append([]byte{}, s.frame[6:12]...), s.frame[:6]...), s.frame[12:14]...)
	return a.build(eth)
}
