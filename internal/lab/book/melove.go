// SPDX-License-Identifier: Apache-2.0

package book

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tidegate/internal/bench"
	"tidegate/internal/config"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/overload"
	"tidegate/internal/lab/strategies"
)

func meLove() Chapter {
	const boxes = "NetFPGA SUME, Netronome NFP and t4p4s: there is no such hardware here, and t4p4s is not run; libmoon's place has our proxy in XDP"
	return Chapter{Name: "melove", Title: "Me Love (SYN-)Cookies: SYN Flood Mitigation in Programmable Data Planes",
		Items: []Item{
			{Name: "figure 1", What: "Linux under a SYN flood, with and without cookies", Unit: "kernel", Not: "Linux 4.9 and 4.19: the running kernel only"},
			{Name: "figure 2", What: "CPU profile of Linux under a flood", Not: "no profile by group of functions is taken yet"},
			{Name: "table I", What: "strategies compared", Unit: "strategies", Not: "Time: costs are counted in instructions, which do not see what memory costs; by time, cache is the dearest (bench --role proxy)"},
			{Name: "table II", What: "cookies and authentication in a proxy", Unit: "strategies", Not: "no column for whitelist_v4: bitmap yet"},
			{Name: "figures 3 to 7", What: "drawings of messages and set-up", Not: "nothing to measure"},
			{Name: "figure 8", What: "most SYNs processed, by strategy", Unit: "proxy100", Not: boxes},
			{Name: "figure 9", What: "batch sizes", Not: "batches exist on DPDK only: tidegate-lab bench --role dpdk --plots"},
			{Name: "figure 10", What: "scaling over cores", Not: "two processors here, one of which sends"},
			{Name: "figure 11", What: "share of requests served, 100 and 1,000 a second", Unit: "proxy100", Not: boxes + ". 1,000 requests a second: unit proxy1000, on the page"},
			{Name: "figure 12", What: "latency without, at half of and at overload", Unit: "proxy100", Not: boxes + ". The lab's quantiles end at 99.9 %"},
			{Name: "table III", What: "resources of the NetFPGA", Not: "there is no NetFPGA here, and no tool that synthesizes for one"},
		},
		Units: []Unit{
			{"kernel", func(ctx context.Context, s Setting) (*Finding, error) {
				r, err := floodSearch(ctx, s, 100, []string{defences.None, defences.Kernel, defences.Host})
				if err != nil {
					return nil, err
				}
				return kernelFinding(r), nil
			}},
			{"strategies", meLoveStrategies},
			{"proxy100", func(ctx context.Context, s Setting) (*Finding, error) { return meLoveProxy(ctx, s, 100) }},
			{"proxy1000", func(ctx context.Context, s Setting) (*Finding, error) { return meLoveProxy(ctx, s, 1000) }},
		}}
}

// floodSearch finds where defences stop serving a number of requests a second.
func floodSearch(ctx context.Context, s Setting, requests float64, list []string) (*overload.Result, error) {
	o := overload.DefaultOptions()
	o.Base.Exe, o.Base.Progress, o.Base.Load, o.Defences = s.Exe, s.Progress, requests, list
	o.Base.Clients = 100 // the paper's parallel connections
	o.Base.Duration = s.duration(30 * time.Second)
	if s.Smallest {
		o.Searches, o.Rates = 0, []load.Rate{10_000}
	}
	if err := o.Choose(""); err != nil {
		return nil, err
	}
	return overload.Run(ctx, o)
}

// served are the curves of the share of requests, and the median and last quantile of the latency.
func served(r *overload.Result) (share, latency []Curve) {
	for _, d := range r.Defences {
		one, p50, p999 := Curve{Name: d.Name}, Curve{Name: d.Name + ", median"}, Curve{Name: d.Name + ", 99.9 %"}
		for _, p := range d.Points {
			if p.Offered > 0 {
				one.X, one.Y = append(one.X, p.Offered), append(one.Y, 100*p.Success)
				p50.X, p50.Y = append(p50.X, p.Offered), append(p50.Y, p.Latency.P50)
				p999.X, p999.Y = append(p999.X, p.Offered), append(p999.Y, p.Latency.P999)
			}
		}
		share, latency = append(share, one), append(latency, p50, p999)
	}
	return share, latency
}

func capacityOf(d *overload.Defence) string {
	switch {
	case d.Error != "":
		return "failed: " + d.Error
	case d.Capacity.Unsought:
		return "not searched"
	}
	text := fmt.Sprintf("%.0f SYN/s", d.Capacity.Median)
	if d.Capacity.AtLeast {
		return "at least " + text + ", the generator's maximum"
	}
	return text
}

