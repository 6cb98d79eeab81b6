// SPDX-License-Identifier: Apache-2.0

package traces

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"text/tabwriter"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"tidegate/internal/detect"
)

// Table is the detector's results over several seeds.
type Table struct {
	Params detect.Params `json:"parameters"`
	Seed   uint64        `json:"seed"`
	Seeds  int           `json:"seeds"`
	Rows   []Row         `json:"traces"`
}

// Row is the worst result of one trace over all seeds.
type Row struct {
	Result
	Bad int `json:"bad"` // number of seeds with a wrong result
}

// RunAll replays every trace for each of so many seeds; it also returns the results of the first, for plots.
func RunAll(seed uint64, seeds int, p detect.Params) (Table, []Result) {
	t := Table{Params: p, Seed: seed, Seeds: seeds}
	var first []Result
	for i := range seeds {
		for j, trace := range All(seed + uint64(i)) {
			r := Replay(trace, p)
			if i == 0 {
				first = append(first, r)
				t.Rows = append(t.Rows, Row{Result: r})
			}
			row := &t.Rows[j]
			if !r.Good() {
				row.Bad++
			}
			row.Detected = row.Detected && r.Detected
			row.DelayMs, row.Switches, row.MaxY = max(row.DelayMs, r.DelayMs), max(row.Switches, r.Switches), max(row.MaxY, r.MaxY)
			if i > 0 {
				row.FalseAlarms += r.FalseAlarms
				row.OffAfterMs = max(row.OffAfterMs, r.OffAfterMs)
			}
		}
	}
	return t, first
}

// Good reports whether every trace had the right result with every seed.
func (t Table) Good() bool {
	for _, r := range t.Rows {
		if r.Bad > 0 {
			return false
		}
	}
	return true
}

// Print writes the table as text.
func (t Table) Print(w io.Writer) error {
	fmt.Fprintf(w, "a %v, h %v, N %v in periods of %v; alpha %v, K at least %v/s, hard limit %v/s, patience %v, calm %v to %v\n%d seeds from %d; the worst of them\n\n",
		t.Params.A, t.Params.H, t.Params.N, t.Params.T0, t.Params.Alpha, t.Params.KMin, t.Params.Hard, t.Params.Patience, t.Params.Calm, t.Params.CalmMax, t.Seeds, t.Seed)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TRACE\tDETECTED\tDELAY\tASKED\tFALSE ALARMS\tOFF AFTER\tLARGEST y_n WITHOUT ATTACK")
	for _, r := range t.Rows {
		detected, delay, asked, off := "-", "-", "-", "-"
		if r.Attack {
			detected = map[bool]string{true: "yes", false: "NO"}[r.Detected]
			delay, asked = fmt.Sprintf("%.1f s", float64(r.DelayMs)/1000), fmt.Sprintf("%.0f s", float64(r.WithinMs)/1000)
			off = fmt.Sprintf("%.0f s", float64(r.OffAfterMs)/1000)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%s\t%.1f\n", r.Name, detected, delay, asked, r.FalseAlarms, off, r.MaxY)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, r := range t.Rows {
		fmt.Fprintf(w, "%s: %s\n", r.Name, r.Says)
	}
	return nil
}

// Plot draws SYNs, completed handshakes and y_n of each trace over time, stacked, as SVG.
func Plot(w io.Writer, results []Result, threshold float64) error {
	const width, height = 7 * vg.Inch, 2 * vg.Inch
	canvas := vgsvg.New(width, height*vg.Length(len(results)))
	for i, r := range results {
		p := plot.New()
		p.Title.Text = r.Name
		p.X.Label.Text = "s"
		p.Y.Label.Text = "log10(1 + value)"
		for _, line := range []struct {
			name  string
			color color.RGBA
			of    func(Point) float64
		}{
			{"SYN/s", color.RGBA{0xd5, 0x5e, 0x00, 0xff}, func(p Point) float64 { return p.Reading.SYNs }},
			{"completed/s", color.RGBA{0x00, 0x9e, 0x73, 0xff}, func(p Point) float64 { return p.K }},
			{"y", color.RGBA{0x00, 0x72, 0xb2, 0xff}, func(p Point) float64 { return p.Y }},
			{"N", color.RGBA{0x88, 0x88, 0x88, 0xff}, func(Point) float64 { return threshold }},
		} {
			var xy plotter.XYs
			for j, at := range r.Points {
				if j%5 == 0 {
					xy = append(xy, plotter.XY{X: at.T.Seconds(), Y: math.Log10(1 + line.of(at))})
				}
			}
			l, err := plotter.NewLine(xy)
			if err != nil {
				return err
			}
			l.Color = line.color
			p.Add(l)
			p.Legend.Add(line.name, l)
		}
		area := draw.NewCanvas(canvas, width, height*vg.Length(len(results)))
		top := height * vg.Length(len(results)-i)
		p.Draw(draw.Crop(area, 0, 0, top-height, top-height*vg.Length(len(results))))
	}
	_, err := canvas.WriteTo(w)
	return err
}
