// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tidegate/internal/lab/backlog"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

func lemon() Chapter {
	return Chapter{Name: "lemon", Title: "Resisting SYN flood DoS attacks with a SYN cache",
		Items: []Item{
			{Name: "figure 2", What: "time to connect by backlog", Unit: "list",
				Not: "FreeBSD 4.4 and its machine: a process keeps the listen queue as that system did, a linear list with random drop, on a processor that walks it hundreds of times as fast. Linux's own queue, which refuses newcomers instead: unit connect, on the page"},
			{Name: "figure 3", What: "time to connect with SYN cache and cookies", Unit: "connect"},
		},
		Units: []Unit{{Name: "list", Takes: 3 * time.Minute, Run: lemonList}, {Name: "connect", Takes: 3 * time.Minute, Run: lemonConnect}}}
}

// What the paper says of figure 2.
const (
	paperShort = "90 % within 500 ms"
	paperLong  = "2.5 % within 500 ms"
)

// listLoad is the flood that shows a list's cost: this share of what the shortest list can process.
const listLoad = 0.75

// lemonList is figure 2 with the list that the paper measured.
func lemonList(ctx context.Context, s Setting) (*Finding, error) {
	c := trial.DefaultConnectOptions()
	o := backlog.Options{Base: c.Base, Connections: c.Connections, Backlogs: trial.ConnectBacklogs(), Rates: []load.Rate{c.Base.Rate}, Share: listLoad}
	o.Base.Progress = s.Progress
	if s.Smallest {
		o.Connections, o.Base.Timeout, o.Backlogs, o.Rates = 100, 2*time.Second, []int{128, 1024}, nil
	}
	if s.Seconds > 0 {
		o.Connections = int(o.Base.Load) * s.Seconds
	}
	all, err := backlog.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	return listFinding(all, o.Connections), nil
}

func listFinding(all []backlog.Curve, connections int) *Finding {
	f := &Finding{Data: all}
	const faster = "this processor walks the list hundreds of times as fast as a machine of 2001"
	capacity := map[int]float64{}
	plots := map[string]*Plot{}
	var order []string
	for _, c := range all {
		if _, there := capacity[c.Backlog]; !there {
			capacity[c.Backlog] = c.Capacity
			want := float64(3*c.Backlog/2) / 2
			f.Lines = append(f.Lines, compare("figure 2", fmt.Sprintf("backlog %d: entries passed for each SYN", c.Backlog), fmt.Sprintf("%.0f (%.0f ns in a full list)", c.Entries(), c.Stats.DropNs),
				fmt.Sprintf("%.0f: half of 3/2 of the backlog", want), math.Abs(c.Entries()-want) < 0.1*want, "the queue was not full all the time"))
		}
		what := fmt.Sprintf("list with random drop, backlog %d, %s SYN/s", c.Backlog, c.Rate)
		ours := fmt.Sprintf("%.1f %% within 500 ms; %.0f %% of the process's time goes into dropping", 100*c.Within500, 100*c.Share())
		switch c.Backlog {
		case 128:
			f.Lines = append(f.Lines, compare("figure 2", what, ours, paperShort, c.Within500 >= 0.9, "the flood is more than the list and its process can take"))
		case 1024:
			f.Lines = append(f.Lines, beside("figure 2", what, ours, paperLong+"; 30 % of the system's time goes into dropping", faster))
		default:
			f.Lines = append(f.Lines, beside("figure 2", what, ours, "", "only a curve in the paper"))
		}
		p := plots[c.Rate]
		if p == nil {
			p = &Plot{Title: "Lemon, figure 2: a linear list with random drop, " + c.Rate + " SYN/s", X: "ms", Y: "% of all connections", LogX: true}
			plots[c.Rate] = p
			order = append(order, c.Rate)
		}
		p.Curves = append(p.Curves, timesCurve(fmt.Sprintf("backlog %d", c.Backlog), c.Times, connections))
	}
	if short, long := capacity[128], capacity[1024]; short > 0 && long > 0 {
		f.Lines = append(f.Lines, compare("figure 2", "SYNs a second that the process answers: backlog 1,024 over 128", fmt.Sprintf("%.2f (%.0f over %.0f)", long/short, long, short),
			"a considerable drop: from 90 % to 2.5 % of connections", long < 0.8*short, "answering a SYN costs more than walking the list"))
	}
	for _, rate := range order {
		f.Plots = append(f.Plots, *plots[rate])
	}
	return f
}

// timesCurve is the share of all connections that were established by a time.
func timesCurve(name string, sorted []float64, all int) Curve {
	c := Curve{Name: name}
	stride := max(1, len(sorted)/200)
	for i, ms := range sorted {
		if i%stride == 0 || i == len(sorted)-1 {
			c.X, c.Y = append(c.X, max(ms, 0.001)), append(c.Y, 100*float64(i+1)/float64(all))
		}
	}
	return c
}

func lemonConnect(ctx context.Context, s Setting) (*Finding, error) {
	o := trial.DefaultConnectOptions()
	o.Base.Exe, o.Base.Progress, o.Curves = s.Exe, s.Progress, trial.ConnectCurves()
	if s.Smallest {
		o.Connections, o.Base.Timeout = 100, o.Base.Timeout/5
		o.Curves = []string{trial.BacklogCurve(128), "kernel cookies"}
	}
	if s.Seconds > 0 {
		o.Connections = int(o.Base.Load) * s.Seconds
	}
	t, err := trial.RunConnectTimes(ctx, o)
	if err != nil {
		return nil, err
	}
	return connectFinding(t), nil
}

func connectFinding(t *trial.ConnectTimes) *Finding {
	f := &Finding{Data: t}
	plot := Plot{Title: "Lemon, figure 3: time to connect", X: "ms", Y: "% of all connections", LogX: true}
	for _, c := range t.Curves {
		share := 100 * c.Within500
		ours := fmt.Sprintf("%.1f %% within 500 ms", share)
		switch {
		case c.Name == trial.BacklogCurve(128):
			f.Lines = append(f.Lines, compare("figure 2", c.Name, ours, paperShort, share >= 90,
				"FreeBSD 4.4 drops a random entry, so newcomers always enter the queue (unit list); Linux refuses them while it is full"))
		case c.Name == trial.BacklogCurve(1024):
			f.Lines = append(f.Lines, beside("figure 2", c.Name, ours, paperLong,
				"another cause: Linux refuses newcomers while its queue is full, FreeBSD 4.4 spent its time walking the list (unit list)"))
		case slices.ContainsFunc(trial.ConnectBacklogs(), func(n int) bool { return c.Name == trial.BacklogCurve(n) }):
			f.Lines = append(f.Lines, beside("figure 2", c.Name, ours, "", "only a curve in the paper"))
		default:
			f.Lines = append(f.Lines, beside("figure 3", c.Name, ours, "", "only a curve in the paper"))
		}
		plot.Curves = append(plot.Curves, timesCurve(c.Name, c.Times, t.Connections))
	}
	f.Plots = []Plot{plot}
	return f
}
