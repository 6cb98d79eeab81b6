// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/report"
	"tidegate/internal/lab/soak"
)

func newSoakCmd() *cobra.Command {
	o := soak.DefaultOptions()
	rate, dir, asJSON := o.Base.Rate.String(), "", false
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Flood a host for minutes while it is reloaded, restarted and killed",
		Long: `Flood a host at this machine's highest rate while its gate is reloaded,
restarted, killed and given new secrets, and its keys rotate every second. It
passes if every request is served, as without the flood, and memory does not
grow. Needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Base.Rate, err = load.ParseRate(rate); err != nil {
				return cli.UsageErrorf("--rate: %v", err)
			}
			if err := o.Validate(); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			o.Base.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			r, err := soak.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			err = output(cmd.OutOrStdout(), r, asJSON)
			if dir != "" {
				err = errors.Join(err, report.WriteSoak(dir, r))
				fmt.Fprintf(cmd.ErrOrStderr(), "plot: %s\n", filepath.Join(dir, report.SoakPlotFile))
			}
			if !r.Passed() {
				err = errors.Join(err, fmt.Errorf("the soak has failed: %s", r.Failures[0]))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&rate, "rate", rate, "flood in SYNs per second: 0, 50000, 50k, 1.5M or max")
	f.DurationVar(&o.Base.Duration, "duration", o.Base.Duration, "how long clients make requests under the flood")
	f.DurationVar(&o.Every, "every", o.Every, "time from one change to the next")
	f.Float64Var(&o.Base.Load, "load", o.Base.Load, "legitimate requests per second, all clients together")
	f.IntVar(&o.Base.Clients, "clients", o.Base.Clients, "number of clients (source addresses)")
	f.DurationVar(&o.Base.Timeout, "timeout", o.Base.Timeout, "timeout of a request, from the time it was due")
	f.BoolVar(&o.Base.IPv6, "ipv6", false, "attack and clients use IPv6")
	f.StringVar(&dir, "out", dir, "folder for soak.svg, a plot of memory over time, and results.json; empty: none")
	jsonFlag(f, &asJSON)
	return cmd
}
