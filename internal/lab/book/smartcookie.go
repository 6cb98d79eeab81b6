// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/sampler"
	"tidegate/internal/lab/split"
)

func smartCookie() Chapter {
	const tofino = "needs the Tofino compiler, which this command does not run: docs/p4.md has our numbers beside the paper's"
	return Chapter{Name: "smartcookie", Title: "SmartCookie: Blocking Large-Scale SYN Floods with a Split-Proxy Defense",
		Items: []Item{
			{Name: "table 1", What: "a comparison in words", Not: "nothing to measure"},
			{Name: "figure 5", What: "SYNs a second without loss", Unit: "figure5",
				Not: "the switch: there is no Tofino here, the edge is XDP on one processor"},
			{Name: "figure 5, variants", What: "the switch's rate with HalfSipHash, AES and CRC", Unit: "variants", Not: "measured on a switch: computed from recirculations and bytes, as docs/p4.md does"},
			{Name: "figure 6", What: "latency of new clients under floods of several rates", Unit: "figure6", Not: "Jaqen's switch: our proxy resets clients as its two modes do"},
			{Name: "figure 7", What: "the server's CPU, filter filled with 579,600 flows", Unit: "figure7", Not: instructionsNot()},
			{Name: "table 2", What: "resources of the switch", Not: tofino},
			{Name: "table 3", What: "resources inside a larger program", Not: "needs the Tofino compiler, which this command does not run: docs/p4.md says with which larger program the edge has been compiled, if any"},
			{Name: "figures 1 to 4, 8, 9", What: "drawings of the design", Not: "nothing to measure"},
		},
		Units: []Unit{{Name: "variants", Run: smartVariants}, {Name: "figure5", Takes: 3 * time.Minute, Run: smartThroughput},
			{Name: "figure6", Takes: 4 * time.Minute, Run: smartLatency}, {Name: "figure7", Takes: 8 * time.Minute, Run: smartCPU}}}
}

// instructionsNot says whether figure 7 has the paper's unit.
func instructionsNot() string {
	c, err := sampler.CountInstructions(0)
	switch {
	case errors.Is(err, sampler.ErrNoCounters):
		return "instructions as perf stat counts them: " + err.Error() + ", so processor time stands for them"
	case err != nil:
		return "instructions as perf stat counts them: " + err.Error()
	}
	_, _ = c.Stop() // only whether it can be opened counts
	return ""
}

func splitOptions(s Setting) split.Options {
	o := split.DefaultOptions()
	o.Duration = s.duration(split.FigureDuration)
	o.Exe, o.Progress = s.Exe, s.Progress
	return o
}

func smartThroughput(ctx context.Context, s Setting) (*Finding, error) {
	bars, err := split.Throughput(ctx, splitOptions(s))
	if err != nil {
		return nil, err
	}
	return throughputFinding(bars), nil
}

func throughputFinding(bars []split.ThroughputBar) *Finding {
	f, rate := &Finding{Data: bars}, map[string]float64{}
	paper := map[string]string{"kernel": "1.3 M/s on the server's processors", "host": "7.3 M/s (XDP cookies)", "split": "136.9 M/s (Tofino)"}
	for _, b := range bars {
		rate[b.Defence] = b.Lossless
		ours := fmt.Sprintf("%.0f/s", b.Lossless)
		if b.LossAt == 0 {
			ours = "at least " + ours
		}
		f.Lines = append(f.Lines, beside("figure 5", b.Defence, ours, paper[b.Defence], "another machine: compare the ratios"))
	}
	if rate["kernel"] > 0 {
		for _, c := range []struct {
			name  string
			paper float64
		}{{"host", 7.3 / 1.3}, {"split", 136.9 / 1.3}} {
			if ours := rate[c.name] / rate["kernel"]; ours > 0 {
				reason := "the lab's sender shares the processor with the defence, which bounds every rate"
				if c.name == "split" {
					reason = "the paper's is a switch, ours one processor"
				}
				f.Lines = append(f.Lines, compare("figure 5", c.name+" over kernel", fmt.Sprintf("%.1f times", ours), fmt.Sprintf("%.1f times", c.paper), ours >= c.paper, reason))
			}
		}
	}
	return f
}

func smartLatency(ctx context.Context, s Setting) (*Finding, error) {
	rates := []load.Rate{0, 10_000, 25_000, 50_000, 100_000, 200_000}
	if s.Smallest {
		rates = []load.Rate{0, 10_000}
	}
	points, err := split.Latency(ctx, splitOptions(s), rates...)
	if err != nil {
		return nil, err
	}
	return latencyFinding(points)
}

