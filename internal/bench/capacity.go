// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// measureCapacity measures how many SYNs one core takes in a second, the
// generator's work included, with drop, reflection, and each defence as `lab flood`
// sets it up.
func measureCapacity(ctx context.Context, opt Options, rig *trial.Stand, res *Result) error {
	flood, err := rig.NewFlood(false, load.MixAll)
	if err != nil {
		return err
	}
	defer flood.Close()
	pps := map[string][]float64{}
	for range max(3, opt.Rounds/2) {
		for _, name := range []string{"drop", "reflect", defences.Host, defences.Kernel, defences.Nft} {
			stop, err := insert(ctx, rig, name)
			if err != nil {
				return err
			}
			v, err := burstRate(rig, flood, opt.Frames)
			if err := errors.Join(err, stop(), ctx.Err()); err != nil {
				return err
			}
			pps[name] = append(pps[name], v)
		}
	}
	res.SynPpsOneCore, res.SynPpsRatio = map[string]float64{}, map[string]float64{}
	for name, values := range pps {
		res.SynPpsOneCore[name] = spread(values).Median
		res.Spreads["syn_pps_one_core "+name] = spread(values)
		if name != defences.Host {
			r := spread(ratios(pps[defences.Host], values))
			res.SynPpsRatio[name] = r.Median
			res.Spreads["syn_pps_host_over "+name] = r
		}
	}
	return nil
}

// insert attaches a yardstick program or a defence where the flood arrives.
func insert(ctx context.Context, rig *trial.Stand, name string) (stop func() error, err error) {
	if slices.Contains(defences.All(), name) {
		return rig.Defend(ctx, name)
	}
	var yard benchbpf.BenchObjects
	if err := benchbpf.LoadBenchObjects(&yard, nil); err != nil {
		return nil, err
	}
	prog := yard.TgBenchDrop
	if name == "reflect" {
		prog = yard.TgBenchReflect
	}
	l, err := rig.AttachXDP(rig.FloodPort, prog)
	if err != nil {
		return nil, errors.Join(err, yard.Close())
	}
	return func() error { return errors.Join(l.Close(), yard.Close()) }, nil
}

// burstRate returns how many SYNs a second arrived, of a flood at full speed.
func burstRate(rig *trial.Stand, flood *load.Flood, frames int) (float64, error) {
	if _, err := flood.Burst(frames / 10); err != nil { // warm up
		return 0, err
	}
	before, err := rig.FloodPort.RxPackets()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	b, err := flood.Burst(frames)
	elapsed := time.Since(begin)
	if err != nil {
		return 0, err
	}
	after, err := rig.FloodPort.RxPackets()
	if err != nil {
		return 0, err
	}
	return float64(min(after-before, b.Frames)) / elapsed.Seconds(), nil
}
