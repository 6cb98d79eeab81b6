// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"

	"tidegate/internal/framegen"
	"tidegate/internal/plane"
	"tidegate/internal/vectors"
)

const (
	serverWorlds    = 48
	serverWorldsVar = "TIDEGATE_SERVER_WORLDS" // how many instead; the fixed seed's come first
	serverSYNs      = 40
	serverSteps     = 10   // segments of a connection
	confirmPort     = 4321 // its bytes in any order
)

// serverSetting is what a world has beside a planesWorld.
type serverSetting struct {
	keys                                       [10]uint64
	generic, unverified, adopt, smart, epochs4 uint8
	edges                                      [4][2]netip.Addr // by number; 0 is none
}

// coreServer is core/ itself, by core/test/replay_server.c.
type coreServer struct{ coreGate }

func (g coreServer) prepare(w *planesWorld, s *serverSetting) error {
	command := fmt.Sprintf("server %d %d %d %d %d %d %x %x %x %d", s.generic, s.unverified, s.adopt, s.smart, s.epochs4, confirmPort,
		w.network().GateMAC, wide(serverAddrs[0]), wide(serverAddrs[1]), serverPort)
	for _, k := range s.keys {
		command += " " + strconv.FormatUint(k, 10)
	}
	commands := []string{command}
	for n, e := range s.edges {
		commands = append(commands, fmt.Sprintf("server-edge %d %x %x", n, wide(e[0]), wide(e[1])))
	}
	return errors.Join(g.world(w, nil), g.obey(commands...))
}

func (g coreServer) at(w *planesWorld, epoch uint64) error {
	_, err := g.ask("world %d %d 0 0", epoch, bit(w.staleDrop))
	return err
}

func (g coreServer) xdp(in []byte) (programOutcome, error) { return g.run("server-xdp %x", in) }
func (g coreServer) ingress(in []byte, again bool) (programOutcome, error) {
	return g.run("server-ingress 0 %d %x", bit(again), in)
}
func (g coreServer) egress(in []byte) (programOutcome, error) { return g.run("server-egress %x", in) }

// programServer is the three programs. What they send beside the packet in hand goes by the loopback.
type programServer struct {
	*serverGate
	wire *planesWire
}

func newProgramServer(t *testing.T) *programServer {
	t.Helper()
	enterNamespace(t)
	p, err := plane.LoadServer(plane.ServerOptions{Options: plane.Options{KeySlots: vectors.KeyRingSlots}, Flows: 1 << 15})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	g := &programServer{&serverGate{p: p, egress: p.Egress()}, openWire(t)}
	g.serverGate.xdp, g.serverGate.ingress = p.Programs()
	g.wire.gate, g.wire.far = [2]int{int(loopback), int(loopback)}, [2]int{int(loopback), int(loopback)}
	return g
}

func (g *programServer) prepare(w *planesWorld, s *serverSetting) error {
	settings := planesSettings(w, w.epoch)
	settings.VerifyAheadNs, settings.Smart, settings.FourEpochs = 0, s.smart, s.epochs4
	mac := uint64(0)
	for i, b := range w.network().GateMAC {
		mac |= uint64(b) << (8 * i)
	}
	err := errors.Join(prepareWorld(g.p, w, nil, &settings), g.p.SetServer(plane.ServerSettings{Keys: s.keys, IdleTicks: 1000, ConfirmPortBe: confirmPort, Generic: s.generic, Unverified: s.unverified,
		Adopt: s.adopt, SourceFloor: math.MaxUint32}), g.p.Map("tg_own_macs").Put(loopback, mac))
	for slot := range uint32(vectors.KeyRingSlots) {
		err = errors.Join(err, g.p.Map("tg_tag_keys").Put(slot, slices.Repeat([]byte{0xff}, 40)))
	}
	for _, n := range w.keys {
		err = errors.Join(err, g.p.PutTagKeys(n, w.secret.TagKey(n), w.secret.ConfirmKey(n)))
	}
	for n, e := range s.edges {
		if n > 0 {
			err = errors.Join(err, g.p.SetEdge(n, e[0], e[1], 0, 0))
		}
	}
	return err
}

func (g *programServer) at(w *planesWorld, epoch uint64) error {
	return epochAt(g.p.Map("tg_settings"), g.p.SetSettings, w, epoch)
}

