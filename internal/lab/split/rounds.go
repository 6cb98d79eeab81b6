// SPDX-License-Identifier: Apache-2.0

package split

import (
	"cmp"
	"context"
	"fmt"
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
	return r, nil
}

// Summary returns the result as text.
func (r *Rounds) Summary() string {
	over := func(v []float64) string {
		return fmt.Sprintf("%.3f [%.3f .. %.3f]", v[(len(v)-1)/2], v[0], v[len(v)-1])
	}
	return r.Result.Summary() + fmt.Sprintf("rounds     %d, of which this is the one of the median; latency, median and range: %s times,\n           over an empty XDP program %s\n",
		len(r.LatencyRatios), over(r.LatencyRatios), over(r.LatencyRatiosXDP))
}
