// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tidegate/internal/binding/sim"
	"tidegate/internal/cli"
)

func newBindingsCmd() *cobra.Command {
	o := sim.DefaultOptions()
	hostile := []float64{0, 0.2}
	var asJSON bool
	linkMbit := o.LinkRate / 1e6
	cmd := &cobra.Command{
		Use:   "bindings",
		Short: "Measure how fast signed bindings reach every manager, in virtual time (no root)",
		Long: `Run the real flood engine and store of many managers in one process over a
virtual network: a cold start in which each manager knows only its own bindings,
then nine updates and a revocation; with honest managers only, and with hostile
ones among them: liars, replayers, withholders and flooders. docs/bindings.md
explains what is virtual and what is real. 80,000 bindings over 200 managers take
several minutes and 3 GiB. The exit code is 1 if something did not reach every
honest manager.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.LinkRate = linkMbit * 1e6
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			var list []*sim.Result
			ok := true
			for _, o.Hostile = range hostile {
				if err := o.Validate(); err != nil {
					return cli.UsageErrorf("%v", err)
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%.0f %% hostile managers\n", 100*o.Hostile)
				res, err := sim.Run(ctx, o)
				if err != nil {
					return err
				}
				list, ok = append(list, res), ok && res.OK()
			}
			var err error
			if asJSON {
				err = cli.WriteJSON(cmd.OutOrStdout(), list)
			} else {
				err = sim.Print(cmd.OutOrStdout(), list)
			}
			if err == nil && !ok {
				return cli.ErrSilent
			}
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Managers, "managers", o.Managers, "number of managers, including hostile ones")
	f.IntVar(&o.Bindings, "bindings", o.Bindings, "number of bindings, not including authorities")
	f.IntVar(&o.Degree, "degree", o.Degree, "average number of links per manager")
	f.DurationVar(&o.Delay, "delay", o.Delay, "one-way delay of a link")
	f.Float64Var(&linkMbit, "link-mbit", linkMbit, "rate of a link, Mbit/s each way")
	f.Float64SliceVar(&hostile, "hostile", hostile, "share of hostile managers; one simulation for each value")
	f.DurationVar(&o.VerifyCost, "verify", o.VerifyCost, "virtual time that a manager needs to verify a signature")
	f.DurationVar(&o.Limit, "limit", o.Limit, "virtual time after which a cold start is given up")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of all random numbers")
	f.BoolVar(&asJSON, "json", false, "write one JSON array")
	return cmd
}
