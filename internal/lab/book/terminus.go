// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/bench"
	"tidegate/internal/lab/terminus"
)

func terminusChapter() Chapter {
	return Chapter{Name: "terminus", Title: "Terminus: the End of the Line for DDoS",
		Items: []Item{
			{Name: "figure 2", What: "true-source bit, five ways of spoofing", Unit: "scenarios"},
			{Name: "figure 3", What: "reflection", Unit: "scenarios"},
			{Name: "section IV.B", What: "control plane: requests a second of each manager and of the patrol; 1.5 million filters", Unit: "control"},
			{Name: "figure 5", What: "forwarding against the number of allowed prefixes", Unit: "forwarding",
				Not: "Gigabit links: a share of the rate of a program that only sends on stands for the share of the line. Two paths: unit paths, on the page"},
			{Name: "figure 6", What: "forwarding against the number of filters", Unit: "forwarding",
				Not: "long chains: the patrol's table is open-addressed and has none"},
			{Name: "section IV.C", What: "prefixes and filters combined", Unit: "combined"},
			{Name: "two paths", What: "figures 5 and 6 with a second processor", Unit: "paths", Not: "four interfaces of four network cards: two pairs of veths"},
			{Name: "section IV.D", What: "both planes at once", Unit: "forwarding"},
			{Name: "figures 1, 4", What: "drawings of the architecture and the protocol", Not: "nothing to measure; see ifp.md"},
		},
		Units: []Unit{
			{Name: "scenarios", Takes: time.Minute, Run: terminusScenarios},
			{Name: "control", Takes: time.Minute, Run: func(ctx context.Context, s Setting) (*Finding, error) {
				return terminusBench(ctx, s, controlFinding, "filter-manager", "border-manager", "patrol", "together")
			}},
			{Name: "forwarding", Takes: 90 * time.Second, Run: func(ctx context.Context, s Setting) (*Finding, error) {
				return terminusBench(ctx, s, forwardingFinding, "prefixes", "filters")
			}},
			{Name: "combined", Takes: 2 * time.Minute, Run: func(ctx context.Context, s Setting) (*Finding, error) {
				return terminusBench(ctx, s, combinedFinding, "combined")
			}},
			{Name: "paths", Takes: 30 * time.Second, Run: func(ctx context.Context, s Setting) (*Finding, error) {
				return terminusBench(ctx, s, pathsFinding, "paths")
			}},
		}}
}

func terminusScenarios(ctx context.Context, s Setting) (*Finding, error) {
	o := terminus.Options{Topology: "all", Exe: s.Exe, Progress: s.Progress}
	if s.Smallest {
		o.Topology = "fig3"
	}
	rows, err := terminus.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	f := &Finding{Data: rows}
	for _, r := range rows {
		item := "figure 2"
		if r.Topology != "fig2" {
			item = "figure 3"
		}
		f.Lines = append(f.Lines, compare(item, r.Scenario, r.Observed, r.Expected, r.OK, "not what the paper describes"))
	}
	return f, nil
}

// burstFilters are those against the largest botnet that the paper knows of. The benchmark installs twice its requests.
const burstFilters = 1_500_000

// terminusBench runs parts of the benchmark.
func terminusBench(ctx context.Context, s Setting, finding func(*bench.TerminusResult) *Finding, parts ...string) (*Finding, error) {
	o := bench.TerminusOptions{Options: bench.DefaultOptions(), MaxFilters: 10_000_000, Requests: burstFilters / 2, Parts: parts}
	o.Exe, o.Progress = s.Exe, s.Progress
	if s.Smallest {
		o.Rounds, o.Frames, o.MaxFilters, o.Requests = 1, 1000, 100_000, 10_000
	}
	r, err := bench.RunTerminus(ctx, o)
	if err != nil {
		return nil, err
	}
	return finding(r), nil
}

const slowerMachine = "slower than the paper's machine, or than it was when others used this one"

// controlFinding puts the control planes' rates beside the paper's.
func controlFinding(r *bench.TerminusResult) *Finding {
	f := &Finding{Data: r}
	const control = "section IV.B"
	rate := func(item, what string, have, paper float64) {
		f.Lines = append(f.Lines, compare(item, what, fmt.Sprintf("%.0f/s", have), fmt.Sprintf("%.0f/s", paper), have >= paper, slowerMachine))
	}
	rate(control, "filter manager, one filter a message", r.FMRequestsPerS, 75_000)
	rate(control, "border manager, one filter a message", r.BMRequestsPerS, 87_000)
	rate(control, "patrol, 100 filters a message", r.PatrolInstallsPerS, 354_000)
	if r.EndToEndPerS > 0 {
		what, ours := "1.5 million filters, managers and patrol together", fmt.Sprintf("%d filters in %.2f s", r.EndToEndCount, float64(r.EndToEndCount)/r.EndToEndPerS)
		took := burstFilters / r.EndToEndPerS
		if r.EndToEndCount != burstFilters {
			ours += fmt.Sprintf(": 1.5 million would take %.1f s", took)
		}
		f.Lines = append(f.Lines, compare(control, what, ours, "20 s, by the filter manager alone", took <= 20, slowerMachine))
	}
	return f
}

// shareOf is the patrol's rate as a share, in percent, of that of a program which only sends on.
func shareOf(r *bench.TerminusResult, step string) (float64, bool) {
	through, ok := r.ForwardNs[step]
	if !ok || through <= 0 {
		return 0, false
	}
	return 100 * r.WireNs[step] / through, true
}

const anotherLine = "the rate to compare with is that of a program that only sends on, many times that of a gigabit line"

