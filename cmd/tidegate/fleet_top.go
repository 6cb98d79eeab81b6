// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/fleet"
)

func (f *fleetCmd) topCmd() *cobra.Command {
	asJSON, most := false, 20
	cmd := &cobra.Command{Use: "top", Short: "Show the sources that are most above their limits at all nodes together, and attacked services", Args: cobra.NoArgs,
		Long: `Show the sources that begin more connections than source_limits allows, by handshakes that cookies have proven, added over all nodes that have reported in the last
30 seconds, and the services that are attacked. A source within the limit of each node is not among them. Each line names the nodes that report the source: before you deny a source because of
one, look at that node.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				ctx, cancel := context.WithTimeout(ctx, fleetServerTime)
				defer cancel()
				nodes, err := o.Nodes(ctx)
				if err != nil {
					return err
				}
				top := fleet.TopOf(nodes)
				if asJSON {
					return cli.WriteJSON(cmd.OutOrStdout(), top)
				}
				return printFleetTop(cmd.OutOrStdout(), &top, most)
			})
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout, with all sources")
	cmd.Flags().IntVar(&most, "most", most, "`NUMBER` of sources to show")
	return cmd
}

// nodesNamed bounds a line.
const nodesNamed = 5

func printFleetTop(w io.Writer, top *fleet.Top, most int) error {
	fmt.Fprintf(w, "%d nodes have reported\n\n", top.Nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(top.Attacks) > 0 {
		fmt.Fprintln(t, "ATTACKED\tAT\tBY THE WORD OF")
	}
	for _, a := range top.Attacks {
		for _, node := range slices.Sorted(maps.Keys(a.Nodes)) {
			fmt.Fprintf(t, "%s\t%s\t%s\n", a.Service, node, a.Nodes[node])
		}
	}
	if len(top.Attacks) > 0 {
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, "SOURCE\tABOVE ITS LIMIT\tAT")
	for _, o := range top.Offenders[:min(max(0, most), len(top.Offenders))] {
		names, more := o.Nodes, ""
		if len(names) > nodesNamed {
			names, more = names[:nodesNamed], fmt.Sprintf(" and %d more", len(names)-nodesNamed)
		}
		fmt.Fprintf(t, "%s\t%.1f/s\t%s%s\n", o.Prefix, o.PerSecond, strings.Join(names, ", "), more)
	}
	return t.Flush()
}
