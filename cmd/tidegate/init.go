// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tidegate/internal/firstconfig"
)

func newInitCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "init [-o FILE]",
		Short: "Write a first, commented configuration for this machine",
		Long: `Find the interfaces of the default routes and the listeners that other machines can reach, and write a configuration
of role host with all of them in mode monitor, which answers nothing yet, and a secret beside it if there is none.
Nothing is overwritten and nothing else is changed. "-o -" writes the configuration to stdout, and no secret.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := firstconfig.Look()
			if err != nil {
				return err
			}
			if file == "-" {
				_, err := fmt.Fprint(cmd.OutOrStdout(), m.Text("/etc/tidegate/secret"))
				return err
			}
			if err := firstconfig.Write(m, file); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; next: tidegate check -c %s\n", file, file)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "/etc/tidegate/default.yaml", "write it to `FILE`")
	return cmd
}
