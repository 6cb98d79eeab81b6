// SPDX-License-Identifier: Apache-2.0

package p4_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/keys"
	"tidegate/internal/p4"
	"tidegate/internal/p4/simpleswitch"
)

// What an attacker can try at the edge, with keys that really change.

const (
	attackFrames = 10000
	portion      = 16 // at once; of a hundred the switch's sockets lose some
)

// frameOf is a segment without options from a client, with whole checksums.
func frameOf(src, dst netip.Addr, sport, dport uint16, seq, ack uint32, flags byte) []byte {
	tcp := make([]byte, 20)
	binary.BigEndian.PutUint16(tcp, sport)
	binary.BigEndian.PutUint16(tcp[2:], dport)
	binary.BigEndian.PutUint32(tcp[4:], seq)
	binary.BigEndian.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13], tcp[14] = 0x50, flags, 0xff
	ends := append(src.AsSlice(), dst.AsSlice()...)
	binary.BigEndian.PutUint16(tcp[16:], internetSum(append(append(bytes.Clone(ends), 0, 6, 0, 20), tcp...)))
	frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 10}
	if src.Is4() {
		ip := append([]byte{0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0}, ends...)
		binary.BigEndian.PutUint16(ip[10:], internetSum(ip))
		frame = append(append(frame, 8, 0), ip...)
	} else {
		frame = append(append(frame, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64), ends...)
	}
	return append(frame, tcp...)
}

func internetSum(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// attackedEdge is an edge with short epochs and a short filter, and its controller's loop.
type attackedEdge struct {
	*bench
	t          *testing.T
	controller *p4.Controller
}

func newAttackedEdge(t *testing.T, change ...func(*p4.Config)) *attackedEdge {
	e := &attackedEdge{bench: newBench(t, edgeProgram), t: t}
	learn := p4.Duration(0)
	cfg := &p4.Config{Program: p4.ProgramEdge, Thrift: thriftAddr, Epoch: p4.Duration(time.Second),
		KeyHorizon: p4.Duration(10 * time.Second), OnStaleKeys: "drop", Window: p4.Duration(time.Second), Learn: &learn,
		Inside: []string{"sw2"}, Services: []p4.Service{{Name: "web", Ports: []uint16{80}}}}
	for _, c := range change {
		c(cfg)
	}
	cfg.Complete()
	secret := keys.Secret{1, 2, 3}
	var err error
	if e.controller, err = p4.NewController(context.Background(), cfg, &secret, p4.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.controller.Close() })
	return e
}

// pass advances the controller's clock.
func (e *attackedEdge) pass(d time.Duration) {
	e.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := e.controller.Tick(); err != nil {
			e.t.Fatal(err)
		}
	}
}

// send returns how many of the frames reached the servers.
func (e *attackedEdge) send(frames ...[]byte) (through int) {
	e.t.Helper()
	for len(frames) > 0 {
		n := min(len(frames), portion)
		on, back, err := e.through(e.outside, e.inside, frames[:n]...)
		if err != nil {
			e.t.Fatal(err)
		}
		if len(back) != 0 {
			e.t.Fatalf("%d frames were answered", len(back))
		}
		through, frames = through+len(on), frames[n:]
	}
	return through
}

func (e *attackedEdge) count(name string) uint64 {
	e.t.Helper()
	counts, err := e.controller.Counters()
	if err != nil {
		e.t.Fatal(err)
	}
	return counts["web"][name]
}

// handshake gets a cookie and returns the ACK for it, not sent.
func (e *attackedEdge) handshake(src, dst netip.Addr, sport uint16) (ack []byte) {
	e.t.Helper()
	const isn = 0x01020304
	on, back, err := e.through(e.outside, e.inside, frameOf(src, dst, sport, 80, isn, 0, 2))
	if err != nil || len(on) != 0 || len(back) != 1 {
		e.t.Fatalf("%v: %d frames went on, %d came back", err, len(on), len(back))
	}
	at := 14 + 20
	if src.Is6() {
		at = 14 + 40
	}
	return frameOf(src, dst, sport, 80, isn+1, binary.BigEndian.Uint32(back[0][at+4:])+1, 0x10)
}

