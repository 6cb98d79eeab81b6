// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/overload"
)

// lineRate is how many of the smallest frames a link of 10 Gbit/s carries in a second: the paper's goal.
const lineRate = 14.88e6

// lineRateMark is that rate as a line in a picture.
func lineRateMark(level bool) Mark {
	return Mark{Name: "14.88 M/s: 10 Gbit/s", At: lineRate, Level: level}
}

// levelsFor is how long the paper's runs take.
const levelsFor = 30 * time.Second

func meLoveProxy(ctx context.Context, s Setting, requests float64) (*Finding, error) {
	var list []string
	for _, name := range config.Strategies() {
		list = append(list, defences.ProxyPrefix+string(name))
	}
	if s.Smallest {
		list = list[:1]
	}
	o := searchOptions(s, requests, list)
	o.LevelsFor = s.duration(levelsFor)
	r, err := overload.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	return proxyFinding(r, requests), nil
}

// proxyFinding is figures 8, 11 and 12.
func proxyFinding(r *overload.Result, requests float64) *Finding {
	f := &Finding{Data: r}
	capacity := map[string]float64{}
	most := Plot{Title: fmt.Sprintf("Me Love, figure 8: SYNs a second that leave %g requests a second unharmed, one processor", requests), Y: "SYN/s", Lines: []Mark{lineRateMark(true)}}
	for _, d := range r.Defences {
		ours := capacityOf(d)
		if d.Error == "" && !d.Capacity.Unsought {
			ours += fmt.Sprintf(" on one processor, %.1f %% of 14.88 M/s", 100*d.Capacity.Median/lineRate)
			capacity[d.Name] = d.Capacity.Median
			most.Bars = append(most.Bars, Bar{d.Name, d.Capacity.Median})
		}
		f.Lines = append(f.Lines, beside("figure 8", fmt.Sprintf("%s, %g requests/s", d.Name, requests), ours, "a bar; up to 14 M/s on the NFP and the NetFPGA", "another machine"))
		f.Lines = append(f.Lines, servedLines(d, requests)...)
		f.Lines = append(f.Lines, latencyLines(d, requests)...)
	}
	if full, hashed := capacity[defences.ProxyPrefix+"auth-full"], capacity[defences.ProxyPrefix+"auth-cookie"]; full > 0 && hashed > 0 {
		f.Lines = append(f.Lines, compare("figure 8", fmt.Sprintf("auth-cookie over auth-full, %g requests/s", requests), fmt.Sprintf("%.2f", hashed/full),
			"the hash costs up to half: at least 0.5", hashed >= full/2, "the hash is dearer than half of the rest"))
	}
	if len(most.Bars) > 0 {
		f.Plots = []Plot{most}
	}
	f.Plots = append(append(f.Plots,
		Plot{Title: fmt.Sprintf("Me Love, figure 11: %g requests a second", requests), X: "SYN/s offered", Y: "% served", LogX: true, Curves: served(r), Lines: []Mark{lineRateMark(false)}}),
		latencyPlots(r, requests)...)
	return f
}

// servedLines are figure 11 for one defence.
func servedLines(d *overload.Defence, requests float64) (lines []Line) {
	all, late := 0, 0
	for _, p := range d.Points {
		if d.Capacity.Median > 0 && p.Offered > 0 && p.Offered <= d.Capacity.Median/2 {
			if all++; p.Success < 1 {
				late++
			}
		}
	}
	if all > 0 {
		lines = append(lines, compare("figure 11", fmt.Sprintf("%s, %g requests/s: all served well before overload", d.Name, requests),
			fmt.Sprintf("%d of %d measurements up to half of the capacity", all-late, all), "100 % until the point of overload", late == 0, "single requests were late"))
	}
	if d.Levels != nil {
		p := d.Levels.Overload
		lines = append(lines, beside("figure 11", fmt.Sprintf("%s, %g requests/s: %g s of overload", d.Name, requests, d.Levels.Seconds),
			fmt.Sprintf("%.1f %% of %d served at %.0f SYN/s", 100*p.Success, p.Requests, p.Offered), "drops slowly; faster with 1,000 requests/s than with 100", "how far overload goes depends on the generator"))
	}
	return lines
}

// level is one of the three loads of figure 12.
type level struct {
	name  string
	of    func(*overload.Levels) *overload.Point
	paper string
	tail  float64 // ms that 99.9 % must not exceed; 0: no verdict
}

func levels() []level {
	return []level{
		{"no flood", func(l *overload.Levels) *overload.Point { return &l.None }, "median 1 to 1.4 ms, tail to 4 ms", 4},
		{"half of the capacity", func(l *overload.Levels) *overload.Point { return &l.Half }, "median 1 to 1.4 ms, tail to 4 ms", 4},
		{"overload", func(l *overload.Levels) *overload.Point { return &l.Overload }, "in software up to a second from 90 % on; median above a second with 1,000 requests/s", 0},
	}
}

// quantilesOf are the ticks of the histogram's axis: 1/(1-share), and the time.
func quantilesOf(q load.Quantiles) (x, y []float64) {
	return []float64{2, 10, 100, 1000, 10_000, 100_000}, []float64{q.P50, q.P90, q.P99, q.P999, q.P9999, q.P99999}
}

// latencyLines are figure 12 for one defence.
func latencyLines(d *overload.Defence, requests float64) (lines []Line) {
	if d.Levels == nil {
		return nil
	}
	for _, l := range levels() {
		p := l.of(d.Levels)
		what := fmt.Sprintf("%s, %g requests/s for %g s, %s", d.Name, requests, d.Levels.Seconds, l.name)
		q := p.Latency
		ours := fmt.Sprintf("median %.3g ms, 90 %% %.3g, 99 %% %.3g, 99.9 %% %.3g, 99.99 %% %.3g, 99.999 %% %.3g (of %d)", q.P50, q.P90, q.P99, q.P999, q.P9999, q.P99999, p.Requests)
		if l.tail == 0 {
			lines = append(lines, beside("figure 12", what, ours, l.paper, "a failed request counts as the timeout of a second"))
			continue
		}
		lines = append(lines, compare("figure 12", what, ours, l.paper, q.P999 <= l.tail, "single requests were late"))
	}
	return lines
}

// latencyPlots are figure 12: a picture for each level.
func latencyPlots(r *overload.Result, requests float64) (plots []Plot) {
	for _, l := range levels() {
		p := Plot{Title: fmt.Sprintf("Me Love, figure 12: %g requests a second, %s", requests, l.name), X: "share of requests", Y: "ms", LogX: true, LogY: true, Nines: true}
		for _, d := range r.Defences {
			if d.Levels == nil {
				continue
			}
			x, y := quantilesOf(l.of(d.Levels).Latency)
			p.Curves = append(p.Curves, Curve{Name: d.Name, X: x, Y: y})
		}
		if len(p.Curves) > 0 {
			plots = append(plots, p)
		}
	}
	return plots
}
