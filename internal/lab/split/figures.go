// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// The paper's figures 5, 6 and 7 (SmartCookie, section 8), as far as one machine can reproduce
// them: its switch is our edge in XDP, and the defence that it compares with
// (Jaqen, which verifies a client by a reset and makes it reconnect) is our proxy
// with the strategies auth-wrong (the client's TCP retries, "mode 1") and auth-cookie
// (the client's program retries, "mode 2"), with a client that retries at once.

// Figures is the one JSON object of `tidegate-lab split --figures --json`.
type Figures struct {
	Throughput []ThroughputBar `json:"figure5_throughput"`
	Latency    []LatencyPoint  `json:"figure6_latency"`
	CPU        []CPUPoint      `json:"figure7_cpu"`
}

// ThroughputBar is the highest rate of SYNs, in steps of doubling, that a defence processed
// without losing a SYN, an answer or a request.
type ThroughputBar struct {
	Defence  string  `json:"defence"`
	Lossless float64 `json:"lossless_pps"`       // measured at that step; 0: the first step already lost
	LossAt   float64 `json:"loss_pps,omitempty"` // measured at the next step; 0: it was the last, or the generator's maximum
	Lost     float64 `json:"lost_share,omitempty"`
}

// LatencyPoint is the time of a request for 14.5 kB, each from a client of its own that
// has never connected before.
type LatencyPoint struct {
	Defence string  `json:"defence"`
	Rate    string  `json:"attack_pps"`
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	Served  float64 `json:"served_share"`
	Retried int     `json:"retried"`
	Ratio   float64 `json:"ratio"` // to the first point: no defence, no attack
}

// CPUPoint is what a packet of an attack costs the server.
type CPUPoint struct {
	Defence  string  `json:"defence"`
	Attack   string  `json:"attack"`
	FPRate   float64 `json:"fp_rate"`         // share of unknown flows that the filter takes for known
	AtServer float64 `json:"at_server_share"` // of the attack's packets
	Each     float64 `json:"ns_per_packet"`   // of CPU, per packet that reaches the server
	OfAttack float64 `json:"ns_per_attack"`   // of the server's CPU, per packet of the attack; may be negative, within Error
	// Error is two standard errors of OfAttack: its runs are paired with runs in which the server drops the attack.
	// What is less than it cannot be told from nothing. 0: one run.
	Error    float64 `json:"ns_per_attack_error,omitempty"`
	Requests float64 `json:"requests_success"` // share
	// Instructions of the server, per packet of the attack; 0: this machine cannot count them.
	Instructions float64 `json:"instructions_per_attack,omitempty"`
}

// figureRuns are the experiments that the figures consist of; tests replace them.
type figureRuns struct {
	flood func(context.Context, trial.Options) (*trial.Result, error)
	split func(context.Context, Options) (*Result, error)
}

const (
	figureFirstRate  = 50_000 // a second
	figureRungs      = 7      // up to 3.2 million a second, more than the generator can make
	figureRequests   = 30
	figureLost       = 0.001 // a share; less may come from the edges of the counting window
	figureFlows      = 579_600
	figureAttackRate = 50_000
)

// RunFigures makes the figures; opts sets how long each part takes, and where.
func RunFigures(ctx context.Context, o Options) (*Figures, error) {
	return figures(ctx, o, figureRuns{trial.Run, Run})
}

// Throughput makes figure 5 alone.
func Throughput(ctx context.Context, o Options) ([]ThroughputBar, error) {
	return figureRuns{trial.Run, Run}.throughput(ctx, o)
}

// Latency makes figure 6 alone, each defence at each of the rates; the first point is that without
// defence and attack.
func Latency(ctx context.Context, o Options, rates ...load.Rate) ([]LatencyPoint, error) {
	return figureRuns{trial.Run, Run}.latency(ctx, o, rates...)
}

// CPU makes figure 7 alone, at one rate, each cost from so many pairs of runs (at least 2).
func CPU(ctx context.Context, o Options, rate load.Rate, pairs int) ([]CPUPoint, error) {
	return figureRuns{trial.Run, Run}.cpu(ctx, o, rate, pairs)
}

func figures(ctx context.Context, o Options, run figureRuns) (f *Figures, err error) {
	f = &Figures{}
	if f.Throughput, err = run.throughput(ctx, o); err != nil {
		return nil, fmt.Errorf("figure 5: %w", err)
	}
	if f.Latency, err = run.latency(ctx, o, 0, figureAttackRate); err != nil {
		return nil, fmt.Errorf("figure 6: %w", err)
	}
	if f.CPU, err = run.cpu(ctx, o, figureAttackRate, FigurePairs); err != nil {
		return nil, fmt.Errorf("figure 7: %w", err)
	}
	return f, nil
}

