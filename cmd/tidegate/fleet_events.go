// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/fleet"
)

func (f *fleetCmd) eventsCmd() *cobra.Command {
	var follow, asJSON bool
	var since time.Duration
	var only string
	cmd := &cobra.Command{Use: "events", Short: "Show the events of all nodes", Args: cobra.NoArgs,
		Long: `Show the events of all nodes, the oldest first. The servers keep them for 7 days, the newest 1,000 of each node.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(ctx context.Context, o *fleet.Operator) error {
				last := map[string]string{} // the newest of each node: one whose answer was lost is stored again
				return o.Events(ctx, time.Now().Add(-since), follow, func(e fleet.NodeEvent) error {
					var about struct{ ID string }
					readable := json.Unmarshal(e.Event, &about) == nil
					if only != "" && e.Node != only || readable && about.ID != "" && about.ID == last[e.Node] {
						return nil
					}
					last[e.Node] = about.ID
					out := cmd.OutOrStdout()
					if asJSON {
						line := map[string]any{"node": e.Node, "received": e.Received.UTC()}
						if readable {
							line["event"] = json.RawMessage(e.Event)
						} else {
							line["error"] = "it cannot be read"
						}
						return json.NewEncoder(out).Encode(line)
					}
					var text bytes.Buffer
					if !readable || printEvent(&text, e.Event) != nil {
						text.Reset()
						fmt.Fprintf(&text, "%s an event that cannot be read", e.Received.Local().Format(time.DateTime))
					}
					_, err := fmt.Fprintf(out, "%s %s\n", e.Node, fleet.Printable(strings.TrimSpace(text.String())))
					return err
				})
			})
		}}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with the events to come")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each line")
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "begin this `DURATION` ago")
	cmd.Flags().StringVar(&only, "node", "", "`NAME` of the only node to show")
	return cmd
}
