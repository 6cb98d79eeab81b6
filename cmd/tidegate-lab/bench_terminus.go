// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tidegate/internal/bench"
	"tidegate/internal/cli"
)

// roleTerminus is no role of a machine but the three of Terminus together.
const roleTerminus = "terminus"

func runTerminusBench(ctx context.Context, cmd *cobra.Command, o bench.TerminusOptions, opt bench.Options, asJSON bool) error {
	if o.MaxFilters < 100_000 || o.MaxFilters > 10_000_000 || o.Requests < 10_000 {
		return cli.UsageErrorf("--filters must be 100,000 to 10,000,000 and --requests at least 10,000")
	}
	opt.Progress = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}
	o.Options = opt
	res, err := bench.RunTerminus(ctx, o)
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

// newBenchPartCmd is the counterpart that a control-plane measurement speaks to.
func newBenchPartCmd() *cobra.Command {
	return &cobra.Command{
		Use: "_part", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RunTerminusPart(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
