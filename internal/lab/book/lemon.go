// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"slices"

	"tidegate/internal/lab/trial"
)

func lemon() Chapter {
	return Chapter{Name: "lemon", Title: "Resisting SYN flood DoS attacks with a SYN cache",
		Items: []Item{
			{Name: "figure 2", What: "time to connect by backlog", Unit: "connect",
				Not: "a linear list with random drop: Linux refuses newcomers instead; its cost is not emulated yet. The page of the paper that we have numbers this picture 3 in its caption and 2 in its text"},
			{Name: "figure 3", What: "time to connect with SYN cache and cookies", Unit: "connect"},
		},
		Units: []Unit{{"connect", lemonConnect}}}
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
	plot := Plot{Title: "Lemon: time to connect", X: "ms", Y: "% of all connections", LogX: true}
	for _, c := range t.Curves {
		share := 100 * c.Within500
		ours := fmt.Sprintf("%.1f %% within 500 ms", share)
		switch {
		case c.Name == trial.BacklogCurve(128):
			f.Lines = append(f.Lines, compare("figure 2", c.Name, ours, "90 % within 500 ms", share >= 90,
				"FreeBSD 4.4 drops a random entry, so newcomers always enter the queue; Linux refuses them while it is full"))
		case c.Name == trial.BacklogCurve(1024):
			f.Lines = append(f.Lines, beside("figure 2", c.Name, ours, "2.5 % within 500 ms",
				"another cause: Linux refuses newcomers while its queue is full, FreeBSD 4.4 spent its time walking the list"))
		case slices.ContainsFunc(trial.ConnectBacklogs(), func(n int) bool { return c.Name == trial.BacklogCurve(n) }):
			f.Lines = append(f.Lines, beside("figure 2", c.Name, ours, "", "only a curve in the paper"))
		default:
			f.Lines = append(f.Lines, beside("figure 3", c.Name, ours, "", "only a curve in the paper"))
		}
		curve := Curve{Name: c.Name}
		stride := max(1, len(c.Times)/200)
		for i, ms := range c.Times {
			if i%stride == 0 || i == len(c.Times)-1 {
				curve.X, curve.Y = append(curve.X, max(ms, 0.001)), append(curve.Y, 100*float64(i+1)/float64(t.Connections))
			}
		}
		plot.Curves = append(plot.Curves, curve)
	}
	f.Plots = []Plot{plot}
	return f
}