var attackEnds = map[string][2]netip.Addr{
	"ipv4": {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7")},
	"ipv6": {netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::7")},
}

// TestEdgeFloods: ACKs with guessed cookies, RSTs, FINs and SYN-ACKs to random ports are dropped by
// the switch. A guess is right with 2^-24; of 20,000 one is with 0.1 %.
func TestEdgeFloods(t *testing.T) {
	e := newAttackedEdge(t)
	random := rand.New(rand.NewPCG(1, 2))
	for name, ends := range attackEnds {
		for _, kind := range []struct {
			flags   byte
			counter string
			n       int
		}{{0x10, "drop_ack", attackFrames}, {0x18, "drop_ack", 1000}, {0x04, "drop_rst", 1000}, {0x14, "drop_rst", 1000},
			{0x11, "drop_fin", 1000}, {0x12, "drop_synack", 1000}, {0, "drop_stray", 1000}} {
			var frames [][]byte
			for range kind.n {
				frames = append(frames, frameOf(ends[0], ends[1], uint16(1024+random.IntN(60000)), 80, random.Uint32(),
					random.Uint32(), kind.flags))
			}
			before := e.count(kind.counter)
			if n := e.send(frames...); n != 0 {
				t.Errorf("%s flags %#x: %d of %d came through", name, kind.flags, n, kind.n)
			}
			if got := e.count(kind.counter) - before; got != uint64(kind.n) {
				t.Errorf("%s flags %#x: %s counted %d of %d", name, kind.flags, kind.counter, got, kind.n)
			}
			e.pass(0)
		}
	}
}

// TestEdgeReplay: a captured ACK is useless from another source, and later: two epochs
// and the filter's window on, it is dropped; and new handshakes always work.
func TestEdgeReplay(t *testing.T) {
	e := newAttackedEdge(t)
	captured := map[string][]byte{}
	for name, ends := range attackEnds {
		ack := e.handshake(ends[0], ends[1], 5000)
		if first, second := e.send(ack), e.send(ack); first != 1 || second != 1 {
			t.Errorf("%s: the ACK, or its copy, did not come through", name)
		}
		captured[name] = ack
		at := len(ack) - 20
		numbers := binary.BigEndian.Uint32(ack[at+4:])
		cookie := binary.BigEndian.Uint32(ack[at+8:])
		other := ends[0].Next()
		for what, forged := range map[string][]byte{
			"another address": frameOf(other, ends[1], 5000, 80, numbers, cookie, 0x10),
			"another port":    frameOf(ends[0], ends[1], 5001, 80, numbers, cookie, 0x10),
			"another server":  frameOf(ends[0], ends[1].Next(), 5000, 80, numbers, cookie, 0x10),
			"another number":  frameOf(ends[0], ends[1], 5002, 80, numbers+1, cookie, 0x10),
		} {
			if n := e.send(forged); n != 0 {
				t.Errorf("%s, replayed from %s: came through", name, what)
			}
		}
	}
	e.pass(4500 * time.Millisecond) // two epochs, and four thirds of the window and more
	for name, ack := range captured {
		if n := e.send(ack); n != 0 {
			t.Errorf("%s: replayed after two epochs: came through", name)
		}
		ends := attackEnds[name]
		if n := e.send(e.handshake(ends[0], ends[1], 5000)); n != 1 {
			t.Errorf("%s: a new handshake on the same ports: %d came through", name, n)
		}
	}
}

// TestEdgeKeysChange: continuous handshakes across six epochs, with a flood of
// SYNs between them; each ACK is sent a moment later, often in the next epoch.
func TestEdgeKeysChange(t *testing.T) {
	e := newAttackedEdge(t)
	random := rand.New(rand.NewPCG(3, 4))
	type waiting struct {
		ack  []byte
		from time.Time
	}
	var queue []waiting
	done := 0
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end) || len(queue) > 0; {
		ends := attackEnds["ipv4"]
		if time.Now().Before(end) {
			var flood [][]byte
			for range portion {
				src := netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + random.IntN(200))})
				flood = append(flood, frameOf(src, ends[1], uint16(1024+random.IntN(60000)), 80, random.Uint32(), 0, 2))
			}
			on, back, err := e.through(e.outside, e.inside, flood...)
			if err != nil || len(on) != 0 || len(back) != len(flood) {
				t.Fatalf("%v: of %d SYNs %d went on and %d were answered", err, len(flood), len(on), len(back))
			}
			queue = append(queue, waiting{e.handshake(ends[0], ends[1], uint16(10000+done+len(queue))), time.Now()})
		}
		for len(queue) > 0 && time.Since(queue[0].from) > 900*time.Millisecond {
			if n := e.send(queue[0].ack); n != 1 {
				t.Fatalf("handshake %d, %v old: %d ACKs came through", done, time.Since(queue[0].from), n)
			}
			queue, done = queue[1:], done+1
		}
		e.pass(0)
		if err := e.controller.Tick(); err != nil {
			t.Fatal(err)
		}
	}
	if valid := e.count("cookie_valid"); valid+e.count("edge_known") < uint64(done) || done < 100 {
		t.Errorf("%d handshakes, %d cookies verified", done, valid)
	}
	t.Logf("%d handshakes across six epochs, each 0.9 s old", done)
}

