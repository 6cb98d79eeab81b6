// SPDX-License-Identifier: Apache-2.0

package book

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"tidegate/internal/bench"
)

// meLoveBatches is figures 9 and 10, on DPDK.
func meLoveBatches(ctx context.Context, s Setting) (*Finding, error) {
	o := bench.DefaultOptions()
	o.Progress = s.Progress
	if s.Smallest {
		o.Rounds = 1
	}
	r, err := bench.RunDPDK(ctx, o)
	if err != nil {
		return nil, err
	}
	return batchesFinding(r), nil
}

// batchStrategies are those of the paper's figures.
func batchStrategies() []string { return []string{"cookie", "auth-cookie", "auth-full"} }

func batchesFinding(r *bench.DPDKResult) *Finding {
	f := &Finding{Data: r}
	nine := Plot{Title: "Me Love, figure 9: batch sizes, one processor, from memory to memory", X: "frames in a batch", Y: "million SYN/s", LogX: true, Lines: []Mark{{Name: "14.88 M/s: 10 Gbit/s", At: lineRate / 1e6, Level: true}}}
	ten := Plot{Title: "Me Love, figure 10: processors", X: "processors", Y: "million SYN/s", Lines: nine.Lines}
	for _, name := range batchStrategies() {
		if c, lines := batchCurve(name, r.Batch[name]); len(c.X) > 0 {
			nine.Curves = append(nine.Curves, c)
			f.Lines = append(f.Lines, lines...)
		}
		cores, there := r.Cores[name]
		if !there {
			f.Lines = append(f.Lines, beside("figure 10", name, "one processor only", "linear", "a second processor is needed"))
			continue
		}
		one, two, ratio := cores["1"].Median, cores["2"].Median, cores["two_over_one"]
		ten.Curves = append(ten.Curves, Curve{Name: name, X: []float64{1, 2}, Y: []float64{one, two}})
		f.Lines = append(f.Lines, compare("figure 10", name+": two processors over one", fmt.Sprintf("%.2f (%.2f to %.2f): %.1f and %.1f million SYN/s", ratio.Median, ratio.Min, ratio.Max, one, two),
			"linear: 2", ratio.Median >= 1.9, "the two share a core's units, its caches or the memory's bandwidth"))
	}
	for _, name := range batchStrategies() {
		if v, there := r.MppsPerCore[name]; there {
			f.Lines = append(f.Lines, compare("figure 10", name+": line rate on two processors, from one's rate", fmt.Sprintf("%.1f million SYN/s for each processor", v.Median),
				"with several cores close to 14.88 M/s, with cookies, too", 2*v.Median >= lineRate/1e6, "this machine has two"))
		}
	}
	f.Plots = []Plot{nine, ten}
	return f
}

// batchCurve is figure 9 for one strategy: the rates by batch size, and what the paper says of them.
func batchCurve(name string, rates map[string]bench.Spread) (c Curve, lines []Line) {
	c.Name = name
	var sizes []int
	for text := range rates {
		if n, err := strconv.Atoi(text); err == nil {
			sizes = append(sizes, n)
		}
	}
	slices.Sort(sizes)
	best, most := 0, 0.0
	for _, n := range sizes {
		v := rates[strconv.Itoa(n)].Median
		c.X, c.Y = append(c.X, float64(n)), append(c.Y, v)
		if v > most {
			best, most = n, v
		}
	}
	if len(sizes) < 2 {
		return c, nil
	}
	first, at64 := c.Y[0], rates["64"].Median
	lines = append(lines,
		compare("figure 9", name+": batches matter", fmt.Sprintf("%.1f million SYN/s frame by frame, %.1f in batches of %d: %.1f times", first, most, best, most/math.Max(first, 1e-9)),
			"a significant influence", most >= 1.25*first, "a frame's own cost is too large beside what a batch saves"),
		compare("figure 9", name+": 64 is the best size for libmoon", fmt.Sprintf("64 reaches %.0f %% of the best, which is %d", 100*at64/math.Max(most, 1e-9), best), "64", at64 >= 0.9*most,
			"our lanes are eight wide, and a longer batch leaves the first cache"))
	return c, lines
}
