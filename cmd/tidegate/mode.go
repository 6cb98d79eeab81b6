// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
)

// Commands that ask a running instance by its API.

const stateDir = "/run/tidegate"

func newModeCmd() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "mode [SERVICE [MODE | configured]]",
		Short: "Show or set the mode of a service, live",
		Long: `Without a service, show the modes of all. With a mode (off, monitor, auto, always), set it at once; it persists across
reloads and restarts of the daemon, whatever the configuration says. "configured" returns to the configured mode, as
does the next boot.`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := api.NewClient(stateDir, name)
			all := map[string]api.Mode{}
			if len(args) == 2 {
				path, method, body := "/v1/services/"+url.PathEscape(args[0])+"/mode", http.MethodPut, any(map[string]string{"mode": args[1]})
				if args[1] == "configured" {
					method, body = http.MethodDelete, nil
				}
				var m api.Mode
				if err := c.Do(cmd.Context(), method, path, body, &m); err != nil {
					return err
				}
				all[args[0]] = m
			} else if err := c.Do(cmd.Context(), http.MethodGet, "/v1/modes", nil, &all); err != nil {
				return err
			}
			if len(args) == 1 {
				m, there := all[args[0]]
				if !there {
					return fmt.Errorf("no service %q; `tidegate mode` lists them", args[0])
				}
				all = map[string]api.Mode{args[0]: m}
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), all)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "SERVICE\tMODE\tCONFIGURED\tSET BY HAND")
			for _, service := range slices.Sorted(maps.Keys(all)) {
				m := all[service]
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", service, m.Mode, m.Configured, map[bool]string{false: "no", true: "yes"}[m.ByHand])
			}
			return t.Flush()
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	return cmd
}

func newReloadCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running instance reload its configuration, and show the result",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var done struct{ Changed []string }
			if err := api.NewClient(stateDir, name).Do(cmd.Context(), http.MethodPost, "/v1/reload", nil, &done); err != nil {
				return fmt.Errorf("refused; the old configuration stays in force: %w", err)
			}
			what := "nothing has changed"
			if len(done.Changed) > 0 {
				what = "in force: " + strings.Join(done.Changed, ", ")
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), what)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	return cmd
}

func newConfigCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Compare configurations", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	var name string
	var asJSON bool
	diff := &cobra.Command{
		Use:   "diff",
		Short: "Show how the file of a running instance differs from what is in force",
		Long:  "Show what a reload would change, and what needs a restart. The exit code is 1 if there are differences.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []api.Change
			if err := api.NewClient(stateDir, name).Do(cmd.Context(), http.MethodGet, "/v1/config/diff", nil, &list); err != nil {
				return err
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), list)
			}
			if len(list) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no difference")
				return err
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "FIELD\tRUNNING\tFILE\tBY")
			for _, c := range list {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Name, c.Running, c.File, map[bool]string{false: "restart", true: "reload"}[c.Live])
			}
			if err := t.Flush(); err != nil {
				return err
			}
			return fmt.Errorf("%d differences", len(list))
		},
	}
	diff.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	diff.Flags().BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	cmd.AddCommand(diff)
	return cmd
}

func newEventsCmd() *cobra.Command {
	var name string
	var follow, asJSON bool
	var after uint64
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the latest events of a running instance, or follow them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			path := fmt.Sprintf("/v1/events?after=%d", after)
			if follow {
				path += "&follow=1"
			}
			return api.NewClient(stateDir, name).Lines(ctx, path, func(line json.RawMessage) error {
				if asJSON {
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
					return err
				}
				return printEvent(cmd.OutOrStdout(), line)
			})
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show new events until Ctrl-C")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one line of JSON per event")
	cmd.Flags().Uint64Var(&after, "after", 0, "only events with a larger number than `N`")
	return cmd
}