// TestEdgeFilterPolluted: the filter's fill is reported as computed and as measured, and both
// predict what happens to packets; flows that an attacker adds by handshakes are gone
// when the window is over.
func TestEdgeFilterPolluted(t *testing.T) {
	e := newAttackedEdge(t, func(c *p4.Config) { c.Window = p4.Duration(6 * time.Second) })
	const flows, unknowns = 300, 2000
	ends := attackEnds["ipv4"]
	for i := range uint16(flows) {
		if n := e.send(e.handshake(ends[0], ends[1], 10000+i)); n != 1 {
			t.Fatalf("handshake %d: %d ACKs came through", i, n)
		}
	}
	start := time.Now()
	f, err := e.controller.Filter()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the filter was read in %v", time.Since(start))
	if got := f.Flows[f.Active]; got < flows-3 || got > flows+3 || f.Computed > 1e-9 || f.Measured != 0 || f.Alarm {
		t.Errorf("with %d flows: %+v", flows, f)
	}
	// Half of each partition: of unknown flows an eighth is taken for known.
	sw, err := simpleswitch.Dial(t.Context(), thriftAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer sw.Close()
	const words = 1 << (p4.FilterBits - 5) // of a generation's partition
	pollute := func(first, end int) {
		t.Helper()
		for _, part := range []string{"part0", "part1", "part2"} {
			if err := sw.WriteRange("EdgeIngress.bloom."+part, int(f.Active)*words+first, int(f.Active)*words+end, 0xffffffff); err != nil {
				t.Fatal(err)
			}
		}
	}
	pollute(0, words/2)
	if f, err = e.controller.Filter(); err != nil {
		t.Fatal(err)
	}
	random, through := rand.New(rand.NewPCG(5, 6)), 0
	for at := 0; at < unknowns; at += portion {
		var frames [][]byte
		for range portion {
			frames = append(frames, frameOf(ends[0], ends[1], uint16(1024+random.IntN(8000)), 80, random.Uint32(), random.Uint32(), 0x10))
		}
		through += e.send(frames...)
	}
	passed := float64(through) / unknowns
	for what, rate := range map[string]float64{"computed": f.Computed, "measured": f.Measured, "of packets": passed} {
		if rate < 0.125-0.035 || rate > 0.125+0.035 { // more than four standard deviations of the packets
			t.Errorf("%s: %.4f of unknown flows are taken for known, want 0.125", what, rate)
		}
	}
	t.Logf("computed %.4f, measured %.4f, of %d ACKs passed %.4f", f.Computed, f.Measured, unknowns, passed)
	pollute(0, words*3/4)
	if f, err = e.controller.Filter(); err != nil || !f.Alarm {
		t.Errorf("three quarters full: %+v %v", f, err)
	}
	e.pass(9 * time.Second)
	if f, err = e.controller.Filter(); err != nil || f.Computed != 0 || f.Alarm {
		t.Errorf("a window and a third later: %+v %v", f, err)
	}
}

// TestEdgeTTLProbing: packets that expire on the path reveal nothing about known flows: below `hops` everything
// is dropped, and what is forwarded has one TTL.
func TestEdgeTTLProbing(t *testing.T) {
	e := newAttackedEdge(t, func(c *p4.Config) { c.Window, c.Hops = p4.Duration(time.Minute), 16 })
	for name, ends := range attackEnds {
		ack := e.handshake(ends[0], ends[1], 5000)
		if n := e.send(ack); n != 1 {
			t.Fatalf("%s: %d ACKs came through", name, n)
		}
		at := 14 + 8
		if ends[0].Is6() {
			at = 14 + 7
		}
		seen := map[byte]int{}
		for ttl := 1; ttl < 256; ttl += 1 + ttl/20*7 {
			for _, known := range []bool{true, false} {
				frame := bytes.Clone(ack)
				if !known {
					frame = frameOf(ends[0], ends[1], 5001, 80, 9, 9, 0x10)
				}
				frame[at] = byte(ttl)
				if ends[0].Is4() {
					frame[24], frame[25] = 0, 0
					binary.BigEndian.PutUint16(frame[24:], internetSum(frame[14:34]))
				}
				on, back, err := e.through(e.outside, e.inside, frame)
				if err != nil || len(back) != 0 || (len(on) == 1) != (known && ttl >= 16) {
					t.Fatalf("%s: TTL %d, known %v: %d went on, %d came back, %v", name, ttl, known, len(on), len(back), err)
				}
				for _, f := range on {
					seen[f[at]]++
				}
			}
		}
		if len(seen) != 1 || seen[16] < 10 {
			t.Errorf("%s: TTLs of what went on: %v, want 16 alone", name, seen)
		}
	}
}
