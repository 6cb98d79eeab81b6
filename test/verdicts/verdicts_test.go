// SPDX-License-Identifier: Apache-2.0

package verdicts

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/framegen"
	"tidegate/test/world"
)

const (
	batch     = 256
	firstPort = 2000
	// After every batch two plain SYNs are sent, to the service and to a port that nobody
	// listens on: the gate's answer and the server's RST come after all others.
	fencePort    = 1999
	farFencePort = 1998
	closedPort   = 81
	// seed and frames of `make test`; more by TIDEGATE_SEED and TIDEGATE_FRAMES.
	defaultSeed   = 4987
	defaultFrames = 100 * batch
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// pairing is a bare and a gated machine that get the same frames.
type pairing struct {
	t           *testing.T
	name        string
	bare, gated *machine
	gens        [2]*framegen.Generator // the same frames, but for MAC addresses

	sent, answered int
	refused        map[string]int // by the traits of the frame
	failures       map[string]int // by traits and what is wrong
	asked          int            // SYNs that an edge let through to ask about their port

	// Connections that were begun. Their SYNs are left to the server's TCP: by an edge (edge_syn_known), and by a
	// host as long as a socket is there, live or in TIME-WAIT (pass_existing). The generator draws a tuple again at times.
	begun  map[netip.AddrPort]bool
	unsure uint64 // SYNs that a host left to the server's TCP
}

// isHost: the gate is on the server itself.
func (p *pairing) isHost() bool { return strings.HasPrefix(p.name, "host") }

func (p *pairing) machines() [2]*machine { return [2]*machine{p.bare, p.gated} }

// newPairing makes the machines; `gated` without gates is a canary's.
func newPairing(t *testing.T, k kind, seed uint64) *pairing {
	t.Helper()
	world.NeedRoot(t)
	p := &pairing{t: t, name: k.name, bare: newMachine(t, k.boxed), gated: newMachine(t, k.boxed, k.gates...), refused: map[string]int{}, failures: map[string]int{},
		begun: map[netip.AddrPort]bool{}}
	for i, m := range p.machines() {
		p.gens[i] = framegen.New(m.net, seed)
	}
	for _, ipv6 := range []bool{false, true} {
		a := p.exchange(nil, func(g *framegen.Generator) framegen.Frame { return g.Plain(syn(ipv6, firstPort)) }, 1)
		if len(a[0][firstPort]) != 1 || len(a[1][firstPort]) != 1 {
			t.Fatalf("%s: a plain SYN was not answered: %v", k.name, a)
		}
	}
	return p
}

func syn(ipv6 bool, port uint16) framegen.Segment {
	return framegen.Segment{IPv6: ipv6, SrcPort: port, Flags: flagSYN}
}

// exchange sends n frames to each machine, which may record them in `frames`, and
// gives their answers by the client's port.
func (p *pairing) exchange(frames *[]framegen.Frame, next func(*framegen.Generator) framegen.Frame, n int) (answers [2]replies) {
	p.t.Helper()
	for i, m := range p.machines() {
		for range n {
			f := next(p.gens[i])
			if _, err := m.send(f.Bytes); err != nil {
				p.t.Fatal(err)
			}
			if frames != nil && i == 1 {
				f.Bytes = slices.Clone(f.Bytes)
				*frames = append(*frames, f)
			}
		}
	}
	for i, m := range p.machines() {
		closed := syn(false, farFencePort)
		closed.DstPort = closedPort
		for _, fence := range []framegen.Segment{syn(false, fencePort), closed} {
			if _, err := m.send(p.gens[i].Plain(fence).Bytes); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	for i, m := range p.machines() {
		var err error
		if answers[i], err = m.receive(patience); err != nil {
			p.t.Fatalf("%s, machine %d: %v", p.name, i, err)
		}
	}
	return answers
}

// excepted says whether a difference is meant.
func (p *pairing) excepted(list []exception, f framegen.Frame) bool {
	for _, e := range list {
		if f.Traits&e.traits == e.traits && strings.HasPrefix(p.name, e.kinds) {
			return true
		}
	}
	return false
}

// fail reports a difference: the first frame of each kind whole, the others as a number.
func (p *pairing) fail(f framegen.Frame, format string, args ...any) {
	p.t.Helper()
	what := f.Traits.String() + ": " + format
	if p.failures[what]++; p.failures[what] <= 4 {
		p.t.Errorf("%s: "+format+"\n  traits: %v\n  frame: %x", append(append([]any{p.name}, args...), f.Traits, f.Bytes)...)
	}
}

// synBatch sends one batch of odd SYNs and compares.
func (p *pairing) synBatch() {
	var frames []framegen.Frame
	port := [2]uint16{firstPort, firstPort}
	i := 0
	answers := p.exchange(&frames, func(g *framegen.Generator) framegen.Frame {
		if g == p.gens[1] {
			i = 1
		} else {
			i = 0
		}
		port[i]++
		return g.SYNFrom(port[i] - 1)
	}, batch)
	for _, f := range frames {
		bare, was := answers[0].to(f.Port, f.Seq, false)
		gated, is := answers[1].to(f.Port, f.Seq, p.name == "proxy-auth-full")
		p.sent++
		if is {
			p.answered++
		}
		switch {
		case is && !was && !p.excepted(answersMore, f):
			p.fail(f, "answered (%v) where the bare machine is silent", gated)
		case is && gated.isSYNACK() && !gated.ofGate() && (p.name == "edge" || p.isHost()) && p.begun[netip.AddrPortFrom(f.Source, f.Port)]:
			// of a flow that the gate knows: it is left to the server's TCP
		case is && gated.isSYNACK() && !gated.ofGate() && p.name == "edge" && was:
			p.asked++ // an edge asks now and then whether a port is closed; asksTooOften judges
		case is && gated.isSYNACK() && !gated.ofGate() && p.isHost():
			p.unsure++ // the next hop's MAC address is not certain for a moment; the counter judges
		case is && gated.isSYNACK() && !gated.ofGate():
			p.fail(f, "the SYN reached the server's TCP past the gate: %v", gated)
		case is && was && macOf(gated, p.gated) != macOf(bare, p.bare):
			p.fail(f, "answered to another MAC address than the bare machine does: %v", gated)
		case was && !is && bare.isSYNACK():
			if !p.excepted(refusesMore, f) {
				p.fail(f, "not answered; the bare machine does: %v", bare)
			}
			p.refused[f.Traits.String()]++
		}
	}
}

// asksTooOften compares the SYNs that an edge let through with what it may ask about (core/closed_port.h): one for
// each place in 30 seconds, if it is open. The places are the server's two addresses.
func (p *pairing) asksTooOften(took time.Duration) {
	p.t.Helper()
	if most := 2 * (1 + int(took/(30*time.Second))); p.asked > most {
		p.t.Errorf("%s: %d SYNs reached the server's TCP past the gate in %v; an edge may ask %d times", p.name, p.asked, took, most)
	}
}

// macOf says which of the addresses that count on a machine's link an answer went to.
func macOf(a answer, m *machine) string {
	switch a.mac {
	case m.net.SourceMAC:
		return "the client"
	case m.net.GateMAC:
		return "the machine itself"
	}
	return "another"
}

// ackBatch opens connections with plain SYNs and completes them with ACKs in odd frames.
func (p *pairing) ackBatch(r *rand.Rand) {
	const n = 64
	var frames []framegen.Frame
	var at [2]int
	ts := r.IntN(2) == 0
	options := []byte{2, 4, 5, 0xb4, 1, 3, 3, 7, 1, 1, 4, 2}
	if ts {
		options = []byte{2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0, 1, 3, 3, 7}
	}
	which := func(g *framegen.Generator) int {
		if g == p.gens[1] {
			return 1
		}
		return 0
	}
	answers := p.exchange(&frames, func(g *framegen.Generator) framegen.Frame {
		i := which(g)
		at[i]++
		s := syn(at[i]%2 == 0, firstPort+uint16(at[i]-1))
		s.Options = options
		return g.Plain(s)
	}, n)
	var conns []framegen.Segment
	drawnAgain := map[uint16]bool{} // ports of tuples that had a connection before: what comes of them depends on that
	for _, f := range frames {
		tuple := netip.AddrPortFrom(f.Source, f.Port)
		drawnAgain[f.Port] = p.begun[tuple]
		for _, r := range answers {
			if a, _ := r.to(f.Port, f.Seq, false); !a.isSYNACK() && !p.begun[tuple] {
				p.fail(f, "a plain SYN was not answered")
				return
			}
		}
		p.begun[tuple] = true
		conns = append(conns, framegen.Segment{IPv6: f.IPv6, Source: f.Source, SrcPort: f.Port, Seq: f.Seq + 1, Flags: flagACK})
	}
	var acks []framegen.Frame
	at = [2]int{}
	p.exchange(&acks, func(g *framegen.Generator) framegen.Frame {
		i := which(g)
		s := conns[at[i]]
		at[i]++
		a, _ := answers[i].to(s.SrcPort, s.Seq-1, false)
		s.Ack, s.Options = a.seq+1, []byte{}
		if a.tsval != 0 {
			s.Options = append(s.Options, 1, 1, 8, 10, 0, 0, 0, 8)
			s.Options = binary.BigEndian.AppendUint32(s.Options, a.tsval)
		}
		if at[i] == n { // the last is plain: when it has arrived, all have
			return g.Plain(s)
		}
		return g.Enveloped(s)
	}, n)
	fence := acks[n-1].Port
	bare, gated := p.connections(p.bare, fence), p.connections(p.gated, fence)
	// A translated connection takes a turn through the queue more than the fence, if that was adopted; what is sent
	// now is behind all of them. So are the resets of those that have been taken.
	for range 2 {
		p.exchange(nil, nil, 0)
		p.taken(p.bare, bare)
		p.taken(p.gated, gated)
	}
	for _, f := range acks {
		_, was := bare[f.Port]
		_, is := gated[f.Port]
		switch {
		case drawnAgain[f.Port]:
		case is && !was && !p.excepted(answersMore, f):
			p.fail(f, "an ACK that the bare machine refuses became a connection")
		case was && !is:
			if !p.excepted(refusesMore, f) {
				p.fail(f, "an ACK did not become a connection; at the bare machine it does")
			}
			p.refused["ack "+f.Traits.String()]++
		case is:
			p.answered++
		}
		p.sent++
	}
}

// connections are those that a machine has accepted, by the client's port, when the one
// from port `fence` has come.
func (p *pairing) connections(m *machine, fence uint16) map[uint16]netip.Addr {
	p.t.Helper()
	all := map[uint16]netip.Addr{}
	world.Await(p.t, p.name+": the connection of a plain ACK", patience, time.Millisecond, func() bool {
		p.taken(m, all)
		_, came := all[fence]
		return came
	})
	return all
}

// taken adds the connections that a machine has accepted by now.
func (p *pairing) taken(m *machine, all map[uint16]netip.Addr) {
	p.t.Helper()
	some, err := m.take()
	if err != nil {
		p.t.Fatal(err)
	}
	maps.Copy(all, some)
}

// TestVerdicts compares each kind of gate with the bare machine.
func TestVerdicts(t *testing.T) {
	seed, frames := number(t, "TIDEGATE_SEED", defaultSeed), number(t, "TIDEGATE_FRAMES", defaultFrames)
	for _, k := range kinds {
		if onDPDK && !strings.HasPrefix(k.name, "proxy") {
			continue // this plane has no other role
		}
		t.Run(k.name, func(t *testing.T) {
			p := newPairing(t, k, seed)
			r := rand.New(rand.NewPCG(seed, 1))
			begin := time.Now()
			for n := 0; p.sent < int(frames); n++ {
				if n%8 == 7 && !strings.HasPrefix(k.name, "proxy") {
					p.ackBatch(r)
				} else {
					p.synBatch()
				}
				if n%4096 == 4095 {
					t.Logf("%d frames in %v", p.sent, time.Since(begin).Round(time.Second))
				}
			}
			t.Logf("seed %d: %d frames in %v, %d answered or accepted; refused on purpose:", seed, p.sent,
				time.Since(begin).Round(time.Millisecond), p.answered)
			p.asksTooOften(time.Since(begin))
			for _, traits := range slices.Sorted(maps.Keys(p.refused)) {
				t.Logf("  %6d %s", p.refused[traits], traits)
			}
			for _, what := range slices.Sorted(maps.Keys(p.failures)) {
				t.Logf("  %6d times: %s", p.failures[what], what)
			}
			if p.isHost() {
				if left := p.gated.instances[0].Counters()["pass_neighbour"]; p.unsure > left {
					t.Errorf("%d SYNs reached the server's TCP past the gate, which left %d to it (pass_neighbour)", p.unsure, left)
				}
				// Adoption works here. Nothing that a client does to its own ACK may have the listener change.
				if changes := p.gated.processes[0].Log("takeover", "how=translate"); p.name == "host" && len(changes) > 0 {
					t.Errorf("odd ACKs had listeners change to translating: %v", changes)
				}
			}
			if t.Failed() {
				for _, in := range p.gated.instances {
					t.Logf("counters of %s: %v", in.Name, world.NonZero(in.Counters()))
				}
			}
			if p.answered < p.sent/10 {
				t.Errorf("only %d of %d frames were answered: the mix does not test it", p.answered, p.sent)
			}
		})
	}
}

// TestVerdictsFindsDifferences is the canary: a "gate" that is a bare kernel answers SYNs
// itself, and a machine without the address answers none; both must be found out.
func TestVerdictsFindsDifferences(t *testing.T) {
	world.NeedRoot(t)
	p := newPairing(t, kind{name: "canary"}, defaultSeed)
	for _, ipv6 := range []bool{false, true} {
		a := p.exchange(nil, func(g *framegen.Generator) framegen.Frame { return g.Plain(syn(ipv6, firstPort)) }, 1)
		if a[1][firstPort][0].ofGate() {
			t.Errorf("a kernel's own answer is taken for a gate's: %v", a[1][firstPort][0])
		}
	}
	for _, traits := range []framegen.Trait{framegen.Checksum, framegen.ForeignMAC, framegen.OddDestination} {
		for _, f := range p.silent(traits) {
			t.Errorf("a bare kernel answered a frame with %v: %x", traits, f.Bytes)
		}
	}
	if len(p.silent(0)) == 0 {
		t.Error("plain frames are said not to be answered by a bare kernel")
	}
}

// silent sends frames with these faults and gives those that the bare machine answers.
func (p *pairing) silent(faults framegen.Trait) (answered []framegen.Frame) {
	p.t.Helper()
	var frames []framegen.Frame
	var port [2]uint16
	a := p.exchange(&frames, func(g *framegen.Generator) framegen.Frame {
		i := 0
		if g == p.gens[1] {
			i = 1
		}
		port[i]++
		return g.Build(syn(port[i]%2 == 0, firstPort+port[i]), faults)
	}, 16)
	for _, f := range frames {
		if _, is := a[0][f.Port]; is && f.Traits == faults {
			answered = append(answered, f)
		}
	}
	return answered
}
