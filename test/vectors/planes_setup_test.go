// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"tidegate/internal/framegen"
	"tidegate/internal/vectors"
)

// The connections of TestPlanes after the ACK that opens them: the server's answers, for which
// planes make several frames, and the first translated segments.

const (
	planesSteps = 6  // of a server in one setup: it may be probed, reset, and probed again
	planesEarly = 15 // of 20: from there on, clients send before the server has answered; some must be told that this was lost
	planesFirst = 4  // segments after the setup
)

// planesServer is what a world's server offers in answer to a SYN.
type planesServer struct {
	mss           uint16
	wscale        int // -1: none
	sack, ts, ecn bool
}

func newPlanesServer(r *rand.Rand) planesServer {
	return planesServer{mss: []uint16{1460, 1440, 536, 100, 8960}[r.IntN(5)], wscale: []int{7, 0, 14, -1}[r.IntN(4)],
		sack: r.IntN(3) > 0, ts: r.IntN(3) > 0, ecn: r.IntN(2) == 0}
}

// synack is the server's answer to a SYN: it offers nothing that the SYN did not.
func (s planesServer) synack(syn []byte, ts uint32) (options []byte, flags uint8) {
	var offered struct{ scale, sack, ts bool }
	for at, end := 20, min(int(syn[12]>>4)*4, len(syn)); at < end; {
		kind := syn[at]
		if kind <= 1 {
			at++
			continue
		}
		if at+1 >= end || syn[at+1] < 2 {
			break
		}
		offered.scale, offered.sack, offered.ts = offered.scale || kind == 3, offered.sack || kind == 4, offered.ts || kind == 8
		at += int(syn[at+1])
	}
	options = binary.BigEndian.AppendUint16([]byte{2, 4}, s.mss)
	if s.sack && offered.sack {
		options = append(options, 1, 1, 4, 2)
	}
	if s.ts && offered.ts {
		options = binary.BigEndian.AppendUint32(append(options, 1, 1, 8, 10), ts)
		at := timestampsAt(syn)
		options = append(options, syn[at:at+4]...)
	}
	if s.wscale >= 0 && offered.scale {
		options = append(options, 1, 3, 3, byte(s.wscale))
	}
	flags = tcpSYN | tcpACK
	if s.ecn && syn[13]&(tcpECE|tcpCWR) == tcpECE|tcpCWR {
		flags |= tcpECE
	}
	return options, flags
}

// ofServer builds the same segment of the conversation's server for every gate; `segment` sets what differs
// between gates.
func (c *planesComparison) ofServer(v *conversation, r *rand.Rand, how int, fromServer bool, segment func(gate int) framegen.Segment) []outcome {
	seed, family := r.Uint64(), bit(v.syn.IPv6)
	net := c.w.network()
	net.Service[family], net.Port = v.syn.Source, v.syn.SrcPort
	return c.send(fromServer, func(_ *framegen.Generator, gate int) framegen.Frame {
		s, g := segment(gate), framegen.New(net, seed)
		s.IPv6, s.Source, s.SrcPort = v.syn.IPv6, serverAddrs[family], c.w.services[0].port
		switch how {
		case 0:
			return g.Odd(s)
		case 1:
			return g.Enveloped(s)
		}
		return g.Plain(s)
	})
}

// setUp plays the server's part until the connection is ready, or has ended.
func (c *planesComparison) setUp(r *rand.Rand, v *conversation) {
	server := c.server
	switch r.IntN(5) { // differs from what was learned of it
	case 0:
		server = newPlanesServer(r)
	case 1:
		server = planesServer{mss: 536, wscale: -1}
	}
	v.serverISN = r.Uint32()
	for range r.IntN(4) * bit(c.w.keepsData()) { // what clients send at once: in order or not, twice, with faults
		v.late = uint32(r.IntN(3)) * 100
		c.ofClient(v, r, []uint8{tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN}[r.IntN(3)], r.IntN(12), 100)
	}
	v.late = 0
	for i := range planesSteps {
		if c.differs || v.opened == nil || v.ready {
			return
		}
		step, how, ts, odd := r.IntN(20), r.IntN(12), r.Uint32(), r.Uint32()
		if step == 0 || i == 0 && step >= planesEarly { // the client's data before the server has answered: the clock decides whether it is processed again
			c.limit = v.begun.Add(planesRetry)
			c.ofClient(v, r, tcpACK|tcpPSH, 2, 100)
			c.limit = time.Time{}
			continue
		}
		answers := c.ofServer(v, r, how, step != 1, func(gate int) framegen.Segment {
			syn := tcpHeader(v.opened[gate].Out)
			s := framegen.Segment{Seq: v.serverISN, Ack: binary.BigEndian.Uint32(syn[4:]) + 1}
			s.Options, s.Flags = server.synack(syn, ts)
			switch step {
			case 2: // the server has an older connection
				s.Ack += 1 + odd>>16
			case 3:
				s.Ack, s.Flags, s.Options = s.Ack+1+odd>>16, tcpACK, []byte{}
			case 4:
				s.Flags, s.Options = []uint8{tcpRST | tcpACK, tcpRST, tcpACK, tcpFIN | tcpACK, tcpSYN}[odd%5], []byte{}
			case 5:
				s.Options = nil // whatever
			case 6: // more than the SYN offered
				s.Options = append(s.Options[:4:4], 1, 1, 4, 2, 1, 3, 3, 7)
			}
			return s
		})
		c.learnStep(v, answers)
	}
}

