// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tidegate/internal/framegen"
	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

const (
	planesWorlds    = 96
	planesWorldsVar = "TIDEGATE_PLANES_WORLDS" // how many instead; the fixed seed's come first
	planesSYNs      = 48                       // per world; as many packets follow in each of two rounds
	planesLater     = 12                       // SYNs of the second round
	planesReady     = 4                        // connections of a world that are translated from the start
	planesRetry     = 50 * time.Millisecond    // after this a client's segment may be processed again: TG_RETRY_MS
	planesShown     = 3                        // differences of one kind that are printed
)

const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	tcpPSH
	tcpACK
	_ // URG
	tcpECE
	tcpCWR
)

// TestPlanes sends the same random frames to the proxy on every plane and path: XDP and DPDK,
// each with its fast paths and without. Verdict, bytes and counters must be equal under every
// strategy, mode and setting. Whether they are right is not tested here.
func TestPlanes(t *testing.T) {
	needRoot(t)
	worlds := planesWorlds
	if more := os.Getenv(planesWorldsVar); more != "" {
		var err error
		if worlds, err = strconv.Atoi(more); err != nil {
			t.Fatalf("%s: %v", planesWorldsVar, err)
		}
	}
	gates := append(newXDPPlanes(t), newDPDKPlanes(t)...)
	fast, slow := gates[0].(*xdpPlane), gates[1].(*xdpPlane)
	c := &planesComparison{t: t, gates: gates, kinds: map[string]int{}, counted: map[string]uint64{}, verdicts: map[vectors.Verdict]int{}}
	start := time.Now()
	for n := range worlds {
		fast.useTwins, slow.useTwins = n%3 != 0, n%3 != 1 // both, or one of them
		for try := range planesTries {
			parted := c.parted
			c.mayRepeat = try < planesTries-1
			r := rand.New(rand.NewPCG(differentialSeed, uint64(n)))
			c.world(r, newProxyWorld(r, n), differentialSeed+uint64(n))
			if c.parted == parted {
				break
			}
			c.forgetFlows()
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		t.Errorf("%d times: %s", c.kinds[kind], kind)
	}
	t.Logf("seed %d, %d worlds, %d frames to %d gates in %v: %v, %v; %d worlds ended early and %d were played again, for the clocks; %d and %d twins", differentialSeed, worlds, c.frames, len(gates), time.Since(start).Round(time.Millisecond), c.verdicts, c.counted, c.late, c.parted, fast.twins, slow.twins)
	if worlds < planesWorlds {
		t.Logf("%s=%d: with fewer than %d worlds some counters stay zero by chance, and are not asked for", planesWorldsVar, worlds, planesWorlds)
		return
	}
	for _, g := range []*xdpPlane{fast, slow} {
		if g.twins == 0 {
			t.Errorf("%s has sent no twins", g.name())
		}
	}
	for _, name := range planesMust {
		if c.counted[name] == 0 {
			t.Errorf("%s was never counted: the mix does not test it", name)
		}
	}
}

// planesMust are counters that must be non-zero, or the mix is not as intended.
var planesMust = []string{"syn", "cookie_sent", "cookie_valid", "cookie_invalid", "would_answer", "would_drop", "drop_malformed", "drop_checksum",
	"drop_flags", "drop_source", "drop_no_key", "pass_no_key", "pass_frame", "pass_existing", "pass_signed", "drop_signed", "signed_answered",
	"challenge_sent", "white_added", "white_reset", "forward_white", "cache_kept", "cache_known", "cache_valid", "cache_invalid", "cache_reset",
	"flow_opened", "flow_early", "flow_closed", "flow_refused", "flow_ready", "flow_notified", "flow_older", "flow_mismatch",
	"flow_forged", "flow_reack", "server_asked", "icmp_translated", "store_kept", "store_sent", "drop_denied",
	"detect_syn", "handshake"}

// planesComparison is the state of one test.
type planesComparison struct {
	t        *testing.T
	gates    []planeGate
	w        *planesWorld
	gens     []*framegen.Generator // one for each gate: they build the same frames except for the numbers that a gate chose
	kinds    map[string]int        // of differences
	counted  map[string]uint64
	verdicts map[vectors.Verdict]int
	frames   int
	differs  bool // this world's gates have diverged
	server   planesServer
	limit    time.Time // if set: when the planes' clocks diverge
	late     int       // worlds that ended because a frame was after that

	begun     time.Time // this world
	mayRepeat bool
	parted    int // worlds whose gates differed after planesClocksPart
}

// XDP's clock runs, and DPDK's stands still in the replay. What the gates remember of servers lasts a quarter of a second at the least
// (TG_CLOSED_ASK_EVERY_NS: another SYN may prove a port closed; TG_LEARNED_DOUBT_MS: a SYN-ACK may contradict what is known). A world that
// took longer, on a machine with much else to do, is played again before its difference counts; a difference of the code stays.
const (
	planesClocksPart = 250 * time.Millisecond
	planesTries      = 5
)

// forgetFlows is called before a world is played again, or it meets what the first time has left, and that on one plane alone.
func (c *planesComparison) forgetFlows() {
	for _, g := range c.gates {
		if err := g.forgetFlows(); err != nil {
			c.t.Fatalf("%s: %v", g.name(), err)
		}
	}
}

// conversation is the segments between a client and each gate.
type conversation struct {
	syn     framegen.Segment
	answers []outcome // to the SYN
	opened  []outcome // the SYNs that went to the server for an ACK
	begun   time.Time // before they did
	again   time.Time // before another did, after the connection had ended
	plain   []byte    // the SYN, without faults

	serverISN uint32
	late      uint32 // how far behind its first byte the client's next data are
	ready     bool   // the server has accepted: segments are translated
}

// world plays one configuration: SYNs and strays, then, perhaps in another epoch, their sequels.
func (c *planesComparison) world(r *rand.Rand, w *planesWorld, seed uint64) {
	c.w, c.differs, c.gens, c.server, c.begun = w, false, nil, newPlanesServer(r), time.Now()
	all := c.gates
	defer func() { c.gates = all }()
	if w.keepsData() {
		c.gates = slices.DeleteFunc(slices.Clone(all), func(g planeGate) bool { _, dpdk := g.(*dpdkPlane); return !dpdk })
	}
	for _, g := range c.gates {
		c.gens = append(c.gens, framegen.New(w.network(), seed))
		if err := g.prepare(w); err != nil {
			c.t.Fatalf("%v: %s: %v", w, g.name(), err)
		}
	}
	var ready []conversation
	if w.flows && strategyTranslates(w.services[0].strategy) {
		ready = c.readyFlows(r)
		for i := range ready[:planesReady/2] { // later it may have ended
			c.syn(&ready[i])
		}
	}
	var conversations []conversation
	for range planesSYNs {
		if c.differs {
			return
		}
		switch r.IntN(4) {
		case 0:
			c.send(false, func(g *framegen.Generator, _ int) framegen.Frame { return g.SYNFrom(0) })
		case 1:
			s := framegen.Segment{IPv6: r.IntN(2) == 0, Flags: uint8(r.Uint32()), Ack: r.Uint32(), DstPort: []uint16{80, 443, 81}[r.IntN(3)]}
			c.send(false, func(g *framegen.Generator, _ int) framegen.Frame { return g.Odd(s) })
		default:
			conversations = append(conversations, c.begin(r))
			if w.services[0].Automatic != 0 {
				c.goBy(r, &conversations[len(conversations)-1])
			}
			if r.IntN(4) == 0 { // at once, so that later ones find a known server
				c.follow(r, &conversations[len(conversations)-1])
			}
		}
	}
	if r.IntN(4) > 0 { // a cookie of the previous epoch, this one, the next, or an old one
		epoch := w.epoch + r.Uint64N(4) - 1
		for _, g := range c.gates {
			if err := g.at(w, epoch); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	for round := range 2 {
		for range planesLater * round { // clients of a server that is known by now
			conversations = append(conversations, c.begin(r))
		}
		for i := range conversations {
			if c.differs {
				return
			}
			c.follow(r, &conversations[i])
		}
		for i := range ready {
			c.follow(r, &ready[i])
		}
	}
	c.compareCounters()
}

// begin sends a SYN without faults.
func (c *planesComparison) begin(r *rand.Rand) conversation {
	v := conversation{syn: framegen.Segment{IPv6: r.IntN(2) == 0, Flags: tcpSYN}}
	var f framegen.Frame
	v.answers = c.send(false, func(g *framegen.Generator, _ int) framegen.Frame {
		f = g.Plain(v.syn)
		return f
	})
	v.plain = slices.Clone(f.Bytes)
	v.syn.Source, v.syn.SrcPort, v.syn.Seq = f.Source, f.Port, f.Seq
	return v
}

// goBy completes a handshake with the server, or nearly, where the SYN has gone by: of a sample, a gate in mode auto recognises that.
func (c *planesComparison) goBy(r *rand.Rand, v *conversation) {
	if v.answers[0].Verdict != vectors.Pass || len(v.answers[0].more) > 0 || v.plain == nil {
		return
	}
	isn, wrong := r.Uint32(), r.IntN(4)
	send := func(fromServer bool, bytes []byte) {
		c.send(fromServer, func(*framegen.Generator, int) framegen.Frame { return framegen.Frame{Bytes: slices.Clone(bytes)} })
	}
	ofServer := turned(v.plain, isn, v.syn.Seq+1+uint32(bit(wrong == 1)), tcpSYN|tcpACK)
	send(true, ofServer)
	ofClient := turned(turned(v.plain, 0, 0, tcpACK), v.syn.Seq+1+uint32(bit(wrong == 2)), isn+1, tcpACK)
	for range 2 { // counted once
		send(false, ofClient)
	}
}

// syn sends the SYN of a connection that is translated: a gate that finds none would answer it.
func (c *planesComparison) syn(v *conversation) {
	c.send(false, func(g *framegen.Generator, _ int) framegen.Frame { return g.Plain(v.syn) })
}

// follow sends a sequel to a SYN: mostly an ACK or a RST, right or nearly right. What it draws is its own: how much that is
// depends on the clock, and the rest of the world must not, or a busy machine plays other worlds, without the rare cases of this one.
func (c *planesComparison) follow(r *rand.Rand, v *conversation) {
	r = rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
	if v.ready {
		c.first(r, v)
		return
	}
	if v.opened != nil && time.Since(v.begun) > planesRetry {
		return // the clock decides whether it is processed again, and each plane has its own
	}
	if v.opened != nil {
		c.limit = v.begun.Add(planesRetry)
		defer func() { c.limit = time.Time{} }()
	}
	s := v.syn
	s.Seq++
	ackOff, random := uint32(0), r.Uint32()
	s.Flags = []uint8{tcpACK, tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpRST, tcpRST | tcpACK, tcpSYN, tcpSYN | tcpACK}[r.IntN(8)]
	if s.Flags == tcpSYN { // again, or of a new connection
		s.Seq -= uint32(1 + r.IntN(2)%2*4096)
	}
	switch r.IntN(8) {
	case 0:
		if s.Flags != tcpSYN { // the SYN cache's number derives from a clock, which stands still only on DPDK
			s.Seq-- // a probe of a closed window
		}
	case 1:
		ackOff = 1
	}
	switch r.IntN(16) { // an error about what the gate has sent
	case 0:
		c.icmp(r, v.answers, false)
	case 1:
		if v.opened != nil {
			c.icmp(r, v.opened, true)
		}
	}
	how, refusal := r.IntN(8), []uint8{tcpRST | tcpACK, tcpRST}[r.IntN(2)]
	if how == 0 && v.plain != nil { // the server's RST
		c.send(true, func(_ *framegen.Generator, gate int) framegen.Frame {
			ack := v.syn.Seq + 1 + ackOff
			if v.opened != nil {
				ack = binary.BigEndian.Uint32(tcpHeader(v.opened[gate].Out)[4:]) + 1 + ackOff
			}
			return framegen.Frame{Bytes: turned(v.plain, random, ack, refusal)}
		})
		return
	}
	sent := time.Now()
	answers := c.send(false, func(g *framegen.Generator, gate int) framegen.Frame {
		s := s
		s.Ack, s.Options = random, []byte{}
		if tcp := tcpHeader(v.answers[gate].Out); tcp != nil && v.answers[gate].Verdict == vectors.TX {
			s.Ack = binary.BigEndian.Uint32(tcp[4:]) + 1 + ackOff
			if s.Flags == tcpRST {
				s.Seq = binary.BigEndian.Uint32(tcp[8:])
			}
			if at := timestampsAt(tcp); at > 0 {
				s.Options = append([]byte{1, 1, 8, 10, 0, 0, 1, 0}, tcp[at:at+4]...)
			}
		}
		if s.Flags == tcpSYN {
			s.Ack = 0
		}
		switch {
		case how < 4:
			return g.Plain(s)
		case how < 6:
			return g.Enveloped(s)
		}
		return g.Odd(s)
	})
	if asksServer(answers[0].Result) && !c.differs {
		v.opened, v.begun = answers, sent
		if r.IntN(4) > 0 {
			c.setUp(r, v)
		}
	}
}

// readyFlows adds translated connections to every gate's tables, which a SYN, or
// segments of either side, then match.
func (c *planesComparison) readyFlows(r *rand.Rand) (all []conversation) {
	for range planesReady {
		f := readyFlow{ipv6: r.IntN(2) == 0, seqDelta: r.Uint32(), tsDelta: r.Uint32(), ts: r.IntN(2) == 0,
			windowUp: uint8(r.IntN(15)), windowDown: int8(r.IntN(15) - 7)}
		v := conversation{syn: framegen.Segment{IPv6: f.ipv6, Flags: tcpSYN}, answers: make([]outcome, len(c.gates))}
		for i, g := range c.gates {
			frame := c.gens[i].Plain(v.syn)
			f.client = frame.Bytes
			if i == 0 {
				v.plain = slices.Clone(frame.Bytes)
			}
			if err := g.flow(&f); err != nil {
				c.t.Fatalf("%s: %v", g.name(), err)
			}
			if i == len(c.gates)-1 {
				v.syn.Source, v.syn.SrcPort, v.syn.Seq = frame.Source, frame.Port, frame.Seq
			}
		}
		all = append(all, v)
	}
	return all
}

// TestPlanesAreToldApart is the canary: a gate that differs in one setting must be detected.
func TestPlanesAreToldApart(t *testing.T) {
	needRoot(t)
	gates := newDPDKPlanes(t)
	r := rand.New(rand.NewPCG(differentialSeed, 0))
	w := newPlanesWorld(r, 0)
	w.services[0].Mode, w.keys = plane.ModeAlways, []uint64{w.epoch, w.epoch + 1}
	if err := errors.Join(gates[0].prepare(w), gates[1].prepare(w), gates[1].at(w, w.epoch+1)); err != nil {
		t.Fatal(err)
	}
	c := &planesComparison{t: t, gates: gates, w: w, kinds: map[string]int{}, verdicts: map[vectors.Verdict]int{},
		gens: []*framegen.Generator{framegen.New(w.network(), 1), framegen.New(w.network(), 1)}}
	for range 8 {
		c.begin(r)
	}
	if !c.differs {
		t.Error("cookies of two epochs are the same")
	}
}

// TestPlanesPlayAgain: a world with translated connections that is played again is the same one.
func TestPlanesPlayAgain(t *testing.T) {
	needRoot(t)
	c := &planesComparison{t: t, gates: append(newXDPPlanes(t), newDPDKPlanes(t)...), kinds: map[string]int{}, counted: map[string]uint64{}, verdicts: map[vectors.Verdict]int{}}
	played := 0
	for n := 0; n < planesWorlds && played < 2; n++ {
		w := newProxyWorld(rand.New(rand.NewPCG(differentialSeed, uint64(n))), n)
		if !w.flows || !strategyTranslates(w.services[0].strategy) || w.services[0].Mode != plane.ModeAlways || w.keepsData() {
			continue
		}
		played++
		for range 2 {
			c.forgetFlows()
			r := rand.New(rand.NewPCG(differentialSeed, uint64(n)))
			c.world(r, newProxyWorld(r, n), differentialSeed+uint64(n))
		}
	}
	if len(c.kinds) > 0 || played == 0 {
		t.Errorf("%d worlds: %v", played, c.kinds)
	}
}

// forgetfulGate drops the last of several frames that it makes from one.
type forgetfulGate struct{ planeGate }

func (g forgetfulGate) packet(in []byte, fromServer bool) (outcome, error) {
	o, err := g.planeGate.packet(in, fromServer)
	if n := len(o.more); n > 0 {
		o.more = o.more[:n-1]
	}
	return o, err
}

// TestPlanesSetUpIsToldApart: so must one that sends one frame less after its server has answered.
func TestPlanesSetUpIsToldApart(t *testing.T) {
	needRoot(t)
	for name, gates := range map[string][]planeGate{"XDP": newXDPPlanes(t), "DPDK": newDPDKPlanes(t)} {
		gates[1] = forgetfulGate{gates[1]}
		c := &planesComparison{t: t, gates: gates, kinds: map[string]int{}, counted: map[string]uint64{}, verdicts: map[vectors.Verdict]int{}}
		for n := 0; n < planesWorlds && len(c.kinds) == 0; n++ {
			r := rand.New(rand.NewPCG(differentialSeed, uint64(n)))
			c.world(r, newProxyWorld(r, n), differentialSeed+uint64(n))
		}
		if len(c.kinds) == 0 {
			t.Errorf("%s: the server's answer makes one frame less, and nobody sees it", name)
		}
	}
}
