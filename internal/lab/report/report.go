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
	"text/tabwriter"

	"tidegate/internal/lab"
)

//go:embed report.html.tmpl
var pageText string

// Names of the files that Write makes.
const (
	PageFile    = "report.html"
	ResultsFile = "results.json"
)

var plots = []struct {
	File, Alt string
	draw      func(*lab.Sweep) ([]byte, error)
}{
	{"success.png", "Share of requests served against flood rate, for each defence", successPlot},
	{"p99.png", "99th percentile of response time against flood rate, for each defence", latencyPlot},
	{"absorbed.png", "Highest SYN rate that each defence absorbed on one core", absorbPlot},
}

// Write makes report.html (self-contained), the plots and results.json in dir.
func Write(dir string, s *lab.Sweep) error {
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
	page, err := template.New("page").Funcs(template.FuncMap{
		"percent": percent, "rate": rateLabel, "ms": ms, "label": func(d string) string { return lookOf(d).label },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	err = page.Execute(&buf, map[string]any{"Sweep": s, "Pictures": pictures, "Failures": failures(s)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, PageFile), buf.Bytes(), 0o644)
}

// failures lists each defence that could not run, once.
func failures(s *lab.Sweep) []lab.Point {
	var list []lab.Point
	seen := map[string]bool{}
	for _, p := range s.Points {
		if p.Error != "" && !seen[p.Defence] {
			seen[p.Defence] = true
			list = append(list, p)
		}
	}
	return list
}

// Table prints share served and p99 of every defence at every rate.
func Table(w io.Writer, s *lab.Sweep) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "flood SYN/s\t")
	for _, d := range s.Defences {
		fmt.Fprintf(t, "%s served\tp99\tSYN/s taken\t", d)
	}
	fmt.Fprintln(t)
	for _, rate := range s.Rates {
		fmt.Fprintf(t, "%s\t", rate)
		for _, d := range s.Defences {
			r := s.Find(d, rate)
			if r == nil {
				fmt.Fprint(t, "-\t-\t-\t")
				continue
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t", percent(r.Success), ms(r.Latency.P99), taken(r.SYNPPS))
		}
		fmt.Fprintln(t)
	}
	err := t.Flush()
	for _, f := range failures(s) {
		_, e := fmt.Fprintf(w, "%s could not run: %s\n", f.Defence, f.Error)
		err = errors.Join(err, e)
	}
	return err
}

// taken prints a measured rate to three digits.
func taken(pps float64) string {
	switch {
	case pps >= 1e6:
		return fmt.Sprintf("%.3gM", pps/1e6)
	case pps >= 1e3:
		return fmt.Sprintf("%.3gk", pps/1e3)
	}
	return fmt.Sprintf("%.3g", pps)
}

// ms prints a time given in milliseconds to three digits.
func ms(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.3g s", v/1000)
	}
	return fmt.Sprintf("%.3g ms", v)
}
