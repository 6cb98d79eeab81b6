// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tidegate/internal/cli"
	"tidegate/internal/lab/overload"
)

func newOverloadCmd() *cobra.Command {
	o := overload.DefaultOptions()
	rates, asJSON := "", false
	cmd := &cobra.Command{
		Use:   "overload",
		Short: "The rate at which each defence stops serving, found by bisection",
		Long: `Give the victim a processor of its own behind a bounded queue, in which its
clients wait with the flood, and find the highest offered rate at which 99.9 % of
requests are served within a second. Needs root and two processors that have
nothing else to do; about 25 s for each defence.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Choose(rates); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			progress := progressTo(cmd.ErrOrStderr())
			o.Base.Progress = progress
			o.Done = func(d string, p overload.Point) {
				progress("%s", outcome(d, p))
			}
			ctx, stop := labContext(cmd)
			defer stop()
			r, runErr := overload.Run(ctx, o)
			if r == nil {
				return interrupted(ctx, runErr)
			}
			return errors.Join(output(cmd.OutOrStdout(), r, asJSON), runErr)
		},
	}
	overloadFlags(cmd.Flags(), &o, &rates)
	jsonFlag(cmd.Flags(), &asJSON)
	return cmd
}

// overloadFlags are those that demo has, too.
func overloadFlags(f *pflag.FlagSet, o *overload.Options, rates *string) {
	f.StringSliceVar(&o.Defences, "defences", o.Defences, "which, as --defence of flood has them")
	f.StringVar(&o.Base.Plane, "plane", o.Base.Plane, "of proxy-STRATEGY: xdp or dpdk")
	f.StringVar(rates, "rates", "", "floods in SYNs per second to measure beside those of the search, such as 50k,200k")
	f.IntVar(&o.Searches, "searches", o.Searches, "how often each capacity is searched for; 0: not at all")
	f.Float64Var(&o.Base.Load, "load", o.Base.Load, "legitimate requests per second, all clients together")
	f.DurationVar(&o.Base.Duration, "duration", o.Base.Duration, "how long clients come, at each rate")
	f.IntVar(&o.Base.Retries, "retries", o.Base.Retries, "try a request again that was reset, as browsers do")
	f.BoolVar(&o.Base.IPv6, "ipv6", false, "attack and clients use IPv6")
}
