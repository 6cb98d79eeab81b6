// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/fleet"
)

func (f *fleetCmd) offersCmd() *cobra.Command {
	r := &rollout{}
	asJSON, apply := false, false
	cmd := &cobra.Command{Use: "offers", Short: "Show what servers offer in SYN-ACKs, and have edges offer the same", Args: cobra.NoArgs,
		Long: `Show what the kernel of each server offers for each service: MSS over IPv4 and IPv6, window scale, window, SACK, timestamps and ECN, of its listeners,
buffers and sysctls. With --apply the least of them becomes part of the desired state: edges announce just that, and servers adopt with that window
scale. What the configuration of an edge sets by hand (mss, wscale, window, offers) stays as it is. A server in the wrong hands cannot change what edges
say: nothing is applied until an operator does so.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if apply {
				return f.change(cmd, r, "what servers offer", func(d *fleet.Desired) error { return f.takeOffers(cmd, d) })
			}
			return f.withReports(cmd, func(now fleet.Revision, nodes []fleet.Node) error {
				list := fleet.OffersOf(&now, nodes)
				if asJSON {
					return cli.WriteJSON(cmd.OutOrStdout(), list)
				}
				return printOffers(cmd.OutOrStdout(), list)
			})
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON array on stdout")
	cmd.Flags().BoolVar(&apply, "apply", false, "have edges offer what all servers of a service can keep")
	cmd.Flags().DurationVar(&r.timeout, "timeout", 30*time.Second, "wait for the nodes for this `DURATION`")
	cmd.MarkFlagsMutuallyExclusive("json", "apply")
	return cmd
}

// takeOffers puts what all servers can keep into a desired state.
func (f *fleetCmd) takeOffers(cmd *cobra.Command, d *fleet.Desired) error {
	return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
		ctx, cancel := context.WithTimeout(ctx, fleetServerTime)
		defer cancel()
		nodes, err := o.Nodes(ctx)
		if err != nil {
			return err
		}
		list := fleet.OffersOf(&fleet.Revision{Desired: *d}, nodes)
		if len(list) == 0 {
			return errors.New("no server of this fleet reports what it offers: `role: server` with takeover adopt or auto does, of this version or a later one")
		}
		if d.Offers = maps.Clone(d.Offers); d.Offers == nil {
			d.Offers = config.Offers{}
		}
		for _, s := range list {
			d.Offers[s.Service] = s.Least
		}
		return nil
	})
}

func printOffers(w io.Writer, list []fleet.ServiceOffer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tBY\tOFFERS")
	stale := false
	for _, s := range list {
		for _, node := range slices.Sorted(maps.Keys(s.Nodes)) {
			fmt.Fprintf(t, "%s\t%s\t%v\n", s.Service, node, s.Nodes[node])
		}
		edges := "as configured"
		if s.Desired != nil {
			edges = s.Desired.String()
		}
		fmt.Fprintf(t, "%s\tedges\t%s\n", s.Service, edges)
		stale = stale || !s.InForce()
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if stale {
		fmt.Fprintln(w, "\nedges can offer what all servers do: `tidegate fleet offers --apply`")
	}
	return nil
}