// undisturbed repeats an experiment that other work has disturbed.
func undisturbed[R any](ctx context.Context, run func(context.Context) (R, error)) (r R, err error) {
	for range 5 {
		if r, err = run(ctx); !errors.Is(err, trial.ErrDisturbed) {
			break
		}
	}
	return r, err
}

func (run figureRuns) floodOnce(ctx context.Context, o trial.Options) (*trial.Result, error) {
	return undisturbed(ctx, func(ctx context.Context) (*trial.Result, error) { return run.flood(ctx, o) })
}

func (run figureRuns) splitOnce(ctx context.Context, o Options) (*Result, error) {
	return undisturbed(ctx, func(ctx context.Context) (*Result, error) { return run.split(ctx, o) })
}

// throughput finds the bars: the defence answers every SYN, so an unanswered SYN is lost.
func (run figureRuns) throughput(ctx context.Context, o Options) (bars []ThroughputBar, err error) {
	for _, defence := range []string{defences.Kernel, defences.Nft, defences.Host, "split"} {
		bar := ThroughputBar{Defence: defence}
		for rung := range figureRungs {
			rate := load.Rate(math.Ldexp(figureFirstRate, rung))
			r := &trial.Result{}
			if defence == "split" {
				split := o
				split.Rate, split.Attack, split.FilterFlows = rate, AttackSYN, 0
				s, err := run.splitOnce(ctx, split)
				if err != nil {
					return nil, err
				}
				r = &s.Result
			} else {
				plain := o.Options
				plain.Defence, plain.Rate = defence, rate
				if r, err = run.floodOnce(ctx, plain); err != nil {
					return nil, err
				}
			}
			if r.SYNPPS < 0.8*float64(rate) && r.SYNLost == 0 {
				break // the generator, or whatever shares its CPU, is at its limit
			}
			lost := lostShare(r)
			if lost > figureLost || r.Success < 1 {
				bar.LossAt, bar.Lost = r.SYNPPS, load.Round3(lost)
				break
			}
			bar.Lossless = r.SYNPPS
		}
		bars = append(bars, bar)
	}
	return bars, nil
}

// lostShare is the share of SYNs that did not arrive or were not answered.
func lostShare(r *trial.Result) float64 {
	sent := r.SYNSent + r.SYNLost
	if sent == 0 {
		return 0
	}
	return 1 - float64(min(r.Answers, sent))/float64(sent)
}

func (run figureRuns) latency(ctx context.Context, o Options, rates ...load.Rate) (points []LatencyPoint, err error) {
	base := o.Options
	base.ResponseSize, base.Clients, base.Requests, base.Load = 14500, figureRequests, figureRequests, figureRequests/base.Duration.Seconds()
	for _, c := range []struct {
		name, defence string
		retries       int
		rates         []load.Rate
	}{
		{"no defence", defences.None, 0, []load.Rate{0}},
		{"kernel cookies", defences.Kernel, 0, rates},
		{"split", "split", 0, rates},
		{"reset by a wrong acknowledgment number (mode 1)", "proxy-auth-wrong", 0, rates},
		{"reset after the handshake, retried at once (mode 2)", "proxy-auth-cookie", 3, rates},
	} {
		for _, rate := range c.rates {
			one := base
			one.Rate, one.Retries = rate, c.retries
			r := &trial.Result{}
			if c.defence == "split" {
				split := o
				split.Options, split.Attack = one, AttackSYN
				split.Options.Defence = "split"
				s, err := run.splitOnce(ctx, split)
				if err != nil {
					return nil, err
				}
				r = &s.Result
			} else {
				one.Defence = c.defence
				if r, err = run.floodOnce(ctx, one); err != nil {
					return nil, fmt.Errorf("%s: %w", c.name, err)
				}
			}
			p := LatencyPoint{Defence: c.name, Rate: rate.String(), P50: r.Latency.P50, P90: r.Latency.P90, Served: load.Round3(r.Success), Retried: r.Retried, Ratio: 1}
			if len(points) > 0 && points[0].P50 > 0 {
				p.Ratio = load.Round3(p.P50 / points[0].P50)
			}
			points = append(points, p)
		}
	}
	return points, nil
}

