// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tidegate/internal/bench"
	"tidegate/internal/cli"
	"tidegate/internal/config"
)

func newBenchCmd() *cobra.Command {
	opt := bench.DefaultOptions()
	var asJSON bool
	terminus := bench.TerminusOptions{MaxFilters: 10_000_000, Requests: 500_000}
	var plots string
	role := config.RoleHost
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the gate costs, together with baselines, in one run",
		Long: `Measure the cost of a SYN and of an established flow's packets, goodput, and
the SYNs one core absorbs, in comparison with an empty program, a drop, a plain
reflection, the kernel's SYN cookies and nftables SYNPROXY, in private namespaces.
Needs root and an otherwise idle machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.Rounds < 1 || opt.Frames < 1000 {
				return cli.UsageErrorf("--rounds must be at least 1 and --frames at least 1000")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			parts := map[string][]string{config.RoleProxy: bench.ProxyParts(), roleTerminus: bench.TerminusParts()}
			if opt.Only != "" && !slices.Contains(parts[role], opt.Only) {
				return cli.UsageErrorf("--only %q: want one of %s, with --role proxy, or of %s, with --role terminus", opt.Only,
					strings.Join(parts[config.RoleProxy], ", "), strings.Join(parts[roleTerminus], ", "))
			}
			switch role {
			case config.RoleHost:
				return runBench(ctx, cmd, opt, asJSON, bench.Run)
			case config.RoleProxy:
				return runBench(ctx, cmd, opt, asJSON, bench.RunProxy)
			case config.RoleEdge:
				return runBench(ctx, cmd, opt, asJSON, bench.RunEdge)
			case roleTerminus:
				if terminus.MaxFilters < 100_000 || terminus.MaxFilters > 10_000_000 || terminus.Requests < 10_000 {
					return cli.UsageErrorf("--filters must be 100,000 to 10,000,000 and --requests at least 10,000")
				}
				return runBench(ctx, cmd, opt, asJSON, func(ctx context.Context, o bench.Options) (*bench.TerminusResult, error) {
					terminus.Options = o
					return bench.RunTerminus(ctx, terminus)
				})
			case roleDPDK:
				return runBench(ctx, cmd, opt, asJSON, func(ctx context.Context, o bench.Options) (*bench.DPDKResult, error) {
					res, err := bench.RunDPDK(ctx, o)
					if err == nil && plots != "" {
						err = res.Plots(plots)
					}
					return res, err
				})
			}
			return cli.UsageErrorf("--role %q: want host, proxy, edge, terminus or dpdk", role)
		},
	}
	cmd.Flags().StringVar(&role, "role", role, "role to measure: host, proxy, edge (with the server's final ACK check), terminus (patrol and managers), dpdk (a proxy on DPDK, in memory; needs no root)")
	cmd.Flags().StringVar(&plots, "plots", "", "with --role dpdk: write SVG plots to this `DIRECTORY`")
	cmd.Flags().IntVar(&opt.Rounds, "rounds", opt.Rounds, "number of measurements of each program")
	cmd.Flags().IntVar(&opt.Frames, "frames", opt.Frames, "SYNs for each program and round")
	cmd.Flags().StringVar(&opt.Only, "only", "", "one group of figures; with --role proxy: "+strings.Join(bench.ProxyParts(), ", ")+
		"; with --role terminus: "+strings.Join(bench.TerminusParts(), ", "))
	jsonFlag(cmd.Flags(), &asJSON)
	cmd.Flags().IntVar(&terminus.MaxFilters, "filters", terminus.MaxFilters, "terminus: maximum number of filters in the patrol's table (100,000 or more)")
	cmd.Flags().IntVar(&terminus.Requests, "requests", terminus.Requests, "terminus: requests for each control-plane figure")
	cmd.AddCommand(newBenchPartCmd(), newBenchSpeedCmd())
	return cmd
}

// Values of --role beside the roles of a machine: Terminus's three roles together, and a
// proxy on DPDK, which has a benchmark of its own.
const (
	roleTerminus = "terminus"
	roleDPDK     = "dpdk"
)

// newBenchPartCmd is the process that a control-plane measurement talks to.
func newBenchPartCmd() *cobra.Command {
	return &cobra.Command{
		Use: "_part", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RunTerminusPart(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
