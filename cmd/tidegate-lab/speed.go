// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"tidegate/internal/bench"
	"tidegate/internal/cli"
)

// newBenchSpeedCmd is the table of docs/speed.md.
func newBenchSpeedCmd() *cobra.Command {
	opt := bench.DefaultOptions()
	var asJSON, timed bool
	var page string
	var lines int
	cmd := &cobra.Command{
		Use:   "speed",
		Short: "Count the instructions of every packet path, and measure their time",
		Long: `Run one packet of each kind through the programs, instruction by instruction,
and count. The counts are the same on every machine. With --time, measure
nanoseconds, too, and the time of one SipHash (H) in the same run: that needs an
otherwise idle machine. Needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if opt.Rounds < 1 || opt.Frames < 1000 {
				return cli.UsageErrorf("--rounds must be at least 1 and --frames at least 1000")
			}
			if page != "" { // before minutes are spent
				if _, _, err := aroundTable(page); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runBench(ctx, cmd, opt, asJSON, func(ctx context.Context, o bench.Options) (*bench.SpeedResult, error) {
				res, err := bench.RunSpeed(ctx, o, timed)
				if res != nil {
					res.Lines = lines
				}
				if err == nil && page != "" {
					err = writePart(page, res)
				}
				return res, err
			})
		},
	}
	cmd.Flags().BoolVar(&timed, "time", false, "measure nanoseconds, too (minutes)")
	cmd.Flags().IntVar(&opt.Rounds, "rounds", opt.Rounds, "with --time: number of measurements of each program")
	cmd.Flags().IntVar(&opt.Frames, "frames", opt.Frames, "with --time: packets for each program and round")
	cmd.Flags().StringVar(&page, "write", "", "replace the table in this `PAGE` (docs/speed.md)")
	cmd.Flags().IntVar(&lines, "lines", 0, "of each path, also print so many lines of source, those with the most instructions")
	jsonFlag(cmd.Flags(), &asJSON)
	return cmd
}

// The table stands between these lines.
const tableBegins, tableEnds = "<!-- begin: tidegate-lab bench speed --write -->\n", "<!-- end -->\n"

// aroundTable is a page's text before its table and after it.
func aroundTable(page string) (before, after []byte, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, nil, err
	}
	before, rest, begins := bytes.Cut(text, []byte(tableBegins))
	_, after, ends := bytes.Cut(rest, []byte(tableEnds))
	if !begins || !ends {
		return nil, nil, fmt.Errorf("%s has no place for the table: put the lines %q and %q into it", page, tableBegins, tableEnds)
	}
	return before, after, nil
}

// writePart replaces a page's table.
func writePart(page string, res *bench.SpeedResult) error {
	before, after, err := aroundTable(page)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(tableBegins)
	if err := res.Markdown(&b); err != nil {
		return err
	}
	b.WriteString(tableEnds)
	b.Write(after)
	return os.WriteFile(page, b.Bytes(), 0o644)
}