func (g *programServer) run(prog *ebpf.Program, in []byte, verdicts map[uint32]string, ctx any) (o programOutcome, err error) {
	sent, err := g.wire.collect(func() (err error) {
		o, err = runProgram(prog, in, verdicts, ctx)
		return err
	}, 0)
	if err != nil {
		return o, err
	}
	for _, s := range sent {
		if !slices.Equal(s.frame[:12], make([]byte, 12)) { // else it is the kernel's own
			o.sent = append(o.sent, s.frame)
		}
	}
	return o, nil
}

func (g *programServer) xdp(in []byte) (programOutcome, error) {
	o, err := g.run(g.serverGate.xdp, in, roleVerdict, nil)
	if len(o.out) > metaLen && o.verdict == "pass" && binary.LittleEndian.Uint32(o.out) == metaSetup {
		o.verdict, o.out = "setup", o.out[metaLen:]
	}
	return o, err
}

func (g *programServer) ingress(in []byte, again bool) (programOutcome, error) {
	skb := struct{ Len, PktType, Mark uint32 }{} // the beginning of struct __sk_buff
	if again {
		skb.Mark = 0x74677333 // TG_MARK_RETRANSMIT
	}
	return g.run(g.serverGate.ingress, in, tcVerdicts, skb)
}

func (g *programServer) egress(in []byte) (programOutcome, error) {
	return g.run(g.serverGate.egress, in, tcVerdicts, nil)
}

// serverComparison is the state of TestServerAndCore.
type serverComparison struct {
	coreComparison
	core     coreServer
	programs *programServer
	s        *serverSetting
	alter    func(*serverSetting) // what only the programs have; nil: nothing
}

// TestServerAndCore sends the same random frames, of clients through edges with tags and without, and of
// the local stack, to the server's three programs and to core/'s slow path, which is compiled
// natively: the same verdict, bytes and counters, and the same packets that are put back in.
func TestServerAndCore(t *testing.T) {
	needRoot(t)
	c := newServerComparison(t)
	c.worlds(serverWorlds, serverWorldsVar, c.world, "cookie_sent", "cookie_valid", "tag_valid", "tag_stale", "tag_forged", "tag_foreign",
		"probe_known", "probe_unknown", "split_opened", "split_ready", "split_reack", "split_older", "split_refused", "split_closed",
		"split_retransmit", "split_replaced", "confirm_sent", "confirm_failed", "drop_unmatched_ack", "pass_no_key", "drop_malformed",
		"drop_fragment", "drop_checksum", "pass_listener")
}

func newServerComparison(t *testing.T) *serverComparison {
	t.Helper()
	c := newCoreComparison(t)
	return &serverComparison{coreComparison: c, core: coreServer{c.core}, programs: newProgramServer(t)}
}

