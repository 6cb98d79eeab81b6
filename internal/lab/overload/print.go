// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes every measurement as a table, and the capacities.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "the link by itself: %s SYN/s offered, %s taken from the queue and dropped, %.0f ns each\n",
		Rate(r.Wire.Offered), Rate(r.Wire.Processed), r.Wire.FrameNs)
	fmt.Fprintf(w, "the victim's receive queue has %d places\n", r.Queue)
	for _, p := range r.Ceiling {
		fmt.Fprintf(w, "it loses %.2g %% at %s SYN/s, whatever the defence\n", 100*p.Lost/max(1, p.Offered), Rate(p.Offered))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "DEFENCE\toffered\tprocessed\tanswered\tlost before\tserved\tp50 ms\tp99 ms\tvictim's CPU\tserver's\t")
	for _, d := range r.Defences {
		for _, p := range d.Points {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.2f %%\t%.3g\t%.3g\t%.0f %%\t%.0f %%\t\n", d.Name, Rate(p.Offered), Rate(p.Processed), Rate(p.Answered), Rate(p.Lost),
				100*p.Success, p.Latency.P50, p.Latency.P99, 100*p.VictimCPU, 100*p.ServerCPU)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, d := range r.Defences {
		for _, p := range d.Points {
			if p.VictimIdle() {
				fmt.Fprintf(w, "%s at %s: frames were lost although the victim's processor had time left: other work on this machine, or the generator, bounds this rate, not the defence\n", d.Name, Rate(p.Offered))
			}
		}
	}
	fmt.Fprintf(w, "\nCAPACITY: the highest offered rate at which %g %% of requests are served within %g s\n", 100*Served, r.Timeout/1e3)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "DEFENCE\tplace\tSYN/s\tfrom\tto\tns a SYN\tserved at ten times the kernel's\tat the generator's maximum\t")
	for _, d := range r.Defences {
		if d.Error != "" {
			fmt.Fprintf(t, "%s\tfailed: %s\t\n", d.Name, d.Error)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.0f\t%s\t%s\t\n", d.Name, d.Place, d.Capacity, Rate(d.Capacity.Low), Rate(d.Capacity.High), d.SYNNs,
			share(d.AtTen), share(d.AtMax))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printOneClients(w)
}

func share(p *Point) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f %% of %s", 100*p.Success, Rate(p.Offered))
}

// String is the capacity for people.
func (c Capacity) String() string {
	switch {
	case c.Unsought:
		return "-"
	case c.AtLeast:
		return "at least " + Rate(c.Median)
	case c.Median == 0:
		return "below " + Rate(firstRate)
	}
	return Rate(c.Median)
}

// Rate is packets a second for people.
func Rate(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 1e3:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}
