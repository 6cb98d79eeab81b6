// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tidegate/internal/bench"
)

func runEdgeBench(ctx context.Context, cmd *cobra.Command, opt bench.Options, asJSON bool) error {
	opt.Progress = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
	}
	res, err := bench.RunEdge(ctx, opt)
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
