// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/fleet"
)

func (f *fleetCmd) statusCmd() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{Use: "status", Short: "Show every node: revision, modes, clock, keys, what degrades it", Args: cobra.NoArgs,
		Long: `Show every node that reported in the last 24 hours. A clock that differs, a secret that most others do not have, a refused revision and
missing reports are named, and a roll-out that is not finished. The exit code is 1 if there is any of these, or a node is degraded.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.withReports(cmd, func(now fleet.Revision, nodes []fleet.Node) error {
				wrong := fleet.Wrong(now, nodes)
				if asJSON {
					if err := cli.WriteJSON(cmd.OutOrStdout(), map[string]any{"revision": now.Number, "unfinished": now.Unfinished(), "error": now.Error, "nodes": nodes, "wrong": wrong}); err != nil {
						return err
					}
				} else if err := printNodes(cmd.OutOrStdout(), now, nodes, wrong); err != nil {
					return err
				}
				if len(wrong) == 0 && now.Unfinished() != "" {
					return errors.New("a roll-out is not finished")
				}
				if len(wrong) > 0 {
					return fmt.Errorf("%d of %d nodes need attention", len(wrong), len(nodes))
				}
				return nil
			})
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	return cmd
}

func printNodes(w io.Writer, now fleet.Revision, nodes []fleet.Node, wrong map[string][]string) error {
	fmt.Fprintf(w, "desired: revision %d by %s\n", now.Number, fleet.Printable(now.By))
	if now.Desired.Secret != nil {
		fmt.Fprintf(w, "next secret: %v\n", now.Desired.Secret)
	}
	for _, line := range []string{now.Unfinished(), now.Error} {
		if line != "" {
			fmt.Fprintln(w, fleet.Printable(line))
		}
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tVERSION\tROLE\tREVISION\tMODES\tATTACKS\tCLOCK\tKEY\tREPORTED\tATTENTION")
	for _, n := range nodes {
		var modes []string
		for service, mode := range n.Modes {
			modes = append(modes, service+"="+string(mode))
		}
		slices.Sort(modes)
		var attacks []string
		for _, service := range slices.Sorted(maps.Keys(n.Attacks)) {
			attacks = append(attacks, service+": "+n.Attacks[service])
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%+.1fs\t%s\t%s ago\t%s\n", n.Report.Node, n.Version, n.Role, n.Revision, strings.Join(modes, " "), strings.Join(attacks, "; "), n.Skew.Seconds(), n.Key,
			time.Since(n.Received).Round(time.Second), strings.Join(wrong[n.Report.Node], "; "))
	}
	return t.Flush()
}
