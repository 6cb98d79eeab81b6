// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/binding"
	"tidegate/internal/cli"
)

func newBindingCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "binding",
		Short: "Make, sign, verify and show the records that say who manages which prefixes",
		Long: `Bindings are signed records that say which border manager filters the traffic of
which prefixes, which filter manager may request filters on traffic to which, and
which authority may sign such records (docs/bindings.md).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBindingKeygenCmd(), newBindingPublicCmd(), newBindingSignCmd(), newBindingVerifyCmd(), newBindingShowCmd())
	return cmd
}

func newBindingKeygenCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Write a new Ed25519 key to FILE (mode 0600) and print its public key",
		Long: `Write a new Ed25519 private key to FILE as PKCS #8 in PEM, mode 0600, and its
public key, 64 hex digits, to stdout. An existing file is never overwritten.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			public, err := binding.CreateKeyFile(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "wrote a new private key to %s\n", args[0])
			_, err = fmt.Fprintln(cmd.OutOrStdout(), public)
			return err
		},
	}
}

func newBindingPublicCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "public FILE",
		Short: "Print the public key of the private key in FILE",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := binding.LoadKeyFile(args[0])
			if err != nil {
				return err
			}
			defer clear(key)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), publicOf(key))
			return err
		},
	}
}

func newBindingShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE...",
		Short: "Show the contents of signed records; only verify checks whether they are valid",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var list []shownRecord
			for _, path := range args {
				raw, err := readRecordFile(path)
				if err != nil {
					return err
				}
				r, err := binding.Decode(raw)
				if err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				list = append(list, shownRecord{File: path, Record: r, SignatureOK: r.VerifySignature() == nil})
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), list)
			}
			for i, s := range list {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := s.print(cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON array")
	return cmd
}

type shownRecord struct {
	File        string `json:"file"`
	SignatureOK bool   `json:"signature_ok"`
	*binding.Record
}

func (s shownRecord) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	r := s.Record
	fmt.Fprintf(t, "file\t%s\nrole\t%s\nkey\t%s\nissuer\t%s\nserial\t%d\n", s.File, r.Role, r.Key, r.Issuer, r.Serial)
	fmt.Fprintf(t, "not before\t%s\nnot after\t%s\n", utc(r.NotBefore), utc(r.NotAfter))
	if r.Revoked {
		fmt.Fprintln(t, "revoked\tyes")
	} else {
		fmt.Fprintf(t, "prefixes\t%s\nendpoints\t%s\n", joined(r.Prefixes), joined(r.Endpoints))
	}
	signature := "by its issuer"
	if !s.SignatureOK {
		signature = "NOT by its issuer"
	}
	fmt.Fprintf(t, "signature\t%s\n", signature)
	return t.Flush()
}

func joined[T fmt.Stringer](list []T) string {
	if len(list) == 0 {
		return "none"
	}
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, ", ")
}

func utc(sec int64) string { return time.Unix(sec, 0).UTC().Format(time.RFC3339) }

// readRecordFile reads a record; "-" is stdin.
func readRecordFile(path string) ([]byte, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("%w; name a file written by `tidegate binding sign`", err)
		}
		defer f.Close()
	}
	raw, err := io.ReadAll(io.LimitReader(f, binding.MaxRecordLen+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return raw, nil
}
