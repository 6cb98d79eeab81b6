// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/backlog"
	"tidegate/internal/lab/book"
)

func newBookCmd() *cobra.Command {
	o, asJSON := book.Options{Out: "book"}, false
	cmd := &cobra.Command{
		Use:   "book [CHAPTER|CHAPTER/UNIT...]",
		Short: "Measure the tables and figures of the five papers, beside the papers' numbers",
		Long: `Run the experiments behind the tables and figures of the papers that Tidegate
is built on, and write pages with our numbers beside the papers'. Chapters: ` + strings.Join(book.Names(), ", ") + `.
Each unit has a result file of its own; what has a finished result of these programs and flags is not
run again, so an interrupted run goes on where it was. Needs root and an otherwise
idle machine; takes hours.`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			o.Chapters = args
			if err := o.Validate(); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			if o.Tree, err = book.Tree(o.Exe); err != nil {
				return err
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			all, runErr := book.Run(ctx, o)
			if len(all) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "pages: %s\n", filepath.Join(o.Out, "index.md"))
			}
			if asJSON && len(all) > 0 {
				err = cli.WriteJSON(cmd.OutOrStdout(), all)
			}
			return errors.Join(interrupted(ctx, runErr), err)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Smallest, "smallest", false, "run each unit in its shortest form, which shows that it works and decides nothing")
	f.IntVar(&o.Seconds, "seconds", 0, "length of each run within a unit; 0: the unit's own")
	f.BoolVar(&o.Again, "again", false, "also run what has a finished result")
	f.BoolVar(&o.Pages, "pages", false, "measure nothing: write the pages again from the results in --out")
	f.StringVar(&o.Out, "out", o.Out, "directory for pages, plots and results")
	f.BoolVar(&asJSON, "json", false, "print the results as one JSON list")
	return cmd
}

// newBacklogChildCmd is the process with the linear list that Lemon's chapter measures.
func newBacklogChildCmd(name string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, RunE: func(cmd *cobra.Command, args []string) error {
		return backlog.Children[name](args, cmd.OutOrStdout())
	}}
}
