package main

import "github.com/spf13/cobra"

func newCheckCmd() *cobra.Command {
	return &cobra.Command{Use: "check", Args: cobra.NoArgs, Short: "Say what this machine offers and what it lacks",
		RunE: func(*cobra.Command, []string) error { return nil }}
}