// forwardingFinding is figures 5 and 6, and both planes at once.
func forwardingFinding(r *bench.TerminusResult) *Finding {
	f := &Finding{Data: r}
	prefixes, filters := Curve{Name: "patrol"}, map[string]*Curve{"passing": {Name: "packets that pass"}, "dropped": {Name: "packets that a filter drops"}}
	for _, n := range bench.CombinedPrefixes() {
		v, ok := shareOf(r, fmt.Sprintf("prefixes %d", n))
		if !ok {
			continue
		}
		what, ours := fmt.Sprintf("%d prefixes, share of the rate without a patrol", n), fmt.Sprintf("%.0f %%", v)
		if n == 0 {
			f.Lines = append(f.Lines, beside("figure 5", what, ours, "100 %, without the element", "with no prefix allowed ours drops everything"))
			continue
		}
		prefixes.X, prefixes.Y = append(prefixes.X, float64(n)), append(prefixes.Y, v)
		paper := map[int]float64{50: 87, 150: 75}[n]
		if paper == 0 {
			f.Lines = append(f.Lines, beside("figure 5", what, ours, "", "a point of a curve in the paper, or beyond it"))
			continue
		}
		f.Lines = append(f.Lines, compare("figure 5", what, ours, fmt.Sprintf("%.0f %% of line rate", paper), v >= paper, anotherLine))
	}
	for _, n := range []int{0, 1, 100_000, 1_000_000, 10_000_000} {
		for _, path := range []string{"passing", "dropped"} {
			if v, ok := shareOf(r, fmt.Sprintf("filters %d, %s", n, path)); ok {
				c := filters[path]
				c.X, c.Y = append(c.X, float64(max(n, 1))), append(c.Y, v)
				f.Lines = append(f.Lines, beside("figure 6", fmt.Sprintf("%d filters, %s, share of the rate without a patrol", n, path), fmt.Sprintf("%.0f %%", v), "86 % of line rate with chains of 10, 84 % with one of 100",
					"the paper counts chains of a hash table, we count filters"))
			}
		}
	}
	if r.BothNs > 0 && r.BothAloneNs > 0 {
		loss := 100 * (1 - r.BothAloneNs/r.BothNs)
		f.Lines = append(f.Lines, compare("section IV.D", fmt.Sprintf("forwarding lost while %.0f filters/s are installed", r.BothInstallsPerS), fmt.Sprintf("%.1f %%", loss),
			"86 % to 83 % of line rate: 3.5 %, at 354000/s", loss <= 3.5, "both processors share a cache and a memory bus"))
	}
	f.Plots = []Plot{
		{Title: "Terminus, figure 5: forwarding against prefixes", X: "allowed prefixes", Y: "% of the rate without a patrol", LogX: true, Curves: []Curve{prefixes}},
		{Title: "Terminus, figure 6: forwarding against filters (none: at 1)", X: "filters", Y: "% of the rate without a patrol", LogX: true, Curves: []Curve{*filters["passing"], *filters["dropped"]}},
	}
	return f
}

// combinedFinding is a share of the rate for each number of prefixes and filters.
func combinedFinding(r *bench.TerminusResult) *Finding {
	f := &Finding{Data: r}
	plot := Plot{Title: "Terminus: forwarding against prefixes, with filters", X: "allowed prefixes", Y: "% of the rate without a patrol", LogX: true}
	for _, filters := range bench.CombinedFilters(10_000_000) {
		c := Curve{Name: fmt.Sprintf("%d filters", filters)}
		for _, prefixes := range bench.CombinedPrefixes() {
			v, ok := shareOf(r, bench.CombinedStep(prefixes, filters))
			if !ok {
				continue
			}
			what, ours := fmt.Sprintf("%d prefixes, %d filters", prefixes, filters), fmt.Sprintf("%.0f %%", v)
			switch {
			case prefixes == 0:
				f.Lines = append(f.Lines, beside("section IV.C", what, ours, "", "everything is dropped: no source is allowed"))
				continue
			case prefixes == 20 && filters > 0:
				f.Lines = append(f.Lines, compare("section IV.C", what, ours, "86 % of line rate with 20 prefixes and chains of 10", v >= 86, anotherLine))
			default:
				f.Lines = append(f.Lines, beside("section IV.C", what, ours, "", "not in the paper"))
			}
			c.X, c.Y = append(c.X, float64(prefixes)), append(c.Y, v)
		}
		if len(c.X) > 0 {
			plot.Curves = append(plot.Curves, c)
		}
	}
	f.Plots = []Plot{plot}
	return f
}

// pathsFinding compares two paths with one.
func pathsFinding(r *bench.TerminusResult) *Finding {
	f := &Finding{Data: r.Paths}
	plot := Plot{Title: "Terminus: two paths over one", Y: "million frames a second"}
	for i, p := range r.Paths {
		paper, want := "1017 over 592 Mb/s with 50 prefixes: 1.72", 1.72
		if i > 0 {
			paper, want = "922 over 585 Mb/s with 20 prefixes and chains of 10: 1.58", 1.58
		}
		f.Lines = append(f.Lines, compare("two paths", p.Name+": two processors over one", fmt.Sprintf("%.2f: %.2f and %.2f million frames/s; a program that only sends on: %.2f and %.2f", p.Ratio, p.Two/1e6, p.One/1e6, p.TwoWire/1e6, p.OneWire/1e6),
			paper, p.Ratio >= want, "the two processors share a core, a cache and the memory's bandwidth, and each also makes and receives its frames"))
		plot.Bars = append(plot.Bars, Bar{p.Name + ", one", p.One / 1e6}, Bar{p.Name + ", two", p.Two / 1e6})
	}
	f.Plots = []Plot{plot}
	return f
}