func kernelFinding(r *overload.Result) *Finding {
	f := &Finding{Data: r}
	for _, d := range r.Defences {
		if d.Error != "" || d.Capacity.Unsought {
			f.Lines = append(f.Lines, beside("figure 1", d.Name, capacityOf(d), "", "no capacity"))
			continue
		}
		c := d.Capacity.Median
		switch d.Name {
		case defences.None:
			f.Lines = append(f.Lines, compare("figure 1", "Linux without cookies", capacityOf(d), "250 SYN/s processed, no request served", c <= 250,
				"the backlog of 511 empties faster than the paper's"))
		case defences.Kernel:
			f.Lines = append(f.Lines, compare("figure 1", "Linux with cookies, all requests served", capacityOf(d), "up to 400000 SYN/s", c >= 400_000,
				"one processor of another kind, and veth instead of a network card"))
		default:
			f.Lines = append(f.Lines, beside("figure 1", d.Name, capacityOf(d), "", "not in the paper"))
		}
	}
	share, _ := served(r)
	f.Plots = []Plot{{Title: "Me Love, figure 1: requests served under a flood", X: "SYN/s offered", Y: "% served", LogX: true, Curves: share}}
	return f
}

func meLoveProxy(ctx context.Context, s Setting, requests float64) (*Finding, error) {
	var list []string
	for _, name := range config.Strategies() {
		list = append(list, defences.ProxyPrefix+string(name))
	}
	if s.Smallest {
		list = list[:1]
	}
	r, err := floodSearch(ctx, s, requests, list)
	if err != nil {
		return nil, err
	}
	return proxyFinding(r, requests), nil
}

func proxyFinding(r *overload.Result, requests float64) *Finding {
	f := &Finding{Data: r}
	// 14.88 million frames a second are what a link of 10 Gbit/s carries.
	const line = 14.88e6
	for _, d := range r.Defences {
		ours := capacityOf(d)
		if d.Error == "" && !d.Capacity.Unsought {
			ours += fmt.Sprintf(" on one processor, %.1f %% of 14.88 M/s", 100*d.Capacity.Median/line)
		}
		f.Lines = append(f.Lines, beside("figure 8", fmt.Sprintf("%s, %g requests/s", d.Name, requests), ours, "a curve; up to 14 M/s on the NFP and the NetFPGA", "another machine"))
		below, above := 0, 0
		for _, p := range d.Points {
			if d.Capacity.Median > 0 && p.Offered > 0 && p.Offered <= d.Capacity.Median/2 {
				if below++; p.Success < 1 {
					above++
				}
			}
		}
		if below > 0 {
			f.Lines = append(f.Lines, compare("figure 11", fmt.Sprintf("%s, %g requests/s: all served well before overload", d.Name, requests),
				fmt.Sprintf("%d of %d measurements up to half of the capacity", below-above, below), "100 % until the point of overload", above == 0, "single requests were late"))
		}
		for _, p := range d.Points {
			f.Lines = append(f.Lines, beside("figure 12", fmt.Sprintf("%s, %g requests/s at %.0f SYN/s", d.Name, requests, p.Offered),
				fmt.Sprintf("median %.3g ms, 99.9 %% %.3g ms", p.Latency.P50, p.Latency.P999), "median 1 to 1.4 ms; tail to 4 ms, to a second in overload", "another network: a round trip takes no time here"))
		}
	}
	share, latency := served(r)
	f.Plots = []Plot{
		{Title: fmt.Sprintf("Me Love, figure 11: %g requests a second", requests), X: "SYN/s offered", Y: "% served", LogX: true, Curves: share},
		{Title: fmt.Sprintf("Me Love, figure 12: %g requests a second", requests), X: "SYN/s offered", Y: "ms", LogX: true, Curves: latency},
	}
	return f
}

func meLoveStrategies(ctx context.Context, s Setting) (*Finding, error) {
	o := strategies.DefaultOptions()
	o.Exe, o.Progress = s.Exe, s.Progress
	cost := bench.DefaultOptions()
	cost.Exe, cost.Progress = s.Exe, s.Progress
	if s.Smallest {
		o.Strategies, o.Frames, o.Clients = []string{"cookie"}, 1000, 10
	}
	o.SYNCost = func(ctx context.Context) (strategies.SYNCost, error) {
		c, err := bench.RunSYNCounts(ctx, cost)
		if err != nil {
			return strategies.SYNCost{}, fmt.Errorf("instructions of a SYN: %w", err)
		}
		return strategies.SYNCost(*c), nil
	}
	r, err := strategies.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	return marksFinding(r), nil
}

// marksFinding has one line for each mark of the two tables.
func marksFinding(r *strategies.Report) *Finding {
	f := &Finding{Data: r}
	for i, rows := range [][]strategies.TableRow{r.TableI, r.TableII} {
		item := []string{"table I", "table II"}[i]
		for _, row := range rows {
			for _, figures := range r.Figures {
				c, ok := row.Cells[figures.Strategy]
				if !ok {
					continue
				}
				what, ours := row.Name+", "+figures.Strategy, c.Mark+" ("+c.Figure+")"
				switch {
				case c.Mark == "":
					f.Lines = append(f.Lines, beside(item, what, c.Figure, c.Published, "not counted in this run"))
				case c.Published == "":
					f.Lines = append(f.Lines, beside(item, what, ours, "", "not in the paper's table"))
				default:
					f.Lines = append(f.Lines, compare(item, what, ours, c.Published, c.Agrees(), cmp.Or(strategies.Reason(row.Name, figures.Strategy), row.Threshold)))
				}
			}
		}
	}
	return f
}
