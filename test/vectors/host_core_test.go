// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"tidegate/internal/framegen"
	"tidegate/internal/plane"
)

const (
	hostWorlds    = 128
	hostWorldsVar = "TIDEGATE_HOST_WORLDS"
	hostSYNs      = 40
	hostSegments  = 4 // of a connection
)

// hostSetting is what a world has beside a planesWorld.
type hostSetting struct {
	server                     bool // role server: the edge answers SYNs, and only the TC program runs
	finalCheck, smart, epochs4 uint8
	maybe                      bool           // the socket filter says that any connection may be alive
	only                       []netip.Prefix // what is protected; nil: everything
}

// hostGate is the adopting gate's programs under BPF_PROG_TEST_RUN. Nobody listens: what it would
// adopt it counts.
type hostGate struct{ *kernelGate }

func (g hostGate) prepare(w *planesWorld, s *hostSetting) error {
	settings := planesSettings(w, w.epoch)
	settings.BehindEdge, settings.FinalCheck, settings.Smart, settings.FourEpochs = uint8(bit(s.server)), s.finalCheck, s.smart, s.epochs4
	return errors.Join(prepareWorld(g.p, w, s.only, &settings), fillSocketFilter(g.p, s.maybe),
		frozenAllowance(g.p.Map("tg_tag_allowances"), 1<<62))
}

func (g hostGate) packet(in []byte) (programOutcome, error) {
	o, err := runProgram(g.xdp, in, roleVerdict, nil)
	if err != nil || o.verdict != "pass" {
		return o, err
	}
	o, err = g.ingress(in)
	if errors.Is(err, errNoTestPacket) { // TC leaves it alone
		return programOutcome{verdict: "pass", out: in}, nil
	}
	return o, err
}

func (g hostGate) ingress(in []byte) (programOutcome, error) {
	return runProgram(g.tc, in, tcVerdicts, nil)
}

// hostComparison is the state of TestHostAndCore.
type hostComparison struct {
	coreComparison
	gate  hostGate
	edge  coreGate // answers SYNs for role server
	s     *hostSetting
	alter func(*hostSetting) // what only the programs have; nil: nothing
}

func newHostComparison(t *testing.T) *hostComparison {
	t.Helper()
	c := &hostComparison{coreComparison: newCoreComparison(t), gate: hostGate{newKernelGate(t)}, edge: coreGate{newNativeGate(t)}}
	c.gate.ns.close()
	return c
}

// TestHostAndCore sends the same random frames to the programs that adopt, as role host and as role server
// with its final ACK check, and to core/'s slow path, which is compiled natively: the same verdict,
// bytes and counters. What a frame ought to get is not asked here: that is what the golden packets are for.
func TestHostAndCore(t *testing.T) {
	needRoot(t)
	c := newHostComparison(t)
	c.worlds(hostWorlds, hostWorldsVar, c.world, "syn", "cookie_sent", "cookie_invalid", "cookie_stale", "ack_no_listener", "ack_frame",
		"drop_unmatched_ack", "drop_malformed", "drop_flags", "drop_fragment", "drop_checksum", "drop_source", "drop_source_route", "drop_no_key",
		"pass_no_key", "pass_listener", "pass_frame", "pass_stack", "pass_signed", "drop_signed", "signed_answered", "would_answer",
		"would_drop", "drop_ext_chain", "drop_tags")
}

// TestHostAndCoreAreToldApart are the canaries.
func TestHostAndCoreAreToldApart(t *testing.T) {
	needRoot(t)
	c := newHostComparison(t)
	for name, alter := range map[string]func(*hostSetting){
		"final ACK check": func(s *hostSetting) { s.finalCheck ^= 1 },
		"layout":          func(s *hostSetting) { s.smart ^= 1 },
		"four epochs":     func(s *hostSetting) { s.epochs4 ^= 1 },
		"socket filter":   func(s *hostSetting) { s.maybe = !s.maybe },
	} {
		t.Run(name, func(t *testing.T) {
			c.t, c.alter, c.differs = t, alter, false
			c.canary(hostWorlds, c.world)
		})
	}
}

// world plays one configuration.
func (c *hostComparison) world(n int) {
	r := rand.New(rand.NewPCG(differentialSeed, uint64(n)|2<<32))
	w := newPlanesWorld(r, n)
	one := func(of ...uint8) uint8 { return of[r.IntN(len(of))] }
	s := &hostSetting{server: r.IntN(2) == 0, maybe: r.IntN(6) == 0}
	if s.server {
		s.finalCheck, s.smart, s.epochs4 = one(0, 1, 1, 1), one(0, 0, 1), one(0, 0, 1)
		if r.IntN(4) == 0 { // which have run out a moment ago
			w.keys = []uint64{w.epoch - 1}
		}
	}
	if r.IntN(4) == 0 {
		for _, a := range serverAddrs {
			s.only = append(s.only, netip.PrefixFrom(a, a.BitLen()), netip.PrefixFrom(a, a.BitLen()-24).Masked())
		}
	}
	for i := range w.services {
		l := one(plane.ListenerOK, plane.ListenerOK, plane.ListenerOK, plane.ListenerNone, plane.ListenerMPTCP, plane.ListenerRefused)
		w.services[i].ListenerV4, w.services[i].ListenerV6 = l, l
	}
	c.s = s
	c.begin(w, c.gate.p.Map("tg_counters"), func() string { return fmt.Sprintf("%+v", *s) })
	own := *s
	if c.alter != nil {
		c.alter(&own)
	}
	err := errors.Join(c.core.world(w, s.only), c.gate.prepare(w, &own), c.at(w.epoch), c.core.obey(fmt.Sprintf("host %d %d %d %d 1", s.finalCheck, s.smart, s.epochs4, w.aheadEpochs())))
	if s.server {
		err = errors.Join(err, c.edge.world(w, s.only), c.edge.obey((&edgeSetting{smart: s.smart}).command(w)))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	var clients []client
	for range hostSYNs {
		if r.IntN(2) == 0 {
			c.send(c.stray(r))
			continue
		}
		v, f := c.newClient(r)
		if s.server {
			o, err := c.edge.run("edge-xdp 0 %x", f.Bytes)
			if err != nil {
				c.t.Fatal(err)
			}
			v.hears(o)
		}
		o := c.send(f)
		if !s.server {
			v.hears(o)
		}
		clients = append(clients, v)
	}
	if r.IntN(2) == 0 {
		if err := c.at(w.epoch + r.Uint64N(4) - 1); err != nil {
			c.t.Fatal(err)
		}
	}
	for i := range clients {
		for range hostSegments {
			c.send(c.segment(r, &clients[i]))
		}
	}
	c.end()
}

func (c *hostComparison) at(epoch uint64) error {
	c.epoch = epoch
	return errors.Join(c.core.obey(fmt.Sprintf("world %d %d %d 0", epoch, bit(c.w.staleDrop), bit(c.s.maybe))),
		epochAt(c.gate.p.Map("tg_settings"), c.gate.p.SetSettings, c.w, epoch))
}

func (c *hostComparison) send(f framegen.Frame) programOutcome {
	in := f.Bytes
	if c.s.server {
		return c.both("TC, "+f.Traits.String(), in, func() (programOutcome, error) { return c.gate.ingress(in) },
			func() (programOutcome, error) { return c.core.run("host-tc %x", in) })
	}
	return c.both("XDP and TC, "+f.Traits.String(), in, func() (programOutcome, error) { return c.gate.packet(in) },
		func() (programOutcome, error) { return c.core.run("packet %x", in) })
}