// learnStep records what the gates have made of a server's segment.
func (c *planesComparison) learnStep(v *conversation, answers []outcome) {
	if c.differs {
		return
	}
	for i, r := range answers[0].all() {
		tcp := tcpHeader(r.Out)
		if tcp == nil {
			continue
		}
		switch {
		case r.Verdict == vectors.TX && tcp[13]&(tcpSYN|tcpACK) == tcpSYN:
			v.begun = time.Now().Add(-planesRetry) // nothing depends on it any more
			v.opened = nil
			for _, a := range answers {
				v.opened = append(v.opened, outcome{Result: a.all()[i]})
			}
		case r.Verdict == vectors.TX && tcp[13] == tcpACK && len(answers[0].more) > 0,
			c.w.defers && r.Verdict == vectors.Pass && tcp[13] == tcpACK && len(answers[0].more) == 0:
			v.ready = true
		case r.Verdict == vectors.Pass && tcp[13]&tcpRST != 0:
			v.opened = nil
			return
		}
	}
}

// ofClient sends a segment with data from the conversation's client, acknowledging what its gate has sent.
func (c *planesComparison) ofClient(v *conversation, r *rand.Rand, flags uint8, how, length int) []outcome {
	seed := r.Uint64()
	net := c.w.network()
	net.Service[bit(v.syn.IPv6)], net.Port = serverAddrs[bit(v.syn.IPv6)], c.w.services[0].port
	return c.send(false, func(_ *framegen.Generator, gate int) framegen.Frame {
		s := v.syn
		s.Seq, s.Flags, s.Options = v.syn.Seq+1+v.late, flags, []byte{}
		if tcp := tcpHeader(v.answers[gate].Out); tcp != nil {
			s.Ack = binary.BigEndian.Uint32(tcp[4:]) + 1
			if at := timestampsAt(tcp); at > 0 {
				s.Options = append([]byte{1, 1, 8, 10, 0, 0, 1, 0}, tcp[at:at+4]...)
			}
		}
		g := framegen.New(net, seed)
		switch {
		case how == 0:
			return g.Odd(s)
		case how == 1:
			return g.Enveloped(s)
		case length > 0:
			return g.Build(s, framegen.Payload)
		}
		return g.Plain(s)
	})
}

// inTime is false once the clock decides whether a segment of a conversation that was opened again is processed, until when
// a difference counts.
func (c *planesComparison) inTime(v *conversation) bool {
	if v.again.IsZero() {
		return true
	}
	c.limit = v.again.Add(planesRetry)
	return time.Now().Before(c.limit)
}

// asksServer is true of a segment that a gate has made a SYN for its server.
func asksServer(r vectors.Result) bool {
	tcp := tcpHeader(r.Out)
	return tcp != nil && r.Verdict == vectors.Pass && tcp[13]&(tcpSYN|tcpACK) == tcpSYN
}

// first sends the first segments of a ready connection, from both sides.
func (c *planesComparison) first(r *rand.Rand, v *conversation) {
	defer func() { c.limit = time.Time{} }()
	for range planesFirst {
		if c.differs || !c.inTime(v) {
			return
		}
		what, how, ts := r.IntN(10), r.IntN(8), r.Uint32()
		flags := []uint8{tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpRST | tcpACK}[min(3, max(0, r.IntN(8)-3))]
		if what < 4 {
			sent := time.Now()
			answers := c.ofClient(v, r, flags, how, r.IntN(2))
			if asksServer(answers[0].Result) { // its connection had ended, and its cookie opens one again
				v.again = sent
			}
			if r.IntN(3) == 0 {
				c.icmp(r, answers, true)
			}
			continue
		}
		answers := c.ofServer(v, r, how, what != 4, func(gate int) framegen.Segment {
			syn := tcpHeader(v.opened[gate].Out)
			s := framegen.Segment{Seq: v.serverISN + 1, Ack: binary.BigEndian.Uint32(syn[4:]) + 1, Flags: flags, Options: []byte{}}
			switch {
			case what < 7: // its SYN-ACK again
				s.Seq, s.Flags = v.serverISN, tcpSYN|tcpACK
				s.Options, _ = c.server.synack(syn, ts)
			case timestampsAt(syn) > 0:
				s.Options = append(binary.BigEndian.AppendUint32([]byte{1, 1, 8, 10}, ts), 0, 0, 1, 0)
			}
			return s
		})
		if r.IntN(3) == 0 && !c.differs {
			c.icmp(r, answers, false)
		}
	}
}
