// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/p4"
	"tidegate/internal/status"
)

func newP4Cmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "p4",
		Short: "Control a switch that runs our P4 programs",
		Long: `Maintain the tables of a switch that runs one of our P4 programs (p4/, docs/p4.md):
keys of the coming epochs, services, the filter's generations.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newP4RunCmd())
	return cmd
}

func newP4RunCmd() *cobra.Command {
	var file string
	var every time.Duration
	var offset time.Duration
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Protect the services of a configuration on a switch until stopped",
		Long: `The former name of ` + "`tidegate run`" + ` for a switch. A FILE with plane: p4 is run as that does.
With a FILE in the former format, wait for the switch that it names, connect to it, and protect the services on it
until SIGINT or SIGTERM; then the switch forwards everything. If the process is killed, the
switch continues to protect until the last loaded key ends; a new process continues from
there. If the switch restarts, everything is loaded again.
SIGHUP reloads FILE. ` + "`tidegate status`" + ` shows the switch's counters.
The line "ready" is written to stdout once the services are protected, and with
--counters one line of JSON per interval.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return cli.UsageErrorf("p4 run needs -c FILE; docs/p4.md shows one")
			}
			if every < 0 {
				return cli.UsageErrorf("--counters %s: want a duration above zero", every)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if config.NamesPlane(data) {
				if every > 0 {
					return cli.UsageErrorf("--counters is of files in the former format; with plane: p4, `tidegate status --json` shows the counters")
				}
				return runRole(cmd, file, offset, 0, 0, 0)
			}
			cfg, err := p4.ParseFormer(file, data)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runP4(ctx, cmd, file, cfg, every, offset)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `FILE`")
	cmd.Flags().DurationVar(&every, "counters", 0, "print the counters as JSON each `DURATION`, and at the end")
	cmd.Flags().DurationVar(&offset, "clock-offset", 0, "for tests: run with the clock ahead by this `DURATION`")
	return cmd
}

// runP4 is for files in the former format of switches.
func runP4(ctx context.Context, cmd *cobra.Command, file string, cfg *p4.Config, every, offset time.Duration) error {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	secret, err := cfg.LoadSecrets()
	if err != nil {
		return err
	}
	defer secret.Zero()
	warnFormer(log, file)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	state, err := status.KeepP4(ctx, instance.Options{Log: log}, cfg)
	if err != nil {
		return err
	}
	defer state.Close()
	return p4.Run(ctx, cfg, secret, p4.RunOptions{
		Options: p4.Options{
			Log: log,
			Now: func() time.Time { return time.Now().Add(offset) },
		},
		Ready:   func() { announceReady(cmd.OutOrStdout(), cmd.ErrOrStderr()) },
		Figures: state.Figures,
		Reload:  reload,
		Load: func() (*p4.Config, p4.Secret, error) {
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, nil, err
			}
			cfg, err := p4.ParseFormer(file, data)
			if err != nil {
				return nil, nil, err
			}
			secret, err := cfg.LoadSecrets() // zeroed by the end of the process
			return cfg, secret, err
		},
		Reloaded: func(cfg *p4.Config, err error) {
			if err == nil {
				state.Reloaded(cfg)
			}
		},
		Every: every,
		Counters: func(counts map[string]p4.Counts) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(counts)
		},
		AtEnd: func(counts map[string]p4.Counts) error { return printCounts(cmd.ErrOrStderr(), counts) },
	})
}

// warnFormer logs how to write a file in the former format now.
func warnFormer(log *slog.Logger, file string) {
	data, err := os.ReadFile(file)
	if err == nil {
		log.Warn("the configuration has the former format of switches; write it with plane: p4 and start it with `tidegate run` (docs/p4.md)",
			"file", file, "fields", p4.FormerNames(data))
	}
}

// printCounts prints the counts, service by service.
func printCounts(w io.Writer, counts map[string]p4.Counts) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tCOUNTER\tCOUNT")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		for _, counter := range slices.Sorted(maps.Keys(counts[name])) {
			service := name
			if service == "" {
				service = "-"
			}
			fmt.Fprintf(t, "%s\t%s\t%d\n", service, counter, counts[name][counter])
		}
	}
	return t.Flush()
}
