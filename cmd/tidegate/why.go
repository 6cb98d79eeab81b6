// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
	"tidegate/internal/why"
)

func newWhyCmd() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why SRC [DST:PORT]",
		Short: "Explain what would happen to a SYN now, and why",
		Long: `Explain, step by step, what a running instance would do now with a SYN from SRC (ADDRESS or ADDRESS:PORT) to DST:PORT, by default the first
service. The installed program decides about such a SYN on its own tables, so the decision is the real one; the SYN is never sent and not counted.`,
		Example: "  tidegate why 192.0.2.7\n  tidegate why 192.0.2.7:5555 198.51.100.1:443\n  tidegate why 2001:db8::7 '[2001:db8::1]:443' --json",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"src": {args[0]}}
			if len(args) == 2 {
				query.Set("dst", args[1])
			}
			var a why.Answer
			if err := api.NewClient(stateDir, name).Do(cmd.Context(), http.MethodGet, "/v1/why?"+query.Encode(), nil, &a); err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), a)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "SYN from %s to %s\n", a.Src, a.Dst)
			for _, s := range a.Steps {
				fmt.Fprintf(cmd.OutOrStdout(), "  %-10s %s\n", s.Name, s.Text)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	return cmd
}
