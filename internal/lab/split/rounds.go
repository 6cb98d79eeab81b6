// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// MaxRounds is the most rounds that RunRounds makes.
const MaxRounds = 99

// Rounds is one experiment made several times: the round whose latency ratio is the median, the lower one of two, and the
// ratios of all. The time of a request varies from one second to the next, without attack as under it, where neighbours
// share the machine: a single ratio says as much of them.
type Rounds struct {
	Result
	LatencyRatios    []float64 `json:"latency_ratios"` // ascending, as is the next
	LatencyRatiosXDP []float64 `json:"latency_ratios_xdp"`
	// Where the medians of very many rounds would lie, with a certainty of 95 %; null with fewer than six rounds.
	LatencyMedian95    *[2]float64 `json:"latency_median_95"`
	LatencyMedian95XDP *[2]float64 `json:"latency_median_95_xdp"`
}

// RunRounds makes the experiment n times; a round that other work has disturbed is made again.
func RunRounds(ctx context.Context, o Options, n int) (*Rounds, error) {
	return rounds(ctx, o, n, Run)
}

func rounds(ctx context.Context, o Options, n int, run func(context.Context, Options) (*Result, error)) (*Rounds, error) {
	if n < 1 || n > MaxRounds {
		return nil, fmt.Errorf("--rounds %d: want 1 to %d", n, MaxRounds)
	}
	all := make([]*Result, n)
	r := &Rounds{}
	for i := range all {
		if o.Progress != nil {
			o.Progress("split: round %d of %d", i+1, n)
		}
		one, err := undisturbed(ctx, func(ctx context.Context) (*Result, error) { return run(ctx, o) })
		if err != nil {
			return nil, fmt.Errorf("round %d of %d: %w", i+1, n, err)
		}
		all[i] = one
		r.LatencyRatios = append(r.LatencyRatios, one.LatencyRatio)
		r.LatencyRatiosXDP = append(r.LatencyRatiosXDP, one.LatencyRatioXDP)
	}
	slices.SortFunc(all, func(a, b *Result) int { return cmp.Compare(a.LatencyRatio, b.LatencyRatio) })
	r.Result = *all[(n-1)/2]
	slices.Sort(r.LatencyRatios)
	slices.Sort(r.LatencyRatiosXDP)
	r.LatencyMedian95, r.LatencyMedian95XDP = median95(r.LatencyRatios), median95(r.LatencyRatiosXDP)
	return r, nil
}

// median95 returns the interval, between two of the values, that holds the median of what they were drawn from with a certainty of 95 % or
// more, whatever its distribution: of n values, the number below that median is binomial. Nil if even all of them do not suffice.
func median95(ascending []float64) *[2]float64 {
	n := len(ascending)
	below, exactly := 0.0, math.Exp2(-float64(n)) // chances that fewer than k of n are below it, and that k are
	k := 0
	for ; k < n/2 && below+exactly <= 0.025; k++ {
		below += exactly
		exactly *= float64(n-k) / float64(k+1)
	}
	if k == 0 {
		return nil
	}
	return &[2]float64{ascending[k-1], ascending[n-k]}
}

// Summary returns the result as text.
func (r *Rounds) Summary() string {
	over := func(v []float64, in95 *[2]float64) string {
		text := fmt.Sprintf("%.3f [%.3f .. %.3f]", v[(len(v)-1)/2], v[0], v[len(v)-1])
		if in95 != nil {
			text += fmt.Sprintf(", median at 95 %%: %.3f to %.3f", in95[0], in95[1])
		}
		return text
	}
	return r.Result.Summary() + fmt.Sprintf("rounds     %d, of which this is the one of the median; latency, median and range:\n           %s\n           over an empty XDP program %s\n",
		len(r.LatencyRatios), over(r.LatencyRatios, r.LatencyMedian95), over(r.LatencyRatiosXDP, r.LatencyMedian95XDP))
}