// cpu separates the server's work on a packet from the edge's and from delivery, by
// running the same attack against a program that drops at the server's
// port, as calibrate does for the kernel's cookies.
func (run figureRuns) cpu(ctx context.Context, o Options, rate load.Rate, pairs int) (points []CPUPoint, err error) {
	split := o
	split.Rate, split.UnknownRate, split.Attack, split.FilterFlows = rate, "0", AttackSYN, figureFlows
	syn, err := run.splitOnce(ctx, split)
	if err != nil {
		return nil, err
	}
	p := CPUPoint{Defence: "split", Attack: AttackSYN, FPRate: syn.FPComputed, AtServer: attackAtServer(syn), Requests: syn.Success}
	if syn.ServerAttackPackets != 0 { // otherwise there is nothing to measure
		p.Each, p.OfAttack = -1, -1
	}
	points = append(points, p)
	split.Attack = AttackACK
	for _, takeover := range []string{"adopt", takeoverTranslate} {
		split.Takeover = takeover
		p, err := run.addedCPU(ctx, split, pairs)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	kernel := o.Options
	kernel.Defence, kernel.Rate = defences.Kernel, rate
	k, err := run.floodOnce(ctx, kernel)
	if err != nil {
		return nil, err
	}
	return append(points, CPUPoint{Defence: "kernel cookies behind a filter that passes that share of SYNs", Attack: AttackSYN, FPRate: syn.FPComputed, AtServer: syn.FPComputed,
		Each: k.CPUPerSYN, OfAttack: load.Round3(k.CPUPerSYN * syn.FPComputed), Requests: k.Success,
		Instructions: load.Round3(max(0, k.InstructionsPerSYN-k.GeneratorInstructions) * syn.FPComputed)}), nil
}

// addedCPU is what the server's agent adds to dropping an attack of ACKs: the mean of pairs of runs.
func (run figureRuns) addedCPU(ctx context.Context, o Options, pairs int) (p CPUPoint, err error) {
	var added, instructions, atServer []float64
	p = CPUPoint{Defence: "split, server " + o.Takeover, Attack: AttackACK, Requests: 1}
	for range pairs {
		o.DropAttack = true
		dropped, err := run.splitOnce(ctx, o)
		if err != nil {
			return p, err
		}
		o.DropAttack = false
		full, err := run.splitOnce(ctx, o)
		if err != nil {
			return p, err
		}
		added = append(added, full.CPUPerSYN-dropped.CPUPerSYN)
		instructions = append(instructions, full.InstructionsPerSYN-dropped.InstructionsPerSYN)
		atServer = append(atServer, attackAtServer(full))
		p.FPRate, p.Requests = full.FPMeasured, min(p.Requests, full.Success)
	}
	mean, deviation := meanAndDeviation(added)
	p.OfAttack, p.Error = load.Round3(mean), load.Round3(2*deviation/math.Sqrt(float64(pairs)))
	p.AtServer, _ = meanAndDeviation(atServer)
	p.Each = load.Round3(mean / max(p.AtServer, 1e-9))
	mean, _ = meanAndDeviation(instructions)
	p.Instructions = load.Round3(max(0, mean))
	return p, nil
}

// attackAtServer is the share of the attack that reached the server.
func attackAtServer(r *Result) float64 {
	return float64(r.ServerAttackPackets) / max(1, float64(r.SYNSent))
}

// meanAndDeviation returns the mean and the standard deviation (of a sample) of at least two values.
func meanAndDeviation(v []float64) (mean, deviation float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(v)-1))
}

// Summary returns the figures as text.
func (f *Figures) Summary() string {
	var b strings.Builder
	b.WriteString("Figure 5: SYNs a second without loss\n")
	for _, t := range f.Throughput {
		fmt.Fprintf(&b, "  %-8s %9.0f", t.Defence, t.Lossless)
		if t.LossAt > 0 {
			fmt.Fprintf(&b, "   (at %.0f: %.1f %% lost)", t.LossAt, 100*t.Lost)
		} else {
			b.WriteString("   (no loss at the generator's maximum)")
		}
		b.WriteString("\n")
	}
	b.WriteString("Figure 6: a request for 14.5 kB from a new client\n")
	for _, p := range f.Latency {
		fmt.Fprintf(&b, "  %-56s at %-7s p50 %9.3f ms, p90 %9.3f, %8.2f times; %.0f %% served, %d retried\n", p.Defence, p.Rate, p.P50, p.P90, p.Ratio, 100*p.Served, p.Retried)
	}
	b.WriteString("Figure 7: CPU of the server\n")
	for _, p := range f.CPU {
		fmt.Fprintf(&b, "  %-64s %s: %5.2f %% reach it, %6.0f ns each, %6.1f ns for each packet of the attack\n", p.Defence, p.Attack, 100*p.AtServer, p.Each, p.OfAttack)
	}
	return b.String()
}

// FigureDuration is how long clients make requests in each experiment of the figures.
const FigureDuration = time.Second

// FigurePairs is the number of pairs of runs behind each cost of figure 7.
const FigurePairs = 5
