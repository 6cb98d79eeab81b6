// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/bench/benchbpf"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// synKinds are the SYNs that are distinguished: with and without timestamps, both
// families.
var synKinds = []struct {
	name string
	ipv6 bool
	mix  load.FloodMix
}{
	{"v4-ts", false, load.MixTS},
	{"v4", false, load.MixNoTS},
	{"v6-ts", true, load.MixTS},
	{"v6", true, load.MixNoTS},
	{"v4-bare", false, load.MixBare},
	{"v4-macos", false, load.MixMacOS},
	{"v4-odd", false, load.MixOdd},
	{"v6-bare", true, load.MixBare},
	{"v4-data", false, load.MixData},
}

// slot is the place where programs are attached, one after another, to meet the flood.
type slot struct {
	rig  *trial.Stand
	link link.Link
}

func newSlot(rig *trial.Stand, first *ebpf.Program) (*slot, error) {
	l, err := rig.AttachXDP(rig.FloodPort, first)
	if err != nil {
		return nil, err
	}
	return &slot{rig, l}, nil
}

// nsPerSYN runs the flood against a program once. Frames that a full ring lost
// are not counted as work done.
func (s *slot) nsPerSYN(f *load.Flood, prog *ebpf.Program, frames int) (float64, error) {
	if err := s.link.Update(prog); err != nil {
		return 0, err
	}
	before, err := s.rig.FloodPort.RxPackets()
	if err != nil {
		return 0, err
	}
	b, err := f.Burst(frames)
	if err != nil {
		return 0, err
	}
	after, err := s.rig.FloodPort.RxPackets()
	if err != nil {
		return 0, err
	}
	done := min(after-before, b.Frames)
	if done == 0 {
		return 0, errors.New("no frame arrived")
	}
	return float64(b.Elapsed.Nanoseconds()) / float64(done), nil
}

// measureSYN measures drop, reflection and the gate, for each kind of SYN.
func measureSYN(ctx context.Context, opt Options, rig *trial.Stand, res *Result) error {
	var yard benchbpf.BenchObjects
	if err := benchbpf.LoadBenchObjects(&yard, nil); err != nil {
		return err
	}
	defer yard.Close()
	fresh := func() ([]*ebpf.Program, func(), error) {
		gate, err := newGate(0)
		if err != nil {
			return nil, nil, err
		}
		hostXDP, _ := gate.Programs()
		return []*ebpf.Program{yard.TgBenchDrop, yard.TgBenchReflect, hostXDP}, func() { gate.Close() }, nil
	}
	place, err := newSlot(rig, yard.TgBenchDrop)
	if err != nil {
		return err
	}
	defer place.link.Close()
	res.NsAboveReflect, res.NsTotal = map[string]float64{}, map[string]float64{}
	for _, kind := range synKinds {
		flood, err := rig.NewFlood(kind.ipv6, kind.mix)
		if err != nil {
			return err
		}
		ns, err := inTurns(ctx, opt.Rounds, fresh, inSlot(place, flood, opt.Frames))
		if err := errors.Join(err, flood.Close()); err != nil {
			return err
		}
		for i, name := range []string{"drop", "reflect", "host"} {
			res.NsTotal[name+"-"+kind.name] = spread(ns[i]).Median
			res.Spreads["ns_total "+name+"-"+kind.name] = spread(ns[i])
		}
		above := differences(ns[2], ns[1])
		res.NsAboveReflect["host-"+kind.name] = spread(above).Median
		res.Spreads["ns_above_reflect host-"+kind.name] = spread(above)
	}
	return nil
}

// measureServices measures the same path with the tables empty and full.
func measureServices(ctx context.Context, opt Options, rig *trial.Stand, res *Result) error {
	var yard benchbpf.BenchObjects
	if err := benchbpf.LoadBenchObjects(&yard, nil); err != nil {
		return err
	}
	defer yard.Close()
	place, err := newSlot(rig, yard.TgBenchDrop)
	if err != nil {
		return err
	}
	defer place.link.Close()
	flood, err := rig.NewFlood(false, load.MixTS)
	if err != nil {
		return err
	}
	defer flood.Close()
	counts := []int{0, 1, 100, 10_000}
	progs := make([]*ebpf.Program, len(counts))
	for i, n := range counts {
		gate, err := newGate(n)
		if err != nil {
			return err
		}
		defer gate.Close()
		progs[i], _ = gate.Programs()
	}
	ns, err := inTurns(ctx, opt.Rounds, loaded(append(progs, yard.TgBenchReflect)...), inSlot(place, flood, opt.Frames))
	if err != nil {
		return err
	}
	res.NsAboveReflectServices = map[string]float64{}
	for i, n := range counts {
		name := serviceCountName(n)
		above := differences(ns[i], ns[len(counts)])
		res.NsAboveReflectServices[name] = spread(above).Median
		res.Spreads["ns_above_reflect services "+name] = spread(above)
	}
	return nil
}

// serviceCountName: 0 is the one service for every address, found without a look-up
// in the prefix table.
func serviceCountName(n int) string {
	if n == 0 {
		return "any"
	}
	return fmt.Sprint(n)
}

func differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}
