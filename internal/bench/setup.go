// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"tidegate/internal/bench/endsbpf"
	"tidegate/internal/config"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// How fast connections are set up: generator, clients, box and server share one core, so
// that what a core does in a second is what the box does at least. Steps are
// separated by letting connections get one step further each time.

// setupSteps are the steps of a set-up: how deep in it connections end, in the order of enum tg_ends_depth of
// bpf/bench_ends.bpf.c, the counter of connections that came so far, and the step before, from whose time its own is the
// difference. With defer_accept, the first two are the same.
var setupSteps = []struct {
	name, what string
	depth      int
	defers     bool
	reached    schema.Counter
	before     int
	acks       bool // the server has got the box's ACK
}{
	{"syn", "SYN: answered with a cookie; the generator's own cost is here", 0, false, schema.CounterCookieSent, -1, false},
	{"ack", "ACK: verified, entered into the table, SYN to the server", 1, false, schema.CounterFlowOpened, 0, false},
	{"synack", "server's SYN-ACK: two packets of one, by XDP", 2, false, schema.CounterFlowReady, 1, true},
	{"rst", "the end: RST translated, flow retired", 3, false, schema.CounterFlowClosed, 2, true},
	{"synack_deferred", "server's SYN-ACK with defer_accept: one packet, by XDP", 2, true, schema.CounterFlowReady, 1, false},
	{"rst_deferred", "the end after that", 3, true, schema.CounterFlowClosed, 4, false},
}

// Setup is what was measured of strategy cookie, without and with defer_accept, in turn.
type Setup struct {
	PerSecond         Spread            `json:"connections_per_s"` // begun and ended, on one core
	PerSecondDeferred Spread            `json:"connections_per_s_deferred"`
	StepNs            map[string]Spread `json:"step_ns"` // of one connection; both ends' work included
	Limit             string            `json:"limiting_step"`
	LimitDeferred     string            `json:"limiting_step_deferred"`
	// Share of the SYNs answered that came to each step; the rest was lost on a full
	// ring of a virtual cable.
	Reached map[string]float64 `json:"reached"`
}

// settleFor is how long counters must stand still for a burst to be over.
const settleFor = 20 * time.Millisecond

// setupBurst is how many connections are begun before those that wait are forgotten, and setupBursts how often in a round, whose figure
// is their median. The others stay, 540,000 in a round: to free their table would occupy the kernel while the next burst is measured. A
// source that has brought 32,768 lately, half of the places in which flows without data wait (core/share.h), is refused more unless they
// end; then the refusals would be measured.
const (
	setupBurst  = 10_000
	setupBursts = 9
)

// reachedLeast is the share of connections that must come to each step. On a busy machine the ring of a virtual cable overflows now
// and then: such a burst is repeated, at most setupTries times in all.
const (
	reachedLeast = 0.95
	setupTries   = 10
)

// measureSetup measures whole handshakes, under strategy cookie.
func (b *proxyBench) measureSetup() (err error) {
	var ends endsbpf.BenchEndsObjects
	if err := endsbpf.LoadBenchEndsObjects(&ends, nil); err != nil {
		return err
	}
	defer ends.Close()
	client, err := b.box.AttackerPort.ReplaceXDP(ends.TgEndsClient)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	server, err := b.box.ServerPort.ReplaceXDP(ends.TgEndsServer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	flood, err := b.rig.NewFlood(false, load.MixNoTS)
	if err != nil {
		return err
	}
	defer flood.Close()
	rounds := make([]setupFigures, len(setupShapes))
	for at := range rounds {
		rounds[at] = newSetupFigures()
	}
	for round := range b.opt.Rounds + 1 {
		for at, shape := range setupShapes {
			bursts, err := b.setupRound(&ends, flood, at)
			if err != nil {
				return fmt.Errorf("%s: %w", shape.name, err)
			}
			if round == 0 { // warms up
				continue
			}
			of := &rounds[at]
			for i := range setupSteps {
				of.ns[i] = append(of.ns[i], spread(bursts.ns[i]).Median)
				of.reached[i] = append(of.reached[i], spread(bursts.reached[i]).Median)
			}
		}
	}
	for at, shape := range setupShapes {
		*shape.of(b.res) = setupOf(rounds[at])
	}
	return nil
}

// setupOf sums up the rounds of one shape.
func setupOf(rounds setupFigures) *Setup {
	ns, reached := rounds.ns, rounds.reached
	s := &Setup{StepNs: map[string]Spread{}, Reached: map[string]float64{}}
	var most, mostDeferred float64
	for i, step := range setupSteps {
		cost := ns[i]
		if step.before >= 0 {
			cost = differences(ns[i], ns[step.before])
		}
		s.StepNs[step.name] = spread(cost)
		s.Reached[step.name] = spread(reached[i]).Median
		m := s.StepNs[step.name].Median
		if !step.defers && m > most {
			most, s.Limit = m, step.name
		}
		if (step.defers || step.depth < 2) && m > mostDeferred {
			mostDeferred, s.LimitDeferred = m, step.name
		}
		if step.reached != schema.CounterFlowClosed {
			continue
		}
		var rates []float64
		for _, whole := range ns[i] {
			rates = append(rates, 1e9/whole)
		}
		if step.defers {
			s.PerSecondDeferred = spread(rates)
		} else {
			s.PerSecond = spread(rates)
		}
	}
	return s
}

// setupShapes are how a box may stand between clients and server: as a router, which asks the kernel for each packet's route, or as a
// bridge.
var setupShapes = []struct {
	name  string
	ports func(*rig.ProxyTopology) [2]uint32 // that are bridged
	of    func(*ProxyResult) **Setup
}{
	{"router", func(*rig.ProxyTopology) (none [2]uint32) { return none }, func(r *ProxyResult) **Setup { return &r.Setup }},
	{"bridge", func(box *rig.ProxyTopology) [2]uint32 {
		return [2]uint32{uint32(box.FloodPort.Index), uint32(box.InnerPort.Index)}
	}, func(r *ProxyResult) **Setup { return &r.SetupBridge }},
}

// setupFigures has what was measured in each round or burst, by step: of one connection, and the share that came so far.
type setupFigures struct{ ns, reached [][]float64 }

func newSetupFigures() setupFigures {
	return setupFigures{make([][]float64, len(setupSteps)), make([][]float64, len(setupSteps))}
}

// setupRound loads the proxy anew, in one of setupShapes, and measures bursts that go as far as each step, in turn, without and with
// defer_accept.
func (b *proxyBench) setupRound(ends *endsbpf.BenchEndsObjects, flood *load.Flood, shape int) (r setupFigures, err error) {
	p, err := b.load(config.StrategyCookie, 1<<20, setupShapes[shape].ports(b.box))
	if err != nil {
		return r, err
	}
	defer p.Close()
	xdp, tc := p.Programs()
	off, err := b.occupy(xdp, tc, b.box.FloodPort, b.box.InnerPort)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, off()) }()
	r = newSetupFigures()
	for range cmp.Or(b.opt.Bursts, setupBursts) {
		for i, step := range setupSteps {
			ns, reached, err := b.setupBurst(p, ends, flood, i)
			if err != nil {
				return r, fmt.Errorf("step %s: %w", step.name, err)
			}
			r.ns[i], r.reached[i] = append(r.ns[i], ns), append(r.reached[i], reached)
		}
	}
	return r, nil
}