// latencyFinding compares the defences at each rate, by their medians.
func latencyFinding(points []split.LatencyPoint) (*Finding, error) {
	f, p50, curves := &Finding{Data: points}, map[string]float64{}, map[string]*Curve{}
	var order, rates []string
	for _, p := range points {
		r, err := load.ParseRate(p.Rate)
		if err != nil {
			return nil, err
		}
		p50[p.Defence+"|"+p.Rate] = p.P50
		if curves[p.Defence] == nil {
			curves[p.Defence] = &Curve{Name: p.Defence}
			order = append(order, p.Defence)
		}
		c := curves[p.Defence]
		c.X, c.Y = append(c.X, float64(r)), append(c.Y, p.P50)
		if p.Defence == "split" {
			rates = append(rates, p.Rate)
		}
		f.Lines = append(f.Lines, beside("figure 6", fmt.Sprintf("%s at %s/s", p.Defence, p.Rate), fmt.Sprintf("median %.3g ms, %.0f %% served, %.2f times the baseline", p.P50, 100*p.Served, p.Ratio),
			map[bool]string{true: "1.71 ms, 1.58 times its baseline of 1.08 ms"}[p.Defence == "split"], "another network: compare the ratios"))
	}
	for _, rate := range rates {
		ours := p50["split|"+rate]
		for _, name := range order {
			if theirs := p50[name+"|"+rate]; strings.HasPrefix(name, "reset") && theirs > 0 && ours > 0 {
				less := 100 * (1 - ours/theirs)
				f.Lines = append(f.Lines, compare("figure 6", fmt.Sprintf("split against %s at %s/s", name, rate), fmt.Sprintf("%.0f %% less", less), "48 to 84 % less", less >= 48,
					"the paper's resets cost round trips of its network; here a round trip takes no time"))
			}
		}
	}
	plot := Plot{Title: "SmartCookie, figure 6: a request for 14.5 kB from a new client", X: "attack, packets a second", Y: "median, ms"}
	for _, name := range order {
		plot.Curves = append(plot.Curves, *curves[name])
	}
	f.Plots = []Plot{plot}
	return f, nil
}

func smartCPU(ctx context.Context, s Setting) (*Finding, error) {
	rates, pairs := []load.Rate{10_000, 25_000, 50_000, 100_000, 200_000}, split.FigurePairs
	if s.Smallest {
		rates, pairs = rates[:1], 2
	}
	all := map[string][]split.CPUPoint{}
	f := &Finding{Data: all}
	for _, rate := range rates {
		points, err := split.CPU(ctx, splitOptions(s), rate, pairs)
		if err != nil {
			return nil, err
		}
		all[rate.String()] = points
		f.Lines = append(f.Lines, cpuLines(rate.String(), points)...)
		f.addCPU(rate, points)
	}
	return f, nil
}

// addCPU adds a rate to the picture of figure 7: what the attack takes of the server's time.
func (f *Finding) addCPU(rate load.Rate, points []split.CPUPoint) {
	if len(f.Plots) == 0 {
		f.Plots = []Plot{{Title: "SmartCookie, figure 7: the server's CPU under attack", X: "attack, packets a second", Y: "% of one processor"}}
	}
	p := &f.Plots[0]
	for i, c := range points {
		if len(p.Curves) <= i {
			p.Curves = append(p.Curves, Curve{Name: c.Defence + ", " + c.Attack})
		}
		p.Curves[i].X, p.Curves[i].Y = append(p.Curves[i].X, float64(rate)), append(p.Curves[i].Y, 100*float64(rate)*max(0, c.OfAttack)/1e9)
	}
}

// cpuLines compares what a packet of the attack costs the server; the last point is the kernel's.
func cpuLines(rate string, points []split.CPUPoint) (lines []Line) {
	for _, p := range points {
		what := fmt.Sprintf("%s, %s at %s/s", p.Defence, p.Attack, rate)
		ours := fmt.Sprintf("%.2f %% reach the server, ", 100*p.AtServer)
		switch {
		case p.Each < 0 && p.OfAttack < 0 && p.Error == 0:
			ours += "what they cost is not measured"
		case p.Error > 0:
			ours += fmt.Sprintf("%.1f ± %.1f ns for each packet of the attack", p.OfAttack, p.Error)
		default:
			ours += fmt.Sprintf("%.1f ns for each packet of the attack", p.OfAttack)
		}
		if p.Instructions > 0 {
			ours += fmt.Sprintf(", %.0f instructions", p.Instructions)
		}
		switch {
		case p.Defence == "split" && p.Attack == split.AttackSYN:
			lines = append(lines, compare("figure 7", what, ours, "no overhead", p.AtServer == 0,
				"with challenge: all, an edge passes SYNs of flows that its filter knows, at most 100 a second, so that their server challenges them (decision 141)"))
		case p.Attack == split.AttackACK:
			lines = append(lines, cpuLine(what, ours, p, points[len(points)-1].OfAttack))
		default:
			lines = append(lines, beside("figure 7", what, ours, "", "what the others are compared with"))
		}
	}
	return lines
}

// cpuLine compares an agent's cost with the kernel's. It agrees with the paper only if the whole range of its
// error does, and differs only if none of it does: at low rates an attack costs less than what the runs differ by.
func cpuLine(what, ours string, p split.CPUPoint, kernel float64) Line {
	const paper = "33 to 36 % less than Jaqen"
	less := func(cost float64) float64 { return 100 * (1 - cost/kernel) }
	switch {
	case kernel <= 0:
		return beside("figure 7", what, ours, paper, "the kernel's cost is below the noise of this run")
	case less(p.OfAttack+p.Error) < 33 && less(p.OfAttack-p.Error) >= 33:
		return beside("figure 7", what, ours, paper, "undecided: the error spans the paper's figure")
	case p.Error > 0 && p.OfAttack < p.Error:
		ours += fmt.Sprintf(": not told from nothing, at least %.0f %% less than the kernel's", less(p.OfAttack+p.Error))
	default:
		ours += fmt.Sprintf(": %.0f %% less than the kernel's", less(p.OfAttack))
	}
	return compare("figure 7", what, ours, paper, less(p.OfAttack) >= 33, "a false positive costs our server agent more than the paper's, relative to the kernel")
}
