// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/terminus"
)

func newTerminusCmd() *cobra.Command {
	o, asJSON := terminus.Options{Topology: "all"}, false
	cmd := &cobra.Command{
		Use:   "terminus",
		Short: "Show attacks filtered near their source: providers, bots and a victim",
		Long: `Build internet providers from network namespaces, with real patrols, border
managers and a filter manager, and show the scenarios of the Terminus paper: a bot,
priority, the five ways of spoofing a client (III.C), reflection (III.D), and
the failure of every manager (III.E). Needs root; takes about a minute.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(terminus.Topologies(), o.Topology) {
				return cli.UsageErrorf("--topology %q: want %s", o.Topology, strings.Join(terminus.Topologies(), ", "))
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			rows, err := terminus.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			return printTerminus(cmd.OutOrStdout(), rows, asJSON)
		},
	}
	cmd.Flags().StringVar(&o.Topology, "topology", o.Topology, "fig2 (spoofing), fig3 (reflection), legacy (reflection, request over a legacy path) or all")
	cmd.Flags().BoolVar(&o.IPv6, "ipv6", false, "the same network over IPv6")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per scenario, as a list")
	return cmd
}

// printTerminus returns an error if a scenario did not end as the paper says.
func printTerminus(out io.Writer, rows []terminus.Row, asJSON bool) error {
	failed := false
	for _, r := range rows {
		failed = failed || !r.OK
	}
	if asJSON {
		if err := cli.WriteJSON(out, rows); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "scenario\tok\tfiltered after\tlegitimate\tobserved")
		for _, r := range rows {
			ok, after, legit := "yes", "-", "-"
			if !r.OK {
				ok = "NO"
			}
			if r.FilteredAfterS > 0 {
				after = fmt.Sprintf("%.2f s", r.FilteredAfterS)
			}
			if r.LegitSuccess >= 0 {
				legit = fmt.Sprintf("%.1f %%", 100*r.LegitSuccess)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Scenario, ok, after, legit, r.Observed)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if failed {
		return cli.ErrSilent
	}
	return nil
}
