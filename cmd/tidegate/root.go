// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/version"
)

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:           "tidegate",
		Short:         "Stops SYN floods before they reach the TCP stack",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.AddCommand(
		newAllowCmd(),
		newBGPCmd(),
		newBindingCmd(),
		newCaptureCmd(),
		inNetns(newCheckCmd()),
		newConfigCmd(),
		newDenyCmd(),
		newEventsCmd(),
		newFilterCmd(),
		newFleetCmd(),
		inNetns(newInitCmd()),
		newKeygenCmd(),
		newListsCmd(),
		newModeCmd(),
		inNetns(newOffCmd()),
		newP4Cmd(),
		newReloadCmd(),
		newReportCmd(),
		inNetns(newRunCmd()),
		newStatusCmd(),
		newTopCmd(),
		cli.VersionCmd("tidegate"),
		newWebCmd(),
		newWhyCmd(),
	)
	for _, cmd := range more {
		root.AddCommand(cmd())
	}
	return root
}

// more are commands of builds with other tags.
var more []func() *cobra.Command
