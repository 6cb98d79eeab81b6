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
		Short: "Find the rate at which each defence stops serving, by bisection",
		Long: `Give the victim its own processor behind a bounded queue, which its clients
share with the flood, and find the highest offered rate at which 99.9 % of
requests are served within a second. Needs root and two otherwise idle
processors; takes about 25 s for each defence.`,
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
	cmd.Flags().DurationVar(&o.OneClientFor, "one-client", 0, "also count the connections that a single client makes in this time, one after the other, without a flood and at each of --rates; 0: do not")
	jsonFlag(cmd.Flags(), &asJSON)
	return cmd
}

// overloadFlags registers the flags that overload and demo share.
func overloadFlags(f *pflag.FlagSet, o *overload.Options, rates *string) {
	f.StringSliceVar(&o.Defences, "defences", o.Defences, "defences to measure, as for flood --defence")
	f.StringVar(&o.Base.Plane, "plane", o.Base.Plane, "plane of proxy-STRATEGY: xdp or dpdk")
	f.StringVar(rates, "rates", "", "rates, in SYNs per second, to measure in addition to the search, for example 50k,200k")
	f.IntVar(&o.Searches, "searches", o.Searches, "number of searches for each capacity; 0: none")
	f.IntVar(&o.Queue, "queue", o.Queue, "places of the victim's receive queue: 256, the ring of a veth, to 8192, as a NIC's")
	f.Float64Var(&o.Base.Load, "load", o.Base.Load, "legitimate requests per second, all clients together")
	f.DurationVar(&o.Base.Duration, "duration", o.Base.Duration, "how long clients make requests, at each rate")
	f.IntVar(&o.Base.Retries, "retries", o.Base.Retries, "how often to retry a request that was reset, as browsers do")
	f.BoolVar(&o.KernelClients, "kernel-clients", false, "clients are processes with sockets, instead of frames within the flood")
	f.BoolVar(&o.Base.Alone, "alone", o.Base.Alone, "keep all other processes of this machine off the victim's processor, and let them back at the end")
	f.BoolVar(&o.Base.IPv6, "ipv6", false, "attack and clients use IPv6")
}