// setupBurst measures one burst that goes as far as a step.
func (b *proxyBench) setupBurst(p *plane.Proxy, ends *endsbpf.BenchEndsObjects, flood *load.Flood, step int) (ns, reached float64, err error) {
	of := setupSteps[step]
	if err := p.SetStrategy(1, proxyServiceOf(config.StrategyCookie, of.defers)); err != nil {
		return 0, 0, err
	}
	for range setupTries {
		if err := errors.Join(ends.EndsDepth.Set(uint32(of.depth)), p.ForgetWaiting(), b.ctx.Err()); err != nil {
			return 0, 0, err
		}
		if err := ends.EndsAcks.Set(uint64(0)); err != nil {
			return 0, 0, err
		}
		came, syns, took, err := burstOfConnections(p, flood, min(b.opt.Frames, setupBurst), of.reached)
		if err != nil {
			return 0, 0, err
		}
		if of.acks { // a flow may be ready at the box, and its server not know of it
			var acks uint64
			if err := ends.EndsAcks.Get(&acks); err != nil {
				return 0, 0, err
			}
			came = min(came, acks)
		}
		if reached = float64(came) / float64(syns); reached >= reachedLeast {
			return float64(took.Nanoseconds()) / float64(came), reached, nil
		}
	}
	// A cost of those that came would be that of the others, too.
	return 0, 0, fmt.Errorf("only %.1f %% of connections came so far, in each of %d tries", 100*reached, setupTries)
}

// burstOfConnections sends SYNs and waits until all that follows is done: how many came
// to that step, of how many SYNs answered, in what time.
func burstOfConnections(p *plane.Proxy, flood *load.Flood, frames int, step schema.Counter) (n, syns uint64, took time.Duration, err error) {
	counters := p.Map("tg_counters")
	before, err := plane.ReadCounters(counters, 1)
	if err != nil {
		return 0, 0, 0, err
	}
	begin := time.Now()
	if _, err := flood.Burst(frames); err != nil {
		return 0, 0, 0, err
	}
	end := time.Now()
	last, err := plane.ReadCounters(counters, 1)
	for seen := end; err == nil && time.Since(seen) < settleFor; time.Sleep(time.Millisecond) {
		now, e := plane.ReadCounters(counters, 1)
		if now[step] != last[step] { // packets that waited for ksoftirqd
			end, seen = time.Now(), time.Now()
		}
		last, err = now, e
	}
	if err != nil {
		return 0, 0, 0, err
	}
	n, syns = last[step]-before[step], last[schema.CounterCookieSent]-before[schema.CounterCookieSent]
	if n == 0 {
		return 0, 0, 0, errors.New("no connection got this far")
	}
	return n, syns, end.Sub(begin), nil
}

func (s *Setup) print(w io.Writer, shape string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nNEW CONNECTIONS, %s (cookie; clients, box and server on one core)\n", strings.ToUpper(shape))
	for _, way := range []struct {
		what string
		rate Spread
	}{{"begun and ended", s.PerSecond}, {"with defer_accept", s.PerSecondDeferred}} {
		fmt.Fprintf(t, "%s\t%.0f a second [%.0f .. %.0f]\t\n", way.what, way.rate.Median, way.rate.Min, way.rate.Max)
	}
	for _, step := range setupSteps {
		limit := ""
		switch step.name {
		case s.Limit:
			limit = "<- limits"
		case s.LimitDeferred:
			limit = "<- limits with defer_accept"
		}
		fmt.Fprintf(t, "%s\t%s ns\t%.1f %% came so far\t%s\n", step.what, s.StepNs[step.name], 100*s.Reached[step.name], limit)
	}
	return t.Flush()
}
