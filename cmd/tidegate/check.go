// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/probe"
	"tidegate/internal/version"
)

func newCheckCmd() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [-c FILE]",
		Short: "Show what this kernel and machine support, what they lack, and what that means",
		Long: `Check this kernel and machine, feature by feature, and show what is missing,
what that means and how to fix it. With -c, also validate a configuration and
check the interfaces, the secret file and the listeners that it names.
Nothing is changed. The exit code is 1 if something required is missing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var c *config.Config
			if path != "" {
				var err error
				if c, err = config.Load(path); err != nil {
					return err
				}
				for _, line := range c.Warnings.Lines() {
					fmt.Fprintln(cmd.ErrOrStderr(), "warning:", line)
				}
			}
			return writeCheck(cmd.OutOrStdout(), probe.Run(c), asJSON)
		},
	}
	cmd.Flags().StringVarP(&path, "config", "c", "", "validate this configuration `FILE`, and check what it names")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}

func writeCheck(w io.Writer, r *probe.Report, asJSON bool) error {
	var err error
	if asJSON {
		err = cli.WriteJSON(w, struct {
			Version string `json:"version"`
			*probe.Report
		}{version.Version, r})
	} else {
		err = writeCheckTable(w, r)
	}
	if err == nil && !r.OK {
		return cli.ErrSilent
	}
	return err
}

// writeCheckTable writes a row for each check, and below a row that is not ok
// what that means and what to do.
func writeCheckTable(w io.Writer, r *probe.Report) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", c.Status, c.Name, c.Found)
		if c.Status != probe.OK {
			fmt.Fprintf(tw, "\t\t  means: %s\n\t\t  fix:  %s\n", c.Means, c.Fix)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, r.Summary())
	return err
}
