// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/fleets"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/report"
)

func newFleetCmd() *cobra.Command {
	o, s := fleets.DefaultOptions(), fleets.DefaultSimulateOptions()
	simulate, asJSON, rate, dir := 0, false, o.Rate.String(), ""
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Put a fleet of gates to the test: who knows what when",
		Long: `Build gates (role host), NATS servers with TLS and the rights of docs/fleet.md, BGP routers and
clients from network namespaces. A desired state is applied, a flood begins, spread over all gates, a
NATS server is killed, a gate is upgraded, and the flood ends, while clients make requests all the
time. Prints when the first, the median and the last node knew of each; passes if all did and every
request was served. Needs root, and tidegate-bgp beside tidegate.

With --simulate, let so many nodes without a packet path follow and report to a cluster of three
NATS servers on the loopback interface; then a new revision, and a server's death. Nodes and servers
share this machine's processors. Needs no root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx, stop := labContext(cmd)
			defer stop()
			if cmd.Flags().Changed("simulate") {
				s.Nodes, s.Progress = simulate, progressTo(cmd.ErrOrStderr())
				return runSimulation(ctx, cmd, s, asJSON)
			}
			if o.Rate, err = load.ParseRate(rate); err != nil {
				return cli.UsageErrorf("--rate: %v", err)
			}
			if err := o.Validate(); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			r, err := fleets.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			err = output(cmd.OutOrStdout(), r, asJSON)
			if dir != "" {
				err = errors.Join(err, report.WriteFleet(dir, r))
				fmt.Fprintf(cmd.ErrOrStderr(), "plot: %s\n", filepath.Join(dir, report.FleetPlotFile))
			}
			if !r.Passed() {
				err = errors.Join(err, errors.New("somebody did not learn of an event in time, or a request was not served"))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Gates, "gates", o.Gates, "number of gates")
	f.IntVar(&o.Servers, "servers", o.Servers, "number of NATS servers: 1 or 3")
	f.IntVar(&o.Routers, "routers", o.Routers, "number of BGP routers, with which the first two gates speak")
	f.StringVar(&rate, "rate", rate, "flood in SYNs per second, all gates together")
	f.DurationVar(&o.Every, "every", o.Every, "time between two requests to the same gate")
	f.DurationVar(&o.Calm, "calm", o.Calm, "calm period of the gates' detectors")
	f.StringVar(&dir, "out", dir, "folder for fleet.svg, a plot of who knew what when, and results.json; empty: none")
	f.IntVar(&simulate, "simulate", 0, "`NODES` without a packet path, instead of gates")
	f.IntVar(&s.Connections, "connections", 0, "with --simulate: let all nodes report over so many connections of one account; 0: each has its own connection, certificate and account")
	f.Float64Var(&s.Ramp, "ramp", s.Ramp, "with --simulate: nodes that join each second")
	f.DurationVar(&s.Steady, "steady", s.Steady, "with --simulate: how long reports alone are measured")
	f.DurationVar(&s.Timeout, "timeout", s.Timeout, "with --simulate: how long each phase may take")
	jsonFlag(f, &asJSON)
	return cmd
}

func runSimulation(ctx context.Context, cmd *cobra.Command, s fleets.SimulateOptions, asJSON bool) error {
	if s.Nodes < 1 || s.Nodes > 50_000 {
		return cli.UsageErrorf("--simulate %d: want 1 to 50000 nodes", s.Nodes)
	}
	if s.Connections < 0 || s.Connections > s.Nodes {
		return cli.UsageErrorf("--connections %d: want 0 to the number of nodes", s.Connections)
	}
	if s.Ramp <= 0 {
		return cli.UsageErrorf("--ramp %g: want a number of nodes a second above 0", s.Ramp)
	}
	r, err := fleets.Simulate(ctx, s)
	if r != nil && ctx.Err() == nil { // where it breaks is a result, too
		err = errors.Join(output(cmd.OutOrStdout(), r, asJSON), err)
	}
	return interrupted(ctx, err)
}

// newFleetChildCmd is a server or a router of the lab's fleets.
func newFleetChildCmd(name string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, RunE: func(_ *cobra.Command, args []string) error { return fleets.Children[name](args) }}
}
