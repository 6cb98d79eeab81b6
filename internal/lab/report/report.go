// SPDX-License-Identifier: Apache-2.0

// Package report turns the lab's results into tables, plots and pages. It
// must not know how they were measured.
package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/overload"
)

//go:embed report.html.tmpl
var pageText string

// Names of the files that Write writes.
const (
	PageFile    = "report.html"
	ResultsFile = "results.json"
	TableFile   = "table.md"
)

var plots = []struct {
	File, Alt string
	draw      func(*overload.Result) ([]byte, error)
}{
	{"success.png", "Share of requests served against the offered flood, for each defence, with the capacity of each", successPlot},
	{"p99.png", "99th percentile of response time against the offered flood, for each defence", latencyPlot},
	{"cost.png", "Processor time that each defence spends on a SYN", costPlot},
}

// Write writes report.html (self-contained), the plots, results.json and
// table.md to dir.
func Write(dir string, r *overload.Result) error {
	type picture struct {
		Alt  string
		Data template.URL
	}
	var pictures []picture
	files := map[string][]byte{TableFile: []byte(Markdown(r))}
	for _, p := range plots {
		png, err := p.draw(r)
		if err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
		files[p.File] = png
		data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(png)
		pictures = append(pictures, picture{p.Alt, template.URL(data)})
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"percent": percent, "rate": overload.Rate, "ms": ms, "label": func(d string) string { return lookOf(d).label },
		"served": served, "capacity": capacity, "hex": func(d string) template.CSS {
			c := lookOf(d).color
			return template.CSS(fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))
		},
	}).Parse(pageText)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := page.Execute(&buf, map[string]any{"R": r, "Pictures": pictures, "Sentences": Sentences(r), "Measured": measured(r), "Note": lagNote(r)}); err != nil {
		return err
	}
	files[PageFile] = buf.Bytes()
	return writeFiles(dir, r, files)
}

// measured returns the defences that have results.
func measured(r *overload.Result) (list []*overload.Defence) {
	for _, d := range r.Defences {
		if d.Error == "" {
			list = append(list, d)
		}
	}
	return list
}

// Sentences compare Tidegate's capacity with that of the defences it replaces: one sentence for each
// place that was measured.
func Sentences(r *overload.Result) (list []string) {
	for _, place := range []struct {
		ours   string
		theirs []string
	}{{defences.Host, []string{defences.Kernel, defences.Nft}}, {defences.ProxyPrefix + "cookie", []string{defences.NftProxy}}} {
		own := r.Find(place.ours)
		if own == nil {
			continue
		}
		var times []string
		for _, other := range place.theirs {
			if f := r.Factor(place.ours, other); f > 0 {
				times = append(times, fmt.Sprintf("%.1f times as many as %s (%s)", f, lookOf(other).label, r.Find(other).Capacity))
			}
		}
		if len(times) == 0 || own.Capacity.Median == 0 {
			continue
		}
		bound := "up to"
		if own.Capacity.AtLeast {
			bound = "at the generator's maximum,"
		}
		list = append(list, fmt.Sprintf("On one processor, %s served %g %% of requests within %s %s %s SYN/s: %s.", lookOf(place.ours).label,
			100*overload.Served, ms(r.Timeout), bound, overload.Rate(own.Capacity.Median), strings.Join(times, ", and ")))
	}
	if s := flatSentence(r); s != "" {
		list = append(list, s)
	}
	return list
}

// flatSentence describes the load of a server behind an edge; empty if none was measured.
func flatSentence(r *overload.Result) string {
	d := r.Find(defences.Edge)
	if d == nil || d.AtMax == nil {
		return ""
	}
	for _, p := range d.Points {
		if p.Offered == 0 && p.Requests > 0 {
			return fmt.Sprintf("The server behind %s used %.1f %% of its processor without a flood, and %.1f %% at %s SYN/s.", lookOf(d.Name).label,
				100*p.ServerCPU, 100*d.AtMax.ServerCPU, overload.Rate(d.AtMax.Offered))
		}
	}
	return ""
}

// lagWorthANote is a client's own delay, in milliseconds, above which the figures
// reflect the machine and not the defence.
const lagWorthANote = 50

// lagNote reports that other work disturbed the measurements; empty if none did.
func lagNote(r *overload.Result) string {
	worst, disturbed, all := 0.0, 0, 0
	for _, d := range r.Defences {
		for _, p := range d.Points {
			worst, all = max(worst, p.LagMax), all+1
			if p.Success < overload.Served && p.Disturbed() {
				disturbed++
			}
		}
	}
	if worst < lagWorthANote && disturbed == 0 {
		return ""
	}
	return fmt.Sprintf("Other work on this machine distorts these figures: the clients themselves started up to %s late, and in %d of %d measurements the victim was kept off its processor. Repeat the run when the machine is idle.", ms(worst), disturbed, all)
}

// Table prints capacities, what happens above them, and the sentences.
func Table(w io.Writer, r *overload.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows(r) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, d := range r.Defences {
		if d.Error != "" {
			fmt.Fprintf(w, "%s could not run: %s\n", d.Name, d.Error)
		}
	}
	for _, s := range Sentences(r) {
		fmt.Fprintln(w, s)
	}
	if note := lagNote(r); note != "" {
		fmt.Fprintln(w, note)
	}
	_, err := fmt.Fprintf(w, "The victim's receive queue: %d frames. The link by itself: %s SYN/s sent, %s taken by a program that drops them.\n",
		r.Queue, overload.Rate(r.Wire.Offered), overload.Rate(r.Wire.Processed))
	return err
}

// Markdown is the same table for a README, with the sentences.
func Markdown(r *overload.Result) string {
	var b strings.Builder
	for i, row := range rows(r) {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---" + strings.Repeat("|---", len(row)-1) + "|\n")
		}
	}
	for _, s := range append(Sentences(r), lagNote(r)) {
		if s != "" {
			b.WriteString("\n" + s + "\n")
		}
	}
	return b.String()
}

// rows returns the cells of the table; the first row is the header.
func rows(r *overload.Result) [][]string {
	all := [][]string{{"defence", "capacity, SYN/s", "searches found", "served at ten times the kernel's", "served at the generator's maximum", "CPU a SYN"}}
	for _, d := range measured(r) {
		all = append(all, []string{lookOf(d.Name).label, d.Capacity.String(), capacity(d), served(d.AtTen), served(d.AtMax), fmt.Sprintf("%.0f ns", d.SYNNs)})
	}
	return all
}

// capacity formats what the searches found.
func capacity(d *overload.Defence) string {
	if d.Capacity.AtLeast || d.Capacity.Median == 0 {
		return "-"
	}
	return overload.Rate(d.Capacity.Low) + " to " + overload.Rate(d.Capacity.High)
}

// served formats the share at a point, and the rate offered there.
func served(p *overload.Point) string {
	if p == nil {
		return "-"
	}
	return percent(p.Success) + " of requests at " + overload.Rate(p.Offered)
}

// ms prints a time given in milliseconds to three digits.
func ms(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.3g s", v/1000)
	}
	return fmt.Sprintf("%.3g ms", v)
}
