// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/lab/trial"
)

// The round of the median is shown, with the ratios of all; one that was disturbed is made again, and another error ends them.
func TestRounds(t *testing.T) {
	ratios, made := []float64{1.4, 0.9, 1.05, 2, 1}, 0
	run := func(context.Context, Options) (*Result, error) {
		made++
		if made == 2 {
			return nil, fmt.Errorf("a client waited: %w", trial.ErrDisturbed)
		}
		v := ratios[0]
		ratios = ratios[1:]
		return &Result{LatencyRatio: v, LatencyRatioXDP: v - 0.5, SetupLost: uint64(100 * v)}, nil
	}
	r, err := rounds(t.Context(), DefaultOptions(), 5, run)
	if err != nil {
		t.Fatal(err)
	}
	if made != 6 || r.LatencyRatio != 1.05 || r.SetupLost != 105 || !slices.Equal(r.LatencyRatios, []float64{0.9, 1, 1.05, 1.4, 2}) || r.LatencyRatiosXDP[4] != 1.5 {
		t.Errorf("%d runs: %+v", made, *r)
	}
	if s := r.Summary(); !strings.Contains(s, "1.050 [0.900 .. 2.000]") {
		t.Errorf("summary: %s", s)
	}
	var one map[string]any
	raw, err := json.Marshal(r)
	if err = errors.Join(err, json.Unmarshal(raw, &one)); err != nil || one["latency_ratio"] != 1.05 || len(one["latency_ratios"].([]any)) != 5 || one["attack"] == nil {
		t.Errorf("%v: %s", err, raw)
	}
	broken := errors.New("no such interface")
	if _, err := rounds(t.Context(), DefaultOptions(), 3, func(context.Context, Options) (*Result, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	for _, n := range []int{0, MaxRounds + 1} {
		if _, err := rounds(t.Context(), DefaultOptions(), n, run); err == nil {
			t.Errorf("%d rounds were accepted", n)
		}
	}
}

// The ranks are those of tables for the sign test: n, and the rank of the lower end.
func TestMedian95(t *testing.T) {
	for n, rank := range map[int]int{5: 0, 6: 1, 7: 1, 9: 2, 20: 6, 21: 6, 50: 18, 99: 40} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(i + 1)
		}
		got := median95(v)
		if rank == 0 && got != nil || rank > 0 && (got == nil || *got != [2]float64{float64(rank), float64(n + 1 - rank)}) {
			t.Errorf("%d values: %v, want ranks %d and %d", n, got, rank, n+1-rank)
		}
	}
}