// world plays one configuration.
func (c *serverComparison) world(n int) {
	r := rand.New(rand.NewPCG(differentialSeed, uint64(n)|1<<32))
	w := newPlanesWorld(r, n)
	one := func(of ...uint8) uint8 { return of[r.IntN(len(of))] }
	s := &serverSetting{generic: one(0, 1, 1), unverified: one(0, 0, 1), adopt: one(0, 0, 1), smart: one(0, 0, 0, 1), epochs4: one(0, 0, 1)}
	s.edges = [4][2]netip.Addr{{}, {netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:9::1")}, {netip.MustParseAddr("203.0.113.2"), {}}, {}}
	for i := range s.keys {
		s.keys[i] = r.Uint64()
	}
	for i := range w.services {
		l := one(plane.ListenerTranslate, plane.ListenerTranslate, plane.ListenerTranslate, plane.ListenerNone, plane.ListenerOK)
		w.services[i].ListenerV4, w.services[i].ListenerV6 = l, l
		if s.smart != 0 { // as the role sets it: that layout cannot restore them
			w.services[i].Sack, w.services[i].Timestamps, w.services[i].Ecn = 0, 0, 0
		}
	}
	c.s = s
	c.begin(w, c.programs.p.Map("tg_counters"), func() string { return fmt.Sprintf("%+v", *s) })
	own := *s
	if c.alter != nil {
		c.alter(&own)
	}
	if err := errors.Join(c.core.prepare(w, s), c.programs.prepare(w, &own)); err != nil {
		c.t.Fatal(err)
	}
	var connections []conversation
	for range serverSYNs {
		switch r.IntN(4) {
		case 0:
			c.toServer(c.gen.SYNFrom(0))
		case 1:
			c.toServer(c.gen.Odd(framegen.Segment{IPv6: r.IntN(2) == 0, Flags: uint8(r.Uint32()), Ack: r.Uint32(), DstPort: []uint16{80, 443, 81}[r.IntN(3)]}))
		default:
			v := conversation{syn: framegen.Segment{IPv6: r.IntN(2) == 0, Flags: tcpSYN}}
			f := c.gen.Plain(v.syn)
			v.syn.Source, v.syn.SrcPort, v.syn.Seq = f.Source, f.Port, f.Seq
			answer := c.toServer(f)
			v.answers = []outcome{{Result: vectors.Result{Out: answer.out}}}
			if answer.verdict != "tx" {
				v.answers = nil
			}
			connections = append(connections, v)
		}
	}
	if r.IntN(4) == 0 {
		c.epoch += r.Uint64N(4) - 1
		if err := errors.Join(c.core.at(w, c.epoch), c.programs.at(w, c.epoch)); err != nil {
			c.t.Fatal(err)
		}
	}
	for i := range connections {
		if c.differs {
			return
		}
		c.connection(r, &connections[i])
	}
	c.end()
}

// connection plays both sides of one.
func (c *serverComparison) connection(r *rand.Rand, v *conversation) {
	cookie, ts := r.Uint32(), []byte(nil)
	learn := func(answer []byte) {
		if tcp := tcpHeader(answer); tcp != nil {
			cookie, ts = binary.BigEndian.Uint32(tcp[4:]), nil
			if at := timestampsAt(tcp); at > 0 {
				ts = slices.Clone(tcp[at : at+4])
			}
		}
	}
	if v.answers != nil {
		learn(v.answers[0].Out)
	}
	edge, tags, isn := 1+r.IntN(3), r.IntN(2) == 0, r.Uint32()
	stack := newPlanesServer(r)
	var syn []byte // what the stack has got
	for step := range serverSteps {
		if c.differs {
			return
		}
		if syn != nil && r.IntN(2) == 0 {
			c.fromStack(r, v, stack, tcpHeader(syn), isn, step)
			continue
		}
		if syn != nil && r.IntN(8) == 0 { // the client has lost its state, and comes again from the same port
			fresh := v.syn
			fresh.Seq = r.Uint32()
			if answer := c.toServer(c.gen.Plain(fresh)); answer.verdict == "tx" {
				v.syn.Seq = fresh.Seq
				learn(answer.out)
			}
		}
		s := v.syn
		s.Seq, s.Ack, s.Options = v.syn.Seq+1, cookie+1, []byte{}
		if ts != nil {
			s.Options = append([]byte{1, 1, 8, 10, 0, 0, 1, 0}, ts...)
		}
		s.Flags = []uint8{tcpACK, tcpACK, tcpACK, tcpACK | tcpPSH, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpRST | tcpACK, tcpRST, tcpSYN | tcpACK}[r.IntN(9)]
		if step == 0 {
			s.Flags = tcpACK
		}
		switch r.IntN(12) {
		case 0:
			s.Ack++
		case 1:
			s.Seq--
		case 2: // a step further than a connection goes
			s.Ack += 0x20000 + r.Uint32N(1<<20)
		}
		var f framegen.Frame
		switch r.IntN(8) {
		case 0:
			f = c.gen.Odd(s)
		case 1:
			f = c.gen.Enveloped(s)
		case 2, 3:
			f = c.gen.Build(s, framegen.Payload)
		default:
			f = c.gen.Plain(s)
		}
		if tags && r.IntN(4) > 0 {
			f.Bytes = c.tagged(r, f.Bytes, edge)
		}
		arrived := c.toServer(f)
		if tcp := tcpHeader(arrived.out); tcp != nil && arrived.verdict == "pass" && tcp[13]&(tcpSYN|tcpACK) == tcpSYN {
			syn = arrived.out
		} else if arrived.verdict == "setup" && syn == nil { // as the TC program will make it: BPF_PROG_TEST_RUN hands no mark over
			if again := c.ingress(arrived.out, true); again.verdict == "pass" {
				if tcp := tcpHeader(again.out); tcp != nil && tcp[13]&(tcpSYN|tcpACK) == tcpSYN {
					syn = again.out
				}
			}
		}
	}
}

// tagged puts an edge's tag on a frame: right, forged, of a wrong kind, or of another epoch.
func (c *serverComparison) tagged(r *rand.Rand, frame []byte, edge int) []byte {
	epoch, what, flip := c.epoch, 1+r.IntN(2), uint64(0)
	switch r.IntN(8) {
	case 0:
		epoch += r.Uint64N(5) - 2
	case 1:
		flip = 1 << r.IntN(64)
	case 2:
		what = r.IntN(16)
	}
	o, err := c.core.run("tag %d %d %d %d %d %x", epoch, what, []int{7, 15, 0}[r.IntN(3)], edge, flip, frame)
	if err != nil || len(o.out) == 0 {
		return frame // it has no room for one
	}
	return o.out
}

// toServer sends a frame from the wire: through XDP and, as generic XDP leaves it to TC, through TC.
func (c *serverComparison) toServer(f framegen.Frame) programOutcome {
	in := slices.Clone(f.Bytes)
	o := c.both("XDP, "+f.Traits.String(), in, func() (programOutcome, error) { return c.programs.xdp(in) }, func() (programOutcome, error) { return c.core.xdp(in) })
	if o.verdict != "pass" || c.s.generic == 0 || c.differs {
		return o
	}
	o = c.ingress(o.out, false)
	for _, f := range o.sent { // the copy that comes behind the SYN
		c.ingress(f, true)
	}
	if o.verdict == "redirect" {
		o = c.ingress(o.out, true)
	}
	return o
}

func (c *serverComparison) ingress(in []byte, again bool) programOutcome {
	return c.both("TC ingress", in, func() (programOutcome, error) { return c.programs.ingress(in, again) }, func() (programOutcome, error) { return c.core.ingress(in, again) })
}

// fromStack sends a segment of the local stack.
func (c *serverComparison) fromStack(r *rand.Rand, v *conversation, stack planesServer, syn []byte, isn uint32, step int) {
	net := c.w.network()
	family := bit(v.syn.IPv6)
	net.Service[family], net.Port = v.syn.Source, v.syn.SrcPort
	g := framegen.New(net, r.Uint64())
	s := framegen.Segment{IPv6: v.syn.IPv6, Source: serverAddrs[family], SrcPort: c.w.services[0].port, Seq: isn, Ack: v.syn.Seq + 1}
	switch r.IntN(8) {
	default:
		s.Options, s.Flags = stack.synack(syn, 0x55667788)
	case 0, 1, 2:
		s.Seq, s.Flags, s.Options = isn+1, []uint8{tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpRST | tcpACK}[r.IntN(4)], []byte{}
		if timestampsAt(syn) > 0 {
			s.Options = []byte{1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 1, 0}
		}
	case 3:
		s.Ack, s.Flags, s.Options = s.Ack+1+r.Uint32N(1000), []uint8{tcpSYN | tcpACK, tcpACK}[r.IntN(2)], []byte{}
	case 4:
		if step > serverSteps/2 {
			s.Flags, s.Options = tcpRST|tcpACK, []byte{}
		}
	}
	f := g.Plain(s)
	if r.IntN(8) == 0 {
		f = g.Enveloped(s)
	}
	in := slices.Clone(f.Bytes)
	o := c.both("TC egress, "+f.Traits.String(), in, func() (programOutcome, error) { return c.programs.egress(in) }, func() (programOutcome, error) { return c.core.egress(in) })
	if c.s.generic == 1 {
		if o.verdict == "redirect" {
			o.sent = append(o.sent, o.out)
		}
		for _, f := range o.sent { // what was put back in comes by XDP
			if tcp := tcpHeader(f); tcp != nil && isToServer(tcp) {
				c.toServer(framegen.Frame{Bytes: f})
			}
		}
	}
}

// isToServer tells what was put back in from a copy that goes to the client.
func isToServer(tcp []byte) bool { return binary.BigEndian.Uint16(tcp[2:]) == serverPort }

// TestServerAndCoreAreToldApart is the canary: another answer to what does not verify is noticed.
func TestServerAndCoreAreToldApart(t *testing.T) {
	needRoot(t)
	c := newServerComparison(t)
	c.alter = func(s *serverSetting) { s.unverified ^= 1 }
	c.canary(serverWorlds, c.world)
}
