// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
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
		Short: "Measure what the gate costs, beside yardsticks, in one run",
		Long: `Measures the cost of a SYN and of an established flow's packets, goodput, and
the SYNs one core absorbs, beside an empty program, a drop, a plain reflection,
the kernel's SYN cookies and nftables SYNPROXY, in namespaces of its own.
Needs root and an otherwise idle machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.Rounds < 1 || opt.Frames < 1000 {
				return cli.UsageErrorf("--rounds must be at least 1 and --frames at least 1000")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if opt.Only != "" && (role != config.RoleProxy || !slices.Contains(bench.ProxyParts(), opt.Only)) {
				return cli.UsageErrorf("--only %q: want one of %s, with --role proxy", opt.Only, strings.Join(bench.ProxyParts(), ", "))
			}
			if role == config.RoleProxy {
				return runProxyBench(ctx, cmd, opt, asJSON)
			}
			if role == config.RoleEdge {
				return runEdgeBench(ctx, cmd, opt, asJSON)
			}
			if role == roleTerminus {
				return runTerminusBench(ctx, cmd, terminus, opt, asJSON)
			}
			if role == roleDPDK {
				return runDPDKBench(ctx, cmd, opt, asJSON, plots)
			}
			if role != config.RoleHost {
				return cli.UsageErrorf("--role %q: want host, proxy, edge, terminus or dpdk", role)
			}
			return runBench(ctx, cmd, opt, asJSON)
		},
	}
	cmd.Flags().StringVar(&role, "role", role, "whose cost: host, proxy, edge (with the server's last line), terminus (patrol and managers), dpdk (a proxy on DPDK, in memory; needs no root)")
	cmd.Flags().StringVar(&plots, "plots", "", "with --role dpdk: draw figures into this `DIRECTORY`, as SVG")
	cmd.Flags().IntVar(&opt.Rounds, "rounds", opt.Rounds, "how often each program is measured")
	cmd.Flags().IntVar(&opt.Frames, "frames", opt.Frames, "SYNs for each program and round")
	cmd.Flags().StringVar(&opt.Only, "only", "", "with --role proxy: one group of figures: "+strings.Join(bench.ProxyParts(), ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	cmd.Flags().IntVar(&terminus.MaxFilters, "filters", terminus.MaxFilters, "terminus: most filters in the patrol's table (100,000 or more)")
	cmd.Flags().IntVar(&terminus.Requests, "requests", terminus.Requests, "terminus: requests for each control-plane figure")
	cmd.AddCommand(newBenchPartCmd())
	return cmd
}

func runBench(ctx context.Context, cmd *cobra.Command, opt bench.Options, asJSON bool) error {
	opt.Progress = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}
	res, err := bench.Run(ctx, opt)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(res)
	}
	return res.Print(cmd.OutOrStdout())
}

func runProxyBench(ctx context.Context, cmd *cobra.Command, opt bench.Options, asJSON bool) error {
	opt.Progress = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}
	res, err := bench.RunProxy(ctx, opt)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(res)
	}
	return res.Print(cmd.OutOrStdout())
}
