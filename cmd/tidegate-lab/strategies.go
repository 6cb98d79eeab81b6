// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tidegate/internal/bench"
	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/strategies"
)

func newStrategiesCmd() *cobra.Command {
	o := strategies.DefaultOptions()
	cost := bench.DefaultOptions()
	rate, withCost, asJSON := o.Rate.String(), true, false
	cmd := &cobra.Command{
		Use:   "strategies",
		Short: "Compare the proxy's strategies: each + and - is based on a measurement",
		Long: `Measure every strategy of the proxy between real clients and a real server, and
print Tables I and II of Scholz et al., "Me Love (SYN-)Cookies". Each mark results from
a figure of this run and a threshold, which is also printed; marks that differ
from the published ones are listed. Needs root; takes about half
a minute. No mark depends on time: the cost of a SYN is counted in instructions.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Rate, err = load.ParseRate(rate); err != nil {
				return cli.UsageErrorf("--rate: %v", err)
			}
			if o.Frames < 100 || o.Frames > 1_000_000 {
				return cli.UsageErrorf("--frames %d: want 100 to 1000000", o.Frames)
			}
			if o.Clients < 1 || o.Clients > 3000 {
				return cli.UsageErrorf("--clients %d: want 1 to 3000", o.Clients)
			}
			for _, s := range o.Strategies {
				if !slices.Contains(config.Strategies(), config.Strategy(s)) {
					return cli.UsageErrorf("--strategy %q: want some of %s", s, strategyNames())
				}
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			if withCost {
				o.SYNCost = func(ctx context.Context) (strategies.SYNCost, error) {
					cost.Progress = o.Progress
					c, err := bench.RunSYNCounts(ctx, cost)
					if err != nil {
						return strategies.SYNCost{}, fmt.Errorf("instructions of a SYN: %w", err)
					}
					return strategies.SYNCost(*c), nil
				}
			}
			ctx, stop := labContext(cmd)
			defer stop()
			r, err := strategies.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			return output(cmd.OutOrStdout(), r, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Strategies, "strategy", nil, "only these strategies, separated by commas (default: all)")
	f.StringVar(&rate, "rate", rate, "flood during legitimate requests, SYNs per second")
	f.IntVar(&o.Frames, "frames", o.Frames, "number of frames in each flood with spoofed sources")
	f.IntVar(&o.Clients, "clients", o.Clients, "number of legitimate clients during the flood, each with its own address")
	f.BoolVar(&withCost, "cost", withCost, "also count the instructions of a SYN, as tidegate-lab bench speed does")
	jsonFlag(f, &asJSON)
	return cmd
}

func strategyNames() string {
	var names []string
	for _, s := range config.Strategies() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
