// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
	"tidegate/internal/routers"
)

func newBGPCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{Use: "bgp", Short: "Show, announce and withdraw routes by which routers discard traffic",
		Long: `Show the BGP sessions and routes of an instance (docs/routers.md), and announce or withdraw routes by hand:

  source PREFIX        routers discard what comes from PREFIX (source RTBH, RFC 5635); many also discard what goes there
  flow PREFIX TO       routers discard TCP from PREFIX to TO (FlowSpec, RFC 8955)
  destination PREFIX   routers discard ALL traffic to PREFIX, which is yours: that of legitimate clients, too. The attack on it has then
                       succeeded; what is gained is that your links and other services survive

Routes end when they expire, are withdrawn, or the instance's process ends.`}
	cmd.PersistentFlags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.AddCommand(newBGPListCmd(&name), newBGPAnnounceCmd(&name), newBGPWithdrawCmd(&name))
	return cmd
}

// bgpRoute reads KIND PREFIX [TO].
func bgpRoute(args []string) (r api.BGPRoute, err error) {
	r = api.BGPRoute{Kind: routers.Kind(args[0]), Prefix: args[1]}
	switch {
	case r.Kind == routers.Flow && len(args) == 3:
		r.To = args[2]
	case r.Kind == routers.Flow:
		err = cli.UsageErrorf("flow needs two prefixes: from, and to")
	case r.Kind != routers.Source && r.Kind != routers.Destination:
		err = cli.UsageErrorf("%q is not known; use source, flow or destination", args[0])
	case len(args) == 3:
		err = cli.UsageErrorf("%s has one prefix", args[0])
	}
	return r, err
}

func newBGPAnnounceCmd(name *string) *cobra.Command {
	var last time.Duration
	var why string
	cmd := &cobra.Command{Use: "announce source|flow|destination PREFIX [TO]", Short: "Ask routers to discard traffic", Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := bgpRoute(args)
			if err != nil {
				return err
			}
			if r.Why = why; last < 0 {
				return cli.UsageErrorf("--for %s: want a duration such as 30m", last)
			} else if last > 0 {
				until := time.Now().Add(last)
				r.Until = &until
			}
			var done routers.Announcement
			if err := api.NewClient(stateDir, *name).Do(cmd.Context(), http.MethodPost, "/v1/bgp", r, &done); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "announced %s until %s\n", done.Route, done.Until.UTC().Format(time.RFC3339))
			if r.Kind == routers.Destination {
				fmt.Fprintf(cmd.OutOrStdout(), "routers now discard all traffic to %s, that of legitimate clients, too\n", done.Prefix)
			}
			return nil
		}}
	cmd.Flags().DurationVar(&last, "for", 0, "expire after this `DURATION`; without it, after bgp.expires")
	cmd.Flags().StringVar(&why, "why", "", "`TEXT` for the list and the events")
	return cmd
}

func newBGPWithdrawCmd(name *string) *cobra.Command {
	return &cobra.Command{Use: "withdraw source|flow|destination PREFIX [TO]", Short: "Withdraw a route; an offender's does not come back for an hour",
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := bgpRoute(args)
			if err != nil {
				return err
			}
			q := url.Values{"kind": {string(r.Kind)}, "prefix": {r.Prefix}}
			if r.To != "" {
				q.Set("to", r.To)
			}
			var done routers.Announcement
			if err := api.NewClient(stateDir, *name).Do(cmd.Context(), http.MethodDelete, "/v1/bgp?"+q.Encode(), nil, &done); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "withdrawn: %s\n", done.Route)
			return err
		}}
}

func newBGPListCmd(name *string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "Show sessions and routes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s routers.State
			if err := api.NewClient(stateDir, *name).Do(cmd.Context(), http.MethodGet, "/v1/bgp", nil, &s); err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), s)
			}
			return printBGP(cmd.OutOrStdout(), &s)
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	return cmd
}

func printBGP(w io.Writer, s *routers.State) error {
	if !s.Running {
		fmt.Fprintln(w, "tidegate-bgp DOES NOT RUN: nothing is announced; it is started again, see the log")
	}
	if s.Error != "" {
		fmt.Fprintf(w, "A ROUTE CANNOT BE ANNOUNCED: %s\n", s.Error)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PEER\tAS\tSESSION\tSINCE\tWENT DOWN")
	for _, p := range s.Sessions {
		since := "-"
		if !p.Since.IsZero() {
			since = p.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\n", p.Address, p.AS, p.State, since, p.Flaps)
	}
	if v := s.Service; v != nil {
		how := "announced"
		if !v.Announced {
			how = "NOT announced: " + v.Why
		}
		fmt.Fprintf(t, "\nservices %v: %s\n", v.Prefixes, how)
	}
	if len(s.Routes) > 0 {
		fmt.Fprintln(t, "\nDISCARD\tPREFIX\tTO\tUNTIL\tBY\tWHY")
	}
	for _, r := range s.Routes {
		to, by := "-", "proof"
		if r.To.IsValid() {
			to = r.To.String()
		}
		if r.ByHand {
			by = "hand"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Kind, r.Prefix, to, r.Until.UTC().Format(time.RFC3339), by, r.Why)
	}
	return t.Flush()
}
