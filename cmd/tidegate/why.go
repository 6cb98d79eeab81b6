// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
	"tidegate/internal/why"
)

func newWhyCmd() *cobra.Command {
	var name string
	var asJSON bool
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "why SRC [DST:PORT]",
		Short: "Explain what would happen to a SYN now, and why; watch what happens to a client",
		Long: `Explain, step by step, what a running instance would do now with a SYN from SRC (ADDRESS or ADDRESS:PORT) to DST:PORT, by default the first
service. The installed program decides about such a SYN on its own tables, so the decision is the real one; the SYN is never sent and not counted.
Under plane: dpdk the program cannot be asked: what configuration, lists and detector decide is shown, and DST:PORT must be named.

With --watch, then show each packet from or to SRC that the gate decides about, as it happens, and how often each was decided. That is a capture (see tidegate
capture), for root; the gate keeps no record of what it decided before.`,
		Example: "  tidegate why 192.0.2.7\n  tidegate why 192.0.2.7:5555 198.51.100.1:443\n  tidegate why 2001:db8::7 '[2001:db8::1]:443' --json\n  tidegate why 192.0.2.7 --watch 30s",
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
			out := cmd.OutOrStdout()
			switch {
			case asJSON && duration == 0:
				return cli.WriteJSON(out, a)
			case asJSON:
				if err := json.NewEncoder(out).Encode(a); err != nil {
					return err
				}
			default:
				fmt.Fprintf(out, "SYN from %s to %s\n", a.Src, a.Dst)
				for _, s := range a.Steps {
					fmt.Fprintf(out, "  %-10s %s\n", s.Name, s.Text)
				}
			}
			if duration == 0 {
				return nil
			}
			port := uint16(0)
			if len(args) == 2 {
				port = a.Dst.Port()
			}
			return watchAndShow(cmd, name, a.Src.Addr(), port, duration, asJSON)
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout; with --watch one a line: the explanation, packets, their summary")
	cmd.Flags().DurationVar(&duration, "watch", 0, "then show for `TIME` what happens to packets from and to SRC")
	return cmd
}
