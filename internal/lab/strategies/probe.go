// SPDX-License-Identifier: Apache-2.0

package strategies

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// The single probes of `tidegate-lab strategies`.

const (
	firstTries     = 20
	heldForEntries = 8
	exchanges      = 20
	probeTimeout   = 3 * time.Second
	settleFor      = 5 * time.Second
)

// measureFirst counts how the first connections of new clients end, as their applications see it.
func (r *run) measureFirst() error {
	for range firstTries {
		r.fig.FirstTried++
		c, _, err := r.open(r.fresh(), 0)
		if err != nil {
			r.fig.FirstErrors[load.ErrorName(err)]++
			continue
		}
		r.fig.FirstOK++
		c.Close()
	}
	return nil
}

// variants are clients with different options.
var variants = []struct {
	name            string
	timestamps, ecn string
	mss             int
}{
	{"Linux", "1", "0", 0},
	{"without timestamps", "0", "0", 0},
	{"with ECN", "1", "1", 0},
	{"MSS 1234", "1", "0", 1234},
}

// measureRetransmits counts what follows an unanswered SYN-ACK. No machine has the client's address,
// so that no kernel answers in its place.
func (r *run) measureRetransmits() error {
	t, err := load.NewTap(r.p.ClientPort)
	if err != nil {
		return err
	}
	defer t.Close()
	syn := r.nobodySYN(1, 40001)
	if err := load.SendSegment(r.p.Client, syn); err != nil {
		return err
	}
	want := isAnswer(syn)
	if _, ok := t.Next(time.Now().Add(probeTimeout), want); !ok {
		return errors.New("a SYN was not answered")
	}
	for until := time.Now().Add(r.o.Unanswered); ; r.fig.AnswersUnasked++ {
		if _, ok := t.Next(until, want); !ok {
			break
		}
	}
	if err := load.SendSegment(r.p.Client, syn); err != nil {
		return err
	}
	_, r.fig.AnswersRetransmits = t.Next(time.Now().Add(probeTimeout), want)
	return nil
}

// nobody returns a client address that no machine has.
func nobody(i int) netip.Addr { return rig.ClientAddr(rig.MaxClients-1-i, false) }

func (r *run) nobodySYN(i int, port uint16) load.Segment {
	return load.Segment{Src: netip.AddrPortFrom(nobody(i), port), Dst: rig.ServiceAddr(false), Flags: load.FlagSYN,
		Seq: 0x10000 * uint32(port), Window: 65535, Options: []byte{2, 4, 5, 0xb4}}
}

// isAnswer matches SYN-ACKs to that SYN's sender.
func isAnswer(syn load.Segment) func(load.Segment) bool {
	return func(s load.Segment) bool {
		return s.Dst == syn.Src && s.Src == syn.Dst && s.Flags&(load.FlagSYN|load.FlagACK) == load.FlagSYN|load.FlagACK
	}
}

// measureSegments compares the TCP headers, except for the checksum, of one connection's data segments on both sides
// of the box.
func (r *run) measureSegments() error {
	client, err := load.NewTap(r.p.ClientPort)
	if err != nil {
		return err
	}
	defer client.Close()
	server, err := load.NewTap(r.p.ServerPort)
	if err != nil {
		return err
	}
	defer server.Close()
	who := r.fresh()
	if _, err := r.agreedRetry(who, 0); err != nil {
		return err
	}
	c, _, err := r.open(who, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range exchanges {
		out := fmt.Appendf(nil, "tidegate segment %04d", i)
		if _, err := c.Write(out); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, make([]byte, len(out))); err != nil {
			return err
		}
	}
	type key struct {
		down bool
		data string
	}
	sides := [2]map[key][]byte{}
	for i, t := range []*load.Tap{client, server} {
		sides[i] = map[key][]byte{}
		for _, s := range t.All() {
			if bytes.HasPrefix(s.Payload, []byte("tidegate segment ")) {
				h := slices.Clone(s.Header)
				h[16], h[17] = 0, 0
				sides[i][key{s.Src == rig.ServiceAddr(false), string(s.Payload)}] = h
			}
		}
	}
	for k, seen := range sides[0] {
		other, there := sides[1][k]
		if !there {
			continue
		}
		r.fig.Segments++
		if !bytes.Equal(seen, other) {
			r.fig.SegmentsChanged++
		}
	}
	if r.fig.Segments == 0 {
		return errors.New("no segment was seen on both sides")
	}
	return nil
}

