// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/framegen"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/vectors"
)

const (
	edgeWorlds    = 96
	edgeWorldsVar = "TIDEGATE_EDGE_WORLDS"
	edgeSYNs      = 40
	edgeSegments  = 5 // of a connection
	edgeNumber    = 7
)

// edgeSetting is what a world has beside a planesWorld.
type edgeSetting struct {
	smart, epochs4, hops uint8
	challengeAll         uint8
	number               uint16 // of the protocol `tagged`; 0: `plain`
	mtu                  uint32
	learning             bool
	unknownNs, creditNs  uint64 // the allowance of unknown segments
	challengesNs         uint64 // likewise, of SYNs of known flows
}

// command gives it to core/.
func (s *edgeSetting) command(w *planesWorld) string {
	c := fmt.Sprintf("edge %d %d %d %d %d %d %d %d %d %d %d %d", s.challengeAll, s.smart, s.epochs4, w.aheadEpochs(), s.hops, s.number, s.mtu, confirmPort,
		bit(s.learning), s.unknownNs, s.creditNs, s.challengesNs)
	for _, half := range edgeSettings(0).BloomKey.K {
		for _, k := range half {
			c += fmt.Sprintf(" %d", k)
		}
	}
	return c
}

func (g *edgeGate) prepareWorld(w *planesWorld, s *edgeSetting) error {
	settings := planesSettings(w, w.epoch)
	settings.FourEpochs = s.epochs4
	g.challengeAll, g.tagged = s.challengeAll, s.number != 0
	own := edgeSettings(s.unknownNs)
	own.Hops = s.hops
	if s.learning {
		own.LearningUntilNs = math.MaxUint64
	}
	err := errors.Join(prepareWorld(g.p, w, nil, &settings), g.p.SetEdge(own),
		g.p.SetTagged(plane.TaggedSettings{Edge: s.number, ConfirmPortBe: confirmPort, Mtu: s.mtu}),
		frozenAllowance(g.p.Map("tg_allowances"), s.creditNs), frozenAllowance(g.p.Map("tg_challenges"), s.challengesNs), g.inside(false))
	for slot := range uint32(vectors.KeyRingSlots) {
		err = errors.Join(err, g.p.Map("tg_tag_keys").Put(slot, slices.Repeat([]byte{0xff}, 40)))
	}
	for _, n := range w.keys {
		err = errors.Join(err, g.p.PutTagKeys(n, w.secret.TagKey(n), w.secret.ConfirmKey(n)))
	}
	for range plane.BloomGenerations { // a filter that knows nobody
		err = errors.Join(err, g.p.Rotate())
	}
	return err
}

// inside says which side frames come from.
func (g *edgeGate) inside(inside bool) error {
	return g.p.Map("tg_edge_ports").Put(loopback, plane.EdgePort{Flags: plane.EdgePortHere | plane.EdgePortBridged | uint64(bit(inside))*plane.EdgePortInside |
		uint64(g.challengeAll)*plane.EdgePortChallenge | uint64(bit(g.tagged))*plane.EdgePortTagged})
}

var edgeVerdicts = map[uint32]string{xdpDrop: "drop", xdpTX: "tx", xdpRedirect: "pass", xdpPass: "kernel"}

// edgeComparison is the state of TestEdgeAndCore.
type edgeComparison struct {
	coreComparison
	gates     [2]*edgeGate // by layout
	s         *edgeSetting
	server    coreGate // confirms
	gate      *edgeGate
	refreshed uint64
	alter     func(*edgeSetting) // what only the program has; nil: nothing
}

func newEdgeComparison(t *testing.T) *edgeComparison {
	t.Helper()
	return &edgeComparison{coreComparison: newCoreComparison(t), gates: [2]*edgeGate{newEdgeGate(t, false), newEdgeGate(t, true)}, server: coreGate{newNativeGate(t)}}
}

// TestEdgeAndCore sends the same random frames, of clients and of servers, to the edge's program in either
// layout and protocol and to core/'s slow path, which is compiled natively: the same verdict, bytes and counters.
func TestEdgeAndCore(t *testing.T) {
	needRoot(t)
	c := newEdgeComparison(t)
	c.worlds(edgeWorlds, edgeWorldsVar, c.world, "syn", "cookie_sent", "cookie_valid", "edge_known", "edge_unknown", "edge_learning", "edge_refreshed",
		"edge_syn_known", "drop_ack", "drop_rst", "drop_fin", "drop_stray", "drop_synack", "drop_hops", "drop_checksum", "drop_source_route",
		"drop_malformed", "drop_flags", "drop_fragment", "drop_source", "drop_no_key", "pass_no_key", "pass_signed", "drop_signed",
		"signed_answered", "would_answer", "would_drop", "tag_setup", "tag_probe", "tag_no_room", "confirm_taken", "confirm_forged")
}

// TestEdgeAndCoreAreToldApart are the canaries.
func TestEdgeAndCoreAreToldApart(t *testing.T) {
	needRoot(t)
	c := newEdgeComparison(t)
	for name, alter := range map[string]func(*edgeSetting){
		"four epochs": func(s *edgeSetting) { s.epochs4 ^= 1 },
		"TTL":         func(s *edgeSetting) { s.hops++ },
		"challenge":   func(s *edgeSetting) { s.challengeAll ^= 1 },
		"tag":         func(s *edgeSetting) { s.number *= 2 },
		"allowance":   func(s *edgeSetting) { s.creditNs += s.unknownNs },
	} {
		t.Run(name, func(t *testing.T) {
			c.t, c.alter, c.differs = t, alter, false
			c.canary(edgeWorlds, c.world)
		})
	}
}

