// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tidegate/internal/cli"
	"tidegate/internal/lab/overload"
	"tidegate/internal/lab/report"
)

func newDemoCmd() *cobra.Command {
	o := overload.DefaultOptions()
	dir, rates := "demo", ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show where each defence stops serving: a table, plots and a report",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Choose(rates); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			ctx, stop := labContext(cmd)
			defer stop()
			line := newProgressLine(cmd.ErrOrStderr())
			line.show("demo: %d defences, about %d s each", len(o.Defences), 25)
			begin := time.Now()
			o.Done = func(d string, p overload.Point) {
				line.show("demo: %.0f s, %s", time.Since(begin).Seconds(), outcome(d, p))
			}
			r, runErr := overload.Run(ctx, o)
			line.end()
			if r == nil {
				return interrupted(ctx, runErr)
			}
			err := errors.Join(report.Table(cmd.OutOrStdout(), r), report.Write(dir, r))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", filepath.Join(dir, report.PageFile))
			if slices.ContainsFunc(r.Defences, func(d *overload.Defence) bool { return d.Error == "" }) {
				return nil // table and report name what could not be measured
			}
			return runErr
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "out", dir, "folder for report.html, plots and results.json")
	overloadFlags(f, &o, &rates)
	return cmd
}

// outcome summarizes one measurement.
func outcome(defence string, p overload.Point) string {
	if p.Requests == 0 {
		return fmt.Sprintf("%s processes %s of %s SYN/s", defence, overload.Rate(p.Processed), overload.Rate(p.Offered))
	}
	return fmt.Sprintf("%s at %s SYN/s served %.1f %%", defence, overload.Rate(p.Offered), 100*p.Success)
}

// progressLine is one line that is overwritten on a terminal, and one line
// per step elsewhere.
type progressLine struct {
	w        *os.File
	fallback interface{ Write([]byte) (int, error) }
	width    int
}

func newProgressLine(w interface{ Write([]byte) (int, error) }) *progressLine {
	p := &progressLine{fallback: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = f
	}
	return p
}

func (p *progressLine) show(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.w == nil {
		fmt.Fprintln(p.fallback, text)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = max(p.width, len(text))
}

func (p *progressLine) end() {
	if p.w != nil {
		fmt.Fprintln(p.w)
	}
}
