// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"tidegate/internal/netnamespace"
)

// inNetns gives a command the flag --netns: it then runs in that network namespace.
func inNetns(cmd *cobra.Command) *cobra.Command {
	var which string
	cmd.Flags().StringVar(&which, "netns", "", "work in this network namespace, such as a container's: a `NAME` of ip netns, a process ID, or the path of the namespace's file")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := netnamespace.Enter(which); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}
