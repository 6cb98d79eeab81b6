// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/version"
)

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidegate-lab",
		Short: "Flood a web server inside network namespaces and measure which clients are still served",
		Long: `Build hosts from network namespaces, flood a web server there and measure how
its clients are served, and what the gates cost. Nothing is ever sent outside
the namespaces that the lab creates. Needs root, and the program tidegate,
beside it, on PATH, or where TIDEGATE points.`,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(
		newFloodCmd(),
		newOverloadCmd(),
		newDemoCmd(),
		newStrategiesCmd(),
		newConnectCmd(),
		newBookCmd(),
		newSoakCmd(),
		newSplitCmd(),
		newTerminusCmd(),
		newMachinesCmd(),
		newBindingsCmd(),
		newFleetCmd(),
		newDeviceCmd(),
		newDetectorCmd(),
		newBenchCmd(),
		newCleanCmd(),
		newClientCmd(),
		newServerCmd(),
		newFleetChildCmd("_nats"),
		newFleetChildCmd("_router"),
		newBacklogChildCmd("_backlog"),
		cli.VersionCmd("tidegate-lab"),
	)
	return root
}

// labContext ends at Ctrl-C or SIGTERM. A second signal has its usual effect;
// the next start removes what it leaves behind.
func labContext(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// progressTo writes progress lines, which never go to stdout.
func progressTo(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// interrupted replaces the errors that Ctrl-C causes by one plain line.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted; the lab has removed everything that it made")
	}
	return err
}