// measureEntries counts entries for connections from one address, and from many.
func (r *run) measureEntries() error {
	one := r.fresh()
	clients := slices.Repeat([]int{one}, heldForEntries)
	for _, to := range []*int{&r.fig.EntriesOneSrc, &r.fig.EntriesManySrc} {
		before, err := r.def.Usage()
		if err != nil {
			return err
		}
		var held []*net.TCPConn
		for _, client := range clients {
			c, _, err := r.open(client, 0)
			if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
				c, _, err = r.open(client, 0)
			}
			if err != nil {
				return err
			}
			held = append(held, c)
		}
		after, err := r.def.Usage()
		for _, c := range held {
			_ = c.SetLinger(0)
			c.Close()
		}
		if err != nil {
			return err
		}
		*to = after.Entries - before.Entries
		r.fig.KeyBytes, r.fig.EntryBytes = after.KeyBytes, load.Round3(defences.BytesPerEntry(after, r.def.Empty))
		for i := range clients {
			clients[i] = r.fresh()
		}
	}
	return nil
}

// measureLookups sends segments of an unknown client, and the same segments again
// when it is known. A segment counted differently was looked up.
func (r *run) measureLookups() error {
	t, err := load.NewTap(r.p.ClientPort)
	if err != nil {
		return err
	}
	defer t.Close()
	// The answer to a SYN-ACK may be an ACK or, if the SYN-ACK was wrong, a RST.
	for i, answer := range []load.TCPFlags{load.FlagACK, load.FlagRST} {
		syn := r.nobodySYN(2+i, uint16(40010+10*i))
		first, err := r.counted(syn)
		if err != nil {
			return err
		}
		got, ok := t.Next(time.Now().Add(probeTimeout), isAnswer(syn))
		if !ok {
			return errors.New("a SYN was not answered")
		}
		reply := load.Segment{Src: syn.Src, Dst: syn.Dst, Flags: answer, Seq: syn.Seq + 1, Ack: got.Seq + 1, Window: 65535}
		if answer == load.FlagRST {
			reply.Seq, reply.Ack = got.Ack, 0
		}
		unknown, err := r.counted(reply)
		if err != nil {
			return err
		}
		known, err := r.counted(reply)
		if err != nil {
			return err
		}
		r.fig.LooksUpOther = r.fig.LooksUpOther || unknown != known
		otherPort := syn
		otherPort.Src = netip.AddrPortFrom(syn.Src.Addr(), syn.Src.Port()+1)
		second, err := r.counted(otherPort)
		if err != nil {
			return err
		}
		r.fig.LooksUpSYN = r.fig.LooksUpSYN || first != second
	}
	return nil
}

// judgedBy are the counters that show how a client's segment was judged.
var judgedBy = [...]string{"cookie_sent", "challenge_sent", "cookie_valid", "cookie_invalid", "forward_white",
	"white_added", "white_reset", "flow_opened"}

// counted sends a segment and returns the differences of the counters. A port counts
// a frame after its program has run.
func (r *run) counted(s load.Segment) (delta [len(judgedBy)]uint64, err error) {
	before, err := r.def.Counters(r.ctx)
	if err != nil {
		return delta, err
	}
	rx, err := r.p.LegitPort.RxPackets()
	if err != nil {
		return delta, err
	}
	if err := load.SendSegment(r.p.Client, s); err != nil {
		return delta, err
	}
	for until := time.Now().Add(probeTimeout); ; time.Sleep(time.Millisecond) {
		now, err := r.p.LegitPort.RxPackets()
		if err != nil {
			return delta, err
		}
		if now > rx {
			break
		}
		if time.Now().After(until) {
			return delta, errors.New("a segment did not arrive at the middlebox")
		}
	}
	after, err := r.def.Counters(r.ctx)
	if err != nil {
		return delta, err
	}
	for i, name := range judgedBy {
		delta[i] = after[name] - before[name]
	}
	return delta, nil
}
