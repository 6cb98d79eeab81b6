// SPDX-License-Identifier: Apache-2.0

// Package bench measures what the gate costs, beside yardsticks that run in the
// same place in the same run: an empty program, a drop, a plain reflection, the
// kernel's own SYN cookies, nftables SYNPROXY. It must never assert a figure;
// it reports them, with the spread.
//
// Method: SYNs are live frames of BPF_PROG_TEST_RUN on the far end of a veth, so
// that every frame is new (a program's own output is never its next input), and
// generator, program and answer share one core. Programs are measured in turn,
// round by round, and compared within a round; medians over the rounds are reported.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/trial"
	"tidegate/internal/version"
)

// Options of a run.
type Options struct {
	Rounds   int
	Frames   int                  // SYNs for each program and round
	Exe      string               // the tidegate program, for the host defence
	Only     string               // of the proxy: one of ProxyParts; empty: all
	Bursts   int                  // of connections, for each step of a set-up and round; 0: nine
	Progress func(string, ...any) // writes to stderr
}

// DefaultOptions take about two minutes.
func DefaultOptions() Options { return Options{Rounds: 7, Frames: 400_000} }

// Spread is a figure with its range over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spread(values []float64) Spread {
	s := slices.Clone(values)
	slices.Sort(s)
	return Spread{s[len(s)/2], s[0], s[len(s)-1]}
}

// Result is one run. The maps without a suffix hold medians; spreads hold ranges.
type Result struct {
	Version string `json:"version"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Rounds  int    `json:"rounds"`
	Pinning string `json:"pinning"`

	// SipHashNs is one SipHash-2-4 of 16 bytes in BPF, measured in this run: the
	// yardstick for how fast the core was.
	SipHashNs float64 `json:"siphash24_ns"`

	NsAboveReflect         map[string]float64 `json:"ns_above_reflect"`
	NsAboveReflectServices map[string]float64 `json:"ns_above_reflect_by_services"`
	NsTotal                map[string]float64 `json:"ns_total"`
	SynPpsOneCore          map[string]float64 `json:"syn_pps_one_core"`
	SynPpsRatio            map[string]float64 `json:"syn_pps_host_over"`
	// Both programs of the receive path together, for one packet; and each.
	EstablishedNsAbovePass float64            `json:"established_ns_above_pass"`
	EstablishedNsByProgram map[string]float64 `json:"established_ns_above_pass_by_program"`
	GoodputRatio           float64            `json:"goodput_ratio"`
	GoodputRatioNoXDP      float64            `json:"goodput_ratio_no_xdp"`
	GoodputGbps            map[string]float64 `json:"goodput_gbps"`

	Spreads map[string]Spread `json:"spreads"`
}

// Run measures everything once.
func Run(ctx context.Context, opt Options) (res *Result, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the benchmark needs root, for network namespaces and BPF: run it with sudo")
	}
	if opt.Progress == nil {
		opt.Progress = func(string, ...any) {}
	}
	labOptions := trial.DefaultOptions()
	labOptions.Defence = defences.Host
	labOptions.Exe = opt.Exe
	labOptions.Progress = opt.Progress
	rig, err := trial.NewStand(labOptions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	res = &Result{Version: version.Version, Kernel: kernelRelease(), CPU: cpuModel(), Rounds: opt.Rounds,
		Pinning: fmt.Sprintf("generator, program and answer on CPU %d of %d; figures net of generator are differences within a round", rig.FloodCPU(), runtime.NumCPU()),
		Spreads: map[string]Spread{}}
	for _, part := range []struct {
		what string
		run  func(context.Context, Options, *trial.Stand, *Result) error
	}{
		{"one hash, as a yardstick", measureHash},
		{"cost of a SYN, program by program", measureSYN},
		{"cost of a SYN with 1 to 10,000 services", measureServices},
		{"cost for an established flow's packets", measureEstablished},
		{"goodput with and without", measureGoodput},
		{"SYNs absorbed by one core, defence by defence", measureCapacity},
	} {
		opt.Progress("measuring %s", part.what)
		if err := part.run(ctx, opt, rig, res); err != nil {
			return nil, fmt.Errorf("%s: %w", part.what, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return res, nil
}
