// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tidegate/internal/keys"
)

func newKeygenCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Write a new secret to FILE (mode 0600); never overwrites",
		Long: `Write a new random 32-byte secret to FILE as 64 hex digits, mode 0600.
An existing file is never overwritten and the secret is never printed. What root
makes in /etc/tidegate belongs to the user of the package's units.
All machines that answer for the same services need the same file.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := keys.CreateSecret(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "wrote a new secret to %s\n", args[0])
			return err
		},
	}
}
