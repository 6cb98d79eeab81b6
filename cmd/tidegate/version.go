package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"tidegate/internal/version"
)

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line := fmt.Sprintf("tidegate %s %s %s/%s", version.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			if c := version.Commit(); c != "" {
				line += " " + c
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	}
}
