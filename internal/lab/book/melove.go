// SPDX-License-Identifier: Apache-2.0

package book

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tidegate/internal/bench"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/overload"
	"tidegate/internal/lab/strategies"
)

func meLove() Chapter {
	const boxes = "NetFPGA SUME, Netronome NFP and t4p4s: there is no such hardware here, and t4p4s, which compiles P4 to DPDK, is not packaged; libmoon's place has our proxy in XDP"
	return Chapter{Name: "melove", Title: "Me Love (SYN-)Cookies: SYN Flood Mitigation in Programmable Data Planes",
		Items: []Item{
			{Name: "figure 1", What: "Linux under a SYN flood, with and without cookies", Unit: "kernel",
				Not: "Linux 4.9 and 4.19: Debian has no such kernels any more, and the lab needs 6.1. Other kernels, from 6.1 on: tidegate-lab book melove/kernels, in a virtual machine (where there is no KVM, on an emulated processor that takes a nanosecond for each instruction), only where it is named"},
			{Name: "figure 2", What: "CPU profile of Linux under a flood", Unit: "profile",
				Not: "cycles: samples by the clock. Functions that run with interrupts off are charged where they are turned on again"},
			{Name: "table I", What: "strategies compared", Unit: "strategies", Not: "Time: costs are counted in instructions, which do not see what memory costs; by time, cache is the dearest (bench --role proxy)"},
			{Name: "table II", What: "cookies and authentication in a proxy", Unit: "strategies"},
			{Name: "figures 3 to 7", What: "drawings of messages and set-up", Not: "nothing to measure"},
			{Name: "figure 8", What: "most SYNs processed, by strategy", Unit: "proxy100", Not: boxes + ". With 1,000 requests a second: unit proxy1000, on the page"},
			{Name: "figure 9", What: "batch sizes", Unit: "batches", Not: "libmoon and t4p4s: our proxy on DPDK has their place, and frames come from memory. XDP has no batches that a program could choose"},
			{Name: "figure 10", What: "scaling over cores", Unit: "batches", Not: "more than two processors. The kernel's path on several: one of the two sends the flood"},
			{Name: "figure 11", What: "share of requests served, 100 and 1,000 a second", Unit: "proxy100", Not: boxes + ". 1,000 requests a second: unit proxy1000, on the page"},
			{Name: "figure 12", What: "latency without, at half of and at overload", Unit: "proxy100", Not: boxes + ". 1,000 requests a second: unit proxy1000, on the page"},
			{Name: "table III", What: "resources of the NetFPGA", Not: "there is no NetFPGA here, and no tool that synthesizes for one"},
		},
		Units: []Unit{
			{Name: "kernel", Takes: 4 * time.Minute, Run: func(ctx context.Context, s Setting) (*Finding, error) {
				r, err := overload.Run(ctx, searchOptions(s, 100, []string{defences.None, defences.Kernel, defences.Host}))
				if err != nil {
					return nil, err
				}
				return kernelFinding(r), nil
			}},
			{Name: "kernels", Asked: true, Takes: 15 * time.Minute, Run: meLoveKernels, Derive: deriveKernels},
			{Name: "profile", Takes: time.Minute, Run: meLoveProfile},
			{Name: "strategies", Takes: time.Minute, Run: meLoveStrategies},
			{Name: "batches", Takes: time.Minute, Run: meLoveBatches},
			{Name: "proxy100", Takes: 16 * time.Minute, Run: func(ctx context.Context, s Setting) (*Finding, error) { return meLoveProxy(ctx, s, 100) }},
			{Name: "proxy1000", Takes: 16 * time.Minute, Run: func(ctx context.Context, s Setting) (*Finding, error) { return meLoveProxy(ctx, s, 1000) }},
		}}
}

// searchFor is how long clients make requests at each rate of a search.
const searchFor = 2 * time.Second

// searchOptions are for finding where defences stop serving a number of requests a second.
func searchOptions(s Setting, requests float64, list []string) overload.Options {
	o := overload.DefaultOptions()
	o.Base.Exe, o.Base.Progress, o.Base.Load, o.Defences = s.Exe, s.Progress, requests, list
	o.Base.Clients = 100 // the paper's parallel connections
	o.Base.Duration = searchFor
	if s.Progress != nil {
		o.Done = func(d string, p overload.Point) {
			s.Progress("  %s: %.0f SYN/s offered, %.2f %% of %d requests served", d, p.Offered, 100*p.Success, p.Requests)
		}
	}
	if s.Smallest {
		o.Base.Duration, o.Searches, o.Rates = time.Second, 0, []load.Rate{10_000}
	}
	return o
}

// served are the curves of the share of requests, of all measurements.
func served(r *overload.Result) (share []Curve) {
	for _, d := range r.Defences {
		one := Curve{Name: d.Name}
		for _, p := range d.Points {
			if p.Offered > 0 {
				one.X, one.Y = append(one.X, p.Offered), append(one.Y, 100*p.Success)
			}
		}
		share = append(share, one)
	}
	return share
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
		f.Lines = append(f.Lines, kernelLines(d, "")...)
	}
	f.Plots = []Plot{{Title: "Me Love, figure 1: requests served under a flood", X: "SYN/s offered", Y: "% served", LogX: true, Curves: served(r)}}
	return f
}

// kernelLines are figure 1 for one defence, on the kernel of that name, if it is not this machine's.
func kernelLines(d *overload.Defence, kernel string) []Line {
	name := func(what string) string {
		if kernel == "" {
			return what
		}
		return "Linux " + kernel + ": " + what
	}
	if d.Error != "" || d.Capacity.Unsought {
		return []Line{beside("figure 1", name(d.Name), capacityOf(d), "", "no capacity")}
	}
	c := d.Capacity.Median
	most := "unknown"
	if d.AtMax != nil {
		most = fmt.Sprintf("%.0f SYN/s processed of %.0f, %.1f %% of requests served", d.AtMax.Processed, d.AtMax.Offered, 100*d.AtMax.Success)
	}
	switch d.Name {
	case defences.None:
		return []Line{compare("figure 1", name("Linux without cookies"), capacityOf(d), "250 SYN/s processed, no request served", c <= 250,
			"the backlog of 511 empties faster than the paper's")}
	case defences.Kernel:
		reason := "one processor of another kind, and veth instead of a network card"
		if kernel != "" {
			reason = "a virtual machine, both of whose processors are threads of this one's"
		}
		return []Line{compare("figure 1", name("Linux with cookies, all requests served"), capacityOf(d), "up to 400000 SYN/s", c >= 400_000, reason),
			beside("figure 1", name("Linux with cookies, at the generator's maximum"), most, "towards 0 % (4.9); below 10 % up to 1 M SYN/s (4.19)", "how far overload goes depends on the generator")}
	}
	return []Line{beside("figure 1", name(d.Name), capacityOf(d), "", "not in the paper")}
}

func meLoveStrategies(ctx context.Context, s Setting) (*Finding, error) {
	o := strategies.DefaultOptions()
	o.Exe, o.Progress, o.Bitmap = s.Exe, s.Progress, []string{"auth-full", "auth-cookie"}
	cost := bench.DefaultOptions()
	cost.Exe, cost.Progress = s.Exe, s.Progress
	if s.Smallest {
		o.Strategies, o.Bitmap, o.Frames, o.Clients = []string{"cookie"}, nil, 1000, 10
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