// world plays one configuration.
func (c *edgeComparison) world(n int) {
	r := rand.New(rand.NewPCG(differentialSeed, uint64(n)|3<<32))
	w := newPlanesWorld(r, n)
	one := func(of ...uint8) uint8 { return of[r.IntN(len(of))] }
	s := &edgeSetting{smart: one(0, 0, 1), epochs4: one(0, 0, 1), hops: one(0, 0, 2, 60), challengeAll: one(0, 1), mtu: []uint32{1500, 120}[r.IntN(2)],
		learning: r.IntN(6) == 0, unknownNs: []uint64{plane.AllowNone, plane.AllowNone, 1e6, plane.AllowAll}[r.IntN(4)], creditNs: 5e6,
		challengesNs: []uint64{0, 1 << 62}[r.IntN(2)]}
	if r.IntN(2) == 0 {
		s.number = edgeNumber
	}
	c.s, c.gate, c.refreshed = s, c.gates[s.smart], 0
	c.begin(w, c.gate.p.Map("tg_counters"), func() string { return fmt.Sprintf("%+v", *s) })
	own := *s
	if c.alter != nil {
		c.alter(&own)
	}
	confirms := fmt.Sprintf("server 0 0 0 0 0 %d %x %x %x %d 0 0 0 0 0 0 0 0 0 0", confirmPort, w.network().GateMAC, wide(serverAddrs[0]), wide(serverAddrs[1]), serverPort)
	err := errors.Join(c.core.world(w, nil), c.core.obey(s.command(w)), c.gate.prepareWorld(w, &own),
		c.server.world(w, nil), c.server.obey(confirms, fmt.Sprintf("server-edge %d %x %x", edgeNumber, wide(netip.MustParseAddr("203.0.113.1")), wide(netip.MustParseAddr("2001:db8:9::1")))))
	if err != nil {
		c.t.Fatal(err)
	}
	var clients []client
	for range edgeSYNs {
		if r.IntN(2) == 0 {
			c.fromClient(c.stray(r))
			continue
		}
		v, f := c.newClient(r)
		v.hears(c.fromClient(f))
		clients = append(clients, v)
	}
	if r.IntN(2) == 0 {
		c.epoch += r.Uint64N(4) - 1
		if err := errors.Join(c.core.obey(fmt.Sprintf("world %d %d 0 0", c.epoch, bit(w.staleDrop))),
			epochAt(c.gate.p.Map("tg_settings"), c.gate.p.SetSettings, w, c.epoch)); err != nil {
			c.t.Fatal(err)
		}
		c.refreshed = c.refreshes()
	}
	for i := range clients {
		for range edgeSegments {
			if r.IntN(4) == 0 {
				c.fromServer(r, &clients[i])
				continue
			}
			c.fromClient(c.segment(r, &clients[i]))
		}
	}
	c.end()
}

func (c *edgeComparison) run(side string, in []byte, inside bool) programOutcome {
	return c.both(side, in, func() (programOutcome, error) { return runProgram(c.gate.xdp, in, edgeVerdicts, nil) },
		func() (programOutcome, error) { return c.core.run("edge-xdp %d %x", bit(inside), in) })
}

// fromClient sends a frame from outside. By chance, one in so many of a flow that nobody has verified makes it known, while the
// filter learns or there are no keys (TG_EDGE_SELF_REFRESH): core/ is told.
func (c *edgeComparison) fromClient(f framegen.Frame) programOutcome {
	o := c.run("outside, "+f.Traits.String(), f.Bytes, false)
	if n := c.refreshes(); n != c.refreshed && !c.differs {
		c.refreshed = n
		if err := c.core.obey(fmt.Sprintf("edge-refresh %x", f.Bytes)); err != nil {
			c.t.Fatal(err)
		}
	}
	return o
}

func (c *edgeComparison) refreshes() (n uint64) {
	if !c.s.learning && slices.Contains(c.w.keys, c.epoch) && slices.Contains(c.w.keys, c.epoch+c.w.aheadEpochs()) {
		return 0 // nothing is left to chance; counters take long to read
	}
	for _, s := range c.w.services {
		sum, err := plane.ReadCounters(c.gate.p.Map("tg_counters"), s.id)
		if err != nil {
			c.t.Fatal(err)
		}
		n += sum[schema.CounterEdgeRefreshed]
	}
	return n
}

// fromServer sends a segment of the server's to a client, or its confirmation.
func (c *edgeComparison) fromServer(r *rand.Rand, v *client) {
	net, family := c.w.network(), bit(v.syn.IPv6)
	net.Service[family], net.Port = v.syn.Source, v.syn.SrcPort
	s := framegen.Segment{IPv6: v.syn.IPv6, Source: serverAddrs[family], SrcPort: c.w.services[0].port, Seq: r.Uint32(), Ack: v.syn.Seq + 1,
		Flags: []uint8{tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpSYN | tcpACK, tcpRST | tcpACK}[r.IntN(5)]}
	g := framegen.New(net, r.Uint64())
	f := []func(framegen.Segment) framegen.Frame{g.Plain, g.Plain, g.Plain, g.Enveloped}[r.IntN(4)](s)
	in := slices.Clone(f.Bytes)
	if c.s.number != 0 && r.IntN(2) == 0 {
		if o, err := c.server.run("server-confirm %d %x", edgeNumber, in); err == nil && len(o.out) > 0 {
			in = o.out
			if r.IntN(4) == 0 {
				in = mutate(r, in)
			}
		}
	}
	if err := c.gate.inside(true); err != nil {
		c.t.Fatal(err)
	}
	c.run("inside, "+f.Traits.String(), in, true)
	if err := c.gate.inside(false); err != nil {
		c.t.Fatal(err)
	}
	c.refreshed = c.refreshes()
}
