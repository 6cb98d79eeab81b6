// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/report"
	"tidegate/internal/lab/trial"
)

func newConnectCmd() *cobra.Command {
	o := trial.DefaultConnectOptions()
	rate, dir, asJSON := o.Base.Rate.String(), "connect-time", false
	cmd := &cobra.Command{
		Use:   "connect-time",
		Short: "Measure how long connect() takes under a flood, with each defence",
		Long: `Make connections to a flooded server behind one defence after the other, and
show how long connect() took: quantiles, and the whole distribution as a plot.
Needs root, and takes about two minutes.`,
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
			t, runErr := trial.RunConnectTimes(ctx, o)
			if t == nil {
				return interrupted(ctx, runErr)
			}
			err = output(cmd.OutOrStdout(), t, asJSON)
			if dir != "" {
				err = errors.Join(err, report.WriteConnect(dir, t))
				if err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "report: %s\n", filepath.Join(dir, report.PageFile))
				}
			}
			return errors.Join(runErr, err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Connections, "connections", o.Connections, "number of connections for each defence")
	f.StringVar(&rate, "rate", rate, "flood in SYNs per second: 0, 50000, 50k, 1.5M or max")
	f.Float64Var(&o.Base.Load, "load", o.Base.Load, "connections begun each second")
	f.DurationVar(&o.Base.Timeout, "timeout", o.Base.Timeout, "time after which a connection is given up")
	f.BoolVar(&o.Base.IPv6, "ipv6", false, "flood and clients use IPv6")
	f.StringArrayVar(&o.Curves, "curve", nil, "only this curve; can be repeated: "+strings.Join(trial.ConnectCurves(), "; "))
	f.StringVar(&o.Plane, "plane", o.Plane, "plane of the proxy's curves: xdp or dpdk")
	f.StringVar(&dir, "out", dir, "folder for report.html, connect-time.svg and results.json; empty: none")
	jsonFlag(f, &asJSON)
	return cmd
}
