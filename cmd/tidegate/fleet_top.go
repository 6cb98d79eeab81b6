// SPDX-License-Identifier: Apache-2.0

package main

import (
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
30 seconds, and the services that are attacked. A source that is within the limit of each node is named if it is
above fleet_limits of the desired state, which holds for all nodes together. Each line names the nodes that report the source: before you deny a source because of
one, look at that node.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withReports(cmd, func(now fleet.Revision, nodes []fleet.Node) error {
				top := fleet.TopOf(nodes, now.Desired.Fleet)
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
	if top.Limit > 0 {
		fmt.Fprintf(t, "SOURCE\tABOVE %d/s AT ALL NODES\tAT\n", top.Limit)
		for _, s := range top.Above[:min(max(0, most), len(top.Above))] {
			fmt.Fprintf(t, "%s\t%.1f/s to %.1f/s\t%s\n", s.Prefix, s.AtLeast, s.AtMost, someOf(s.Nodes))
		}
		fmt.Fprintln(t)
	}
	fmt.Fprintln(t, "SOURCE\tABOVE ITS LIMIT\tAT")
	for _, o := range top.Offenders[:min(max(0, most), len(top.Offenders))] {
		fmt.Fprintf(t, "%s\t%.1f/s\t%s\n", o.Prefix, o.PerSecond, someOf(o.Nodes))
	}
	return t.Flush()
}

// someOf names the first nodes.
func someOf(names []string) string {
	if more := len(names) - nodesNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:nodesNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
