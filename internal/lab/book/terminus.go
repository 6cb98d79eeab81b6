// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"

	"tidegate/internal/bench"
	"tidegate/internal/lab/terminus"
)

func terminusChapter() Chapter {
	return Chapter{Name: "terminus", Title: "Terminus: the End of the Line for DDoS",
		Items: []Item{
			{Name: "figure 2", What: "true-source bit, five ways of spoofing", Unit: "scenarios"},
			{Name: "figure 3", What: "reflection", Unit: "scenarios"},
			{Name: "section V.B", What: "control plane: requests a second of each manager and of the patrol", Unit: "patrol"},
			{Name: "figure 5", What: "forwarding against the number of allowed prefixes", Unit: "patrol",
				Not: "0 and 20 prefixes and two paths on two processors: the benchmark does not measure them yet. Gigabit links: a share of the rate of a program that only sends on stands for the share of the line"},
			{Name: "figure 6", What: "forwarding against the number of filters", Unit: "patrol",
				Not: "long chains: the patrol's table is open-addressed and has none. Prefixes and filters combined: not measured yet"},
			{Name: "section V.C", What: "both planes at once", Unit: "patrol"},
			{Name: "figure 4", What: "a drawing of the protocol", Not: "nothing to measure; see ifp.md"},
		},
		Units: []Unit{{"scenarios", terminusScenarios}, {"patrol", terminusPatrol}}}
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

func terminusPatrol(ctx context.Context, s Setting) (*Finding, error) {
	o := bench.TerminusOptions{Options: bench.DefaultOptions(), MaxFilters: 10_000_000, Requests: 500_000}
	o.Exe, o.Progress = s.Exe, s.Progress
	if s.Smallest {
		o.Rounds, o.Frames, o.MaxFilters, o.Requests = 1, 1000, 100_000, 10_000
	}
	r, err := bench.RunTerminus(ctx, o)
	if err != nil {
		return nil, err
	}
	return patrolFinding(r), nil
}

// patrolFinding puts the benchmark's numbers beside the paper's.
func patrolFinding(r *bench.TerminusResult) *Finding {
	f := &Finding{Data: r}
	const slower = "slower than the paper's machine, or than it was when others used this one"
	const control = "section V.B"
	rate := func(item, what string, have, paper float64) {
		f.Lines = append(f.Lines, compare(item, what, fmt.Sprintf("%.0f/s", have), fmt.Sprintf("%.0f/s", paper), have >= paper, slower))
	}
	rate(control, "filter manager, one filter a message", r.FMRequestsPerS, 75_000)
	rate(control, "border manager, one filter a message", r.BMRequestsPerS, 87_000)
	rate(control, "patrol, 100 filters a message", r.PatrolInstallsPerS, 354_000)
	if r.EndToEndPerS > 0 {
		took := 1.5e6 / r.EndToEndPerS
		f.Lines = append(f.Lines, compare(control, "1.5 million filters, managers and patrol together, computed from the rate", fmt.Sprintf("%.1f s", took), "20 s", took <= 20, slower))
	}
	prefixes, filters := Curve{Name: "patrol"}, map[string]*Curve{"passing": {Name: "packets that pass"}, "dropped": {Name: "packets that a filter drops"}}
	share := func(step string) (float64, bool) {
		through, ok := r.ForwardNs[step]
		if !ok || through <= 0 {
			return 0, false
		}
		return 100 * r.WireNs[step] / through, true
	}
	for _, p := range []struct {
		n     int
		paper float64 // percent of line rate
	}{{1, 0}, {50, 87}, {150, 75}, {100_000, 0}} {
		v, ok := share(fmt.Sprintf("prefixes %d", p.n))
		if !ok {
			continue
		}
		prefixes.X, prefixes.Y = append(prefixes.X, float64(p.n)), append(prefixes.Y, v)
		what, ours := fmt.Sprintf("%d prefixes, share of the rate without a patrol", p.n), fmt.Sprintf("%.0f %%", v)
		if p.paper == 0 {
			f.Lines = append(f.Lines, beside("figure 5", what, ours, "", "no figure in the paper"))
			continue
		}
		f.Lines = append(f.Lines, compare("figure 5", what, ours, fmt.Sprintf("%.0f %% of line rate", p.paper), v >= p.paper,
			"the rate to compare with is that of a program that only sends on, many times that of a gigabit line"))
	}
	for _, n := range []int{0, 1, 100_000, 1_000_000, 10_000_000} {
		for _, path := range []string{"passing", "dropped"} {
			if v, ok := share(fmt.Sprintf("filters %d, %s", n, path)); ok {
				c := filters[path]
				c.X, c.Y = append(c.X, float64(max(n, 1))), append(c.Y, v)
				f.Lines = append(f.Lines, beside("figure 6", fmt.Sprintf("%d filters, %s, share of the rate without a patrol", n, path), fmt.Sprintf("%.0f %%", v), "86 % of line rate with chains of 10",
					"the paper counts chains of a hash table, we count filters"))
			}
		}
	}
	if r.BothNs > 0 && r.BothAloneNs > 0 {
		loss := 100 * (1 - r.BothAloneNs/r.BothNs)
		f.Lines = append(f.Lines, compare("section V.C", fmt.Sprintf("forwarding lost while %.0f filters/s are installed", r.BothInstallsPerS), fmt.Sprintf("%.1f %%", loss),
			"86 % to 83 % of line rate: 3.5 %, at 354000/s", loss <= 3.5, "both processors share a cache and a memory bus"))
	}
	f.Plots = []Plot{
		{Title: "Terminus, figure 5: forwarding against prefixes", X: "allowed prefixes", Y: "% of the rate without a patrol", LogX: true, Curves: []Curve{prefixes}},
		{Title: "Terminus, figure 6: forwarding against filters (none: at 1)", X: "filters", Y: "% of the rate without a patrol", LogX: true, Curves: []Curve{*filters["passing"], *filters["dropped"]}},
	}
	return f
}
