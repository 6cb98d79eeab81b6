// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"

	"github.com/cilium/ebpf"

	"tidegate/internal/lab/load"
)

// turns is into how many turns a round is divided. Ten milliseconds a turn and more keep what a turn costs besides small.
const turns = 20

// inTurns measures programs beside each other. In a round each program has many short turns, one program after the other, and the round's
// figure is the median of a program's turns: what disturbs a machine for some milliseconds (an interrupt, a neighbour) falls on few
// turns, and what lasts longer falls on all programs alike. fresh gives the programs of one round: where it loads them anew, the kernel puts them
// elsewhere in memory, which moves a program's time by some ten nanoseconds, so that the range over the rounds contains that, too.
// one measures a program for one turn. The first round warms up and is not in the result, which has a list of rounds for each program.
func inTurns(ctx context.Context, rounds int, fresh func() (programs []*ebpf.Program, unload func(), err error),
	one func(*ebpf.Program) (float64, error)) ([][]float64, error) {
	var figures [][]float64
	for round := range rounds + 1 {
		medians, err := oneRound(ctx, fresh, one)
		if err != nil {
			return nil, err
		}
		if round == 0 {
			figures = make([][]float64, len(medians))
			continue
		}
		for i, m := range medians {
			figures[i] = append(figures[i], m)
		}
	}
	return figures, nil
}

func oneRound(ctx context.Context, fresh func() ([]*ebpf.Program, func(), error), one func(*ebpf.Program) (float64, error)) ([]float64, error) {
	programs, unload, err := fresh()
	if err != nil {
		return nil, err
	}
	defer unload()
	of := make([][]float64, len(programs))
	for range turns {
		for i, program := range programs {
			v, err := one(program)
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			of[i] = append(of[i], v)
		}
	}
	medians := make([]float64, len(of))
	for i := range of {
		medians[i] = spread(of[i]).Median
	}
	return medians, nil
}

// loaded is for programs that stay loaded over all rounds, because what their tables hold takes long to fill.
func loaded(programs ...*ebpf.Program) func() ([]*ebpf.Program, func(), error) {
	return func() ([]*ebpf.Program, func(), error) { return programs, func() {}, nil }
}

// inSlot measures a turn of a flood against a program in its place: a round's frames, divided.
func inSlot(place *slot, flood *load.Flood, frames int) func(*ebpf.Program) (float64, error) {
	return func(program *ebpf.Program) (float64, error) {
		return place.nsPerSYN(flood, program, max(1, frames/turns))
	}
}
