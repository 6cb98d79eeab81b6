// SPDX-License-Identifier: Apache-2.0

// Package report turns a sweep of the lab into a table, plots and a page. It
// knows results, and nothing of how they came about.
package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"tidegate/internal/lab/trial"
)

//go:embed report.html.tmpl
var pageText string

// Names of the files that Write makes.
const (
	PageFile    = "report.html"
	ResultsFile = "results.json"
	TableFile   = "table.md"
)

var plots = []struct {
	File, Alt string
	draw      func(*trial.Sweep) ([]byte, error)
}{
	{"success.png", "Share of requests served against flood rate, for each defence", successPlot},
	{"p99.png", "99th percentile of response time against flood rate, for each defence", latencyPlot},
	{"absorbed.png", "Highest SYN rate that each defence absorbed on one core", absorbPlot},
}

// Write makes report.html (self-contained), the plots, results.json and
// table.md in dir.
func Write(dir string, s *trial.Sweep) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	type picture struct {
		Alt  string
		Data template.URL
	}
	var pictures []picture
	for _, p := range plots {
		png, err := p.draw(s)
		if err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.File), png, 0o644); err != nil {
			return err
		}
		data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(png)
		pictures = append(pictures, picture{p.Alt, template.URL(data)})
	}
	results, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, ResultsFile), append(results, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, TableFile), []byte(Markdown(s)), 0o644); err != nil {
		return err
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"percent": percent, "rate": rateLabel, "ms": ms, "label": func(d string) string { return lookOf(d).label },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	err = page.Execute(&buf, map[string]any{"Sweep": s, "Pictures": pictures, "Failures": failures(s), "Note": lagNote(s)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, PageFile), buf.Bytes(), 0o644)
}

// failures lists each defence that could not run, once.
func failures(s *trial.Sweep) []trial.Point {
	var list []trial.Point
	seen := map[string]bool{}
	for _, p := range s.Points {
		if p.Error != "" && !seen[p.Defence] {
			seen[p.Defence] = true
			list = append(list, p)
		}
	}
	return list
}

// Table prints for every defence what share of requests was served and the p99
// of the response time at each rate, and the highest rate that it took.
func Table(w io.Writer, s *trial.Sweep) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows(s) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	err := t.Flush()
	for _, f := range failures(s) {
		_, e := fmt.Fprintf(w, "%s could not run: %s\n", f.Defence, f.Error)
		err = errors.Join(err, e)
	}
	if note := lagNote(s); note != "" {
		_, e := fmt.Fprintln(w, note)
		err = errors.Join(err, e)
	}
	return err
}

// lagWorthANote is a client's own lateness, in milliseconds, above which the
// highest quantiles tell of the machine and not of the defence.
const lagWorthANote = 10

// lagNote says that something else kept the clients' CPU busy; else it is empty.
func lagNote(s *trial.Sweep) string {
	worst := 0.0
	for _, p := range s.Points {
		if p.Result != nil {
			worst = max(worst, p.Result.StartLagMax)
		}
	}
	if worst < lagWorthANote {
		return ""
	}
	return fmt.Sprintf("The clients themselves started up to %s late: other work on this machine weighs on the highest quantiles.", ms(worst))
}

// Markdown is the same table for a README.
func Markdown(s *trial.Sweep) string {
	var b strings.Builder
	for i, row := range rows(s) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---" + strings.Repeat("|---", len(row)-1) + "|\n")
		}
	}
	return b.String()
}

// rows are the cells of the table, the first row being its head.
func rows(s *trial.Sweep) [][]string {
	head, last := []string{"flood (SYN/s)"}, []string{"most SYN/s taken"}
	for _, d := range s.Defences {
		head = append(head, lookOf(d).label)
		if best := fastest(s, d); best != nil {
			last = append(last, taken(best.SYNPPS))
		} else {
			last = append(last, "-")
		}
	}
	all := [][]string{head}
	for _, rate := range s.Rates {
		row := []string{rate}
		for _, d := range s.Defences {
			cell := "-"
			if r := s.Find(d, rate); r != nil {
				cell = percent(r.Success) + ", p99 " + ms(r.Latency.P99)
			}
			row = append(row, cell)
		}
		all = append(all, row)
	}
	return append(all, last)
}

// fastest is the experiment in which the most SYNs a second arrived.
func fastest(s *trial.Sweep, defence string) *trial.Result {
	var best *trial.Result
	for _, rate := range s.Rates {
		if r := s.Find(defence, rate); r != nil && (best == nil || r.SYNPPS > best.SYNPPS) {
			best = r
		}
	}
	return best
}

// taken prints a measured rate.
func taken(pps float64) string {
	switch {
	case pps >= 1e6:
		return fmt.Sprintf("%.2fM", pps/1e6)
	case pps >= 1e3:
		return fmt.Sprintf("%.0fk", pps/1e3)
	}
	return fmt.Sprintf("%.0f", pps)
}

// ms prints a time given in milliseconds to three digits.
func ms(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.3g s", v/1000)
	}
	return fmt.Sprintf("%.3g ms", v)
}
