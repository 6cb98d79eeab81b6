// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
	"tidegate/internal/sourcelist"
)

// newListCmd is `tidegate allow` or `tidegate deny`.
func newListCmd(v sourcelist.Verdict, short, long string) *cobra.Command {
	var name, until string
	var entry = api.ListEntry{Verdict: v}
	var last time.Duration
	cmd := &cobra.Command{
		Use:   v.String() + " PREFIX",
		Short: short,
		Long:  long,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			entry.Prefix = args[0]
			var err error
			if entry.Until, err = expiry(last, until); err != nil {
				return err
			}
			var done api.ListEntry
			if err := api.NewClient(stateDir, name).Do(cmd.Context(), http.MethodPost, "/v1/lists", entry, &done); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s%s\n", done.Verdict, done.Prefix, untilText(done.Until))
			return err
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().DurationVar(&last, "for", 0, "expire after this `DURATION`")
	cmd.Flags().StringVar(&until, "until", "", "expire at this `TIME` (RFC 3339)")
	cmd.Flags().StringVar(&entry.Comment, "comment", "", "`TEXT` that `tidegate lists` and `tidegate why` show")
	return cmd
}

func untilText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " until " + t.UTC().Format(time.RFC3339)
}

func newAllowCmd() *cobra.Command {
	return newListCmd(sourcelist.Allow, "Make an exception from a wider denied prefix, live",
		`Lift a wider denial for a prefix. Such sources are then treated like all others: their SYNs are answered with
cookies. The entry persists across reloads and restarts of the daemon, until it expires, is removed (`+"`tidegate lists remove`"+`) or the
machine reboots. For entries that outlast that, use allow_list of the configuration.`)
}

func newDenyCmd() *cobra.Command {
	return newListCmd(sourcelist.Deny, "Drop the SYNs of a prefix to all services, live",
		`Drop SYNs from a prefix to any service whose mode is not off. Connections that exist continue. The longest prefix
decides, and of equal ones that which denies. The entry persists across reloads and restarts of the daemon, until it expires, is
removed (`+"`tidegate lists remove`"+`) or the machine reboots. For entries that outlast that, use deny_list of the configuration.`)
}

func newListsCmd() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lists",
		Short: "Show the prefixes that were allowed or denied by hand",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []api.ListEntry{}
			if err := api.NewClient(stateDir, name).Do(cmd.Context(), http.MethodGet, "/v1/lists", nil, &all); err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), all)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "VERDICT\tPREFIX\tUNTIL\tCOMMENT")
			for _, e := range all {
				until := "removed"
				if e.Until != nil {
					until = e.Until.UTC().Format(time.RFC3339)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", e.Verdict, e.Prefix, until, e.Comment)
			}
			return t.Flush()
		},
	}
	remove := &cobra.Command{
		Use:   "remove PREFIX",
		Short: "Remove a prefix that was allowed or denied by hand, live",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return api.NewClient(stateDir, name).Do(cmd.Context(), http.MethodDelete, "/v1/lists?prefix="+url.QueryEscape(args[0]), nil, nil)
		},
	}
	cmd.PersistentFlags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON array on stdout")
	cmd.AddCommand(remove)
	return cmd
}
