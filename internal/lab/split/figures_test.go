// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"testing"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// The figures from simulated measurements: the steps end at the first loss, latencies are
// relative to the first point, and the edge's cost is not counted as the server's.
func TestSplitFigures(t *testing.T) {
	asked := map[string]int{}
	run := figureRuns{
		flood: func(_ context.Context, o trial.Options) (*trial.Result, error) {
			asked[o.Defence]++
			r := &trial.Result{SYNSent: 1000, Answers: 1000, SYNPPS: float64(o.Rate), Success: 1, CPUPerSYN: 1000, Latency: load.Quantiles{P50: 2}}
			if o.Defence == defences.None {
				r.Latency.P50 = 1
			}
			if o.Defence == defences.Kernel && o.Rate > 100_000 {
				r.Answers = 900
			}
			return r, nil
		},
		split: func(_ context.Context, o Options) (*Result, error) {
			asked["split"]++
			r := &Result{Result: trial.Result{SYNSent: 1000, Answers: 1000, SYNPPS: float64(o.Rate), Success: 1, CPUPerSYN: 100, Latency: load.Quantiles{P50: 1.05}}}
			if o.Rate > 800_000 {
				r.SYNPPS = 0.5 * float64(o.Rate) // the generator's maximum
			}
			if o.FilterFlows > 0 {
				r.FPComputed = 0.0766
			}
			if o.Attack == AttackACK && !o.DropAttack {
				r.ServerAttackPackets, r.FPMeasured, r.CPUPerSYN = 77, 0.077, 107.7
			}
			return r, nil
		},
	}
	f, err := figures(t.Context(), DefaultOptions(), run)
	if err != nil {
		t.Fatal(err)
	}
	if k := f.Throughput[0]; k.Lossless != 100_000 || k.LossAt != 200_000 || k.Lost != 0.1 {
		t.Errorf("kernel: %+v", k)
	}
	if s := f.Throughput[3]; s.Defence != "split" || s.Lossless != 800_000 || s.LossAt != 0 {
		t.Errorf("split: %+v", s)
	}
	if len(f.Latency) != 9 || f.Latency[0].Ratio != 1 || f.Latency[1].Ratio != 2 || f.Latency[3].Ratio != 1.05 {
		t.Errorf("latency: %+v", f.Latency)
	}
	if syn, ack, kernel := f.CPU[0], f.CPU[2], f.CPU[3]; syn.OfAttack != 0 || ack.OfAttack != 7.7 || ack.Each != 100 || kernel.OfAttack != 76.6 {
		t.Errorf("CPU: %+v", f.CPU)
	}
	if asked["proxy-auth-wrong"] != 2 || asked["proxy-auth-cookie"] != 2 {
		t.Errorf("asked %v", asked)
	}
}
