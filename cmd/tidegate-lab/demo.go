// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tidegate/internal/cli"
	"tidegate/internal/lab/report"
	"tidegate/internal/lab/trial"
)

func newDemoCmd() *cobra.Command {
	o := trial.DefaultSweep()
	dir, rates := "demo", ""
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Four defences under rising floods: a table, plots and a report",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Choose(rates); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			ctx, stop := labContext(cmd)
			defer stop()
			line := newProgressLine(cmd.ErrOrStderr())
			line.show("demo: 0/%d experiments", len(o.Rates)*len(o.Defences))
			begin := time.Now()
			o.Done = func(p trial.Point, done, total int) {
				left := time.Since(begin) / time.Duration(done) * time.Duration(total-done)
				line.show("demo: %d/%d experiments, %s left; last: %s", done, total, left.Round(time.Second), outcome(p))
			}
			s, runErr := trial.RunSweep(ctx, o)
			line.end()
			if s == nil {
				return interrupted(ctx, runErr)
			}
			err := errors.Join(report.Table(cmd.OutOrStdout(), s), report.Write(dir, s))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", filepath.Join(dir, report.PageFile))
			return runErr
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "out", dir, "folder for report.html, plots and results.json")
	f.StringSliceVar(&o.Defences, "defences", o.Defences, "which, as --defence of lab flood has them")
	f.StringVar(&o.Base.Plane, "plane", o.Base.Plane, "of proxy-STRATEGY: xdp or dpdk")
	f.StringVar(&rates, "rates", rates, "floods in SYNs per second, such as 1k,50k,max")
	f.Float64Var(&o.Base.Load, "load", o.Base.Load, "legitimate requests per second, all clients together")
	f.IntVar(&o.Base.Retries, "retries", o.Base.Retries, "try a request again that was reset, as browsers do")
	return cmd
}

// outcome is one experiment in a few words.
func outcome(p trial.Point) string {
	if p.Result == nil {
		return fmt.Sprintf("%s at %s failed", p.Defence, p.Rate)
	}
	return fmt.Sprintf("%s at %s SYN/s served %.1f %%", p.Defence, p.Rate, 100*p.Result.Success)
}

// progressLine is one line that is written over on a terminal, and one line
// for each step elsewhere.
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
