// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tidegate/internal/bench/endsbpf"
	"tidegate/internal/config"
	"tidegate/internal/lab/load"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// How fast connections are set up: generator, clients, box and server share one core, so
// that what a core does in a second is what the box does at least. Steps are
// separated by letting connections get one step further each time.

// setupSteps are the steps of a set-up, in the order of enum tg_ends_depth of
// bpf/bench_ends.bpf.c, with the counter of connections that reached each.
var setupSteps = []struct {
	name, what string
	reached    schema.Counter
}{
	{"syn", "SYN: answered with a cookie; the generator's own cost is here", schema.CounterCookieSent},
	{"ack", "ACK: verified, entered into the table, SYN to the server", schema.CounterFlowOpened},
	{"synack", "server's SYN-ACK: through the kernel's TC, two packets of one", schema.CounterFlowReady},
	{"rst", "the end: RST translated, flow retired", schema.CounterFlowClosed},
}

// Setup is what was measured of strategy cookie.
type Setup struct {
	PerSecond Spread            `json:"connections_per_s"` // begun and ended, on one core
	StepNs    map[string]Spread `json:"step_ns"`           // of one connection; both ends' work included
	Limit     string            `json:"limiting_step"`
	// Share of the SYNs answered that came to each step; the rest was lost on a full
	// ring of a virtual cable.
	Reached map[string]float64 `json:"reached"`
}

// settleFor is how long counters must stand still for a burst to be over.
const settleFor = 20 * time.Millisecond

// setupBurst is how many connections are begun before the table is emptied, and setupBursts how often in a round. A source that has
// brought 32,768 lately, half of the places in which flows without data wait (core/share.h), is refused more unless they end; then the
// refusals would be measured.
const (
	setupBurst  = 30_000
	setupBursts = 3
)

// reachedLeast is the share of connections that must come to each step. On a busy machine the ring of a virtual cable overflows now
// and then: such a burst is repeated, at most setupTries times in all.
const (
	reachedLeast = 0.95
	setupTries   = 10
)

// measureSetup measures whole handshakes, under strategy cookie.
func (b *proxyBench) measureSetup() (err error) {
	p, err := b.newProxy(config.StrategyCookie, 1<<20)
	if err != nil {
		return err
	}
	defer p.Close()
	xdp, tc := p.Programs()
	off, err := b.occupy(xdp, tc, b.box.FloodPort, b.box.InnerPort)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, off()) }()
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
	ns, reached := make([][]float64, len(setupSteps)), make([][]float64, len(setupSteps))
	var rates []float64
	for round := range b.opt.Rounds + 1 {
		for depth, step := range setupSteps {
			var n, syns uint64
			var took time.Duration
			for burst, tries := 0, 1; burst < setupBursts; {
				if err := errors.Join(ends.EndsDepth.Set(uint32(depth)), p.ForgetFlows(), b.ctx.Err()); err != nil {
					return err
				}
				came, of, in, err := burstOfConnections(p, flood, min(b.opt.Frames, setupBurst), step.reached)
				if err != nil {
					return fmt.Errorf("step %s: %w", step.name, err)
				}
				if float64(came) < reachedLeast*float64(of) && tries < setupTries {
					tries++
					continue
				}
				burst++
				n, syns, took = n+came, syns+of, took+in
			}
			if float64(n) < reachedLeast*float64(syns) { // a cost of those that came would be that of the others, too
				return fmt.Errorf("step %s: only %d of %d connections came so far", step.name, n, syns)
			}
			if round == 0 { // warms up
				continue
			}
			ns[depth] = append(ns[depth], float64(took.Nanoseconds())/float64(n))
			reached[depth] = append(reached[depth], float64(n)/float64(syns))
			if depth == len(setupSteps)-1 {
				rates = append(rates, float64(n)/took.Seconds())
			}
		}
	}
	s := &Setup{PerSecond: spread(rates), StepNs: map[string]Spread{}, Reached: map[string]float64{}}
	most := 0.0
	for i, step := range setupSteps {
		cost := ns[i]
		if i > 0 {
			cost = differences(ns[i], ns[i-1])
		}
		s.StepNs[step.name] = spread(cost)
		s.Reached[step.name] = spread(reached[i]).Median
		if m := s.StepNs[step.name].Median; m > most {
			most, s.Limit = m, step.name
		}
	}
	b.res.Setup = s
	return nil
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

func (s *Setup) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNEW CONNECTIONS (cookie; clients, box and server on one core)")
	fmt.Fprintf(t, "begun and ended\t%.0f a second [%.0f .. %.0f]\t\n", s.PerSecond.Median, s.PerSecond.Min, s.PerSecond.Max)
	for _, step := range setupSteps {
		limit := ""
		if step.name == s.Limit {
			limit = "<- limits"
		}
		fmt.Fprintf(t, "%s\t%s ns\t%.1f %% came so far\t%s\n", step.what, s.StepNs[step.name], 100*s.Reached[step.name], limit)
	}
	return t.Flush()
}
