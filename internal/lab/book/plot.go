// SPDX-License-Identifier: Apache-2.0

package book

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Plot is a picture of lines, kept with the result so that pages can be written again without a run.
type Plot struct {
	Title  string  `json:"title"`
	X      string  `json:"x"`
	Y      string  `json:"y"`
	LogX   bool    `json:"log_x,omitempty"` // the values are positive
	LogY   bool    `json:"log_y,omitempty"` // likewise
	Nines  bool    `json:"nines,omitempty"` // with LogX: X is 1/(1-share), its labels are shares: 90 %, 99 % ...
	Curves []Curve `json:"curves,omitempty"`
	Bars   []Bar   `json:"bars,omitempty"` // instead of curves
	Lines  []Mark  `json:"lines,omitempty"`
}

// Bar is one column.
type Bar struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Mark is a dashed line across the picture: upright at a value of X, or level at a value of Y.
type Mark struct {
	Name  string  `json:"name"`
	At    float64 `json:"at"`
	Level bool    `json:"level,omitempty"`
}

// Curve is one line.
type Curve struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

// colors are those of Okabe and Ito, as in the lab's other plots.
var colors = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xd5, 0x5e, 0x00, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x88, 0x88, 0x88, 0xff},
}

const (
	plotWidth  = 8 * vg.Inch
	plotHeight = 4.6 * vg.Inch
)

func plotName(x *Outcome, i int) string { return fmt.Sprintf("%s-%s-%d.svg", x.Chapter, x.Unit, i+1) }

// drawPlots writes the plots of all results.
func drawPlots(out string, all []*Outcome) error {
	var errs []error
	for _, x := range all {
		if x.Finding == nil {
			continue
		}
		for i, p := range x.Plots {
			errs = append(errs, p.write(filepath.Join(out, plotName(x, i))))
		}
	}
	return errors.Join(errs...)
}

func (p *Plot) write(name string) (err error) {
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	g := plot.New()
	g.Title.Text, g.X.Label.Text, g.Y.Label.Text = p.Title, p.X, p.Y
	g.Title.TextStyle.Font, g.Legend.TextStyle.Font = sans, sans
	g.Title.TextStyle.Font.Size, g.Legend.TextStyle.Font.Size = 13, 10
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans, sans
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = 11, 10
	}
	if p.LogX { // the data are logarithms on a linear axis, as in the lab's other plots
		g.X.Tick.Marker = decades{nines: p.Nines}
	}
	if p.LogY {
		g.Y.Tick.Marker = decades{}
	}
	for i, c := range p.Curves {
		xy := make(plotter.XYs, 0, len(c.X))
		for j := range c.X {
			x, y := scaled(c.X[j], p.LogX), scaled(c.Y[j], p.LogY)
			if !math.IsInf(x+y, 0) && !math.IsNaN(x+y) {
				xy = append(xy, plotter.XY{X: x, Y: y})
			}
		}
		if len(xy) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", p.Title, c.Name, err)
		}
		line.Color, line.Width, points.Color = colors[i%len(colors)], 1.8, colors[i%len(colors)]
		points.Shape, points.Radius = draw.CircleGlyph{}, 2.5
		g.Add(line, points)
		g.Legend.Add(c.Name, line)
	}
	if err := p.addBars(g); err != nil {
		return fmt.Errorf("%s: %w", p.Title, err)
	}
	if err := p.addMarks(g); err != nil {
		return fmt.Errorf("%s: %w", p.Title, err)
	}
	if !p.LogY {
		g.Y.Min = min(g.Y.Min, 0)
	}
	return os.WriteFile(name, withLegendBelow(g), 0o644)
}

// withLegendBelow draws a plot as SVG, with its legend below it, where it covers no data. Names follow their lines, so that a
// reader's font may be wider than that which the names were measured in.
func withLegendBelow(g *plot.Plot) []byte {
	legend := g.Legend
	legend.Left, legend.Padding = true, vg.Points(4)
	g.Legend = plot.NewLegend()
	size := legend.Rectangle(draw.New(vgsvg.New(plotWidth, plotHeight))).Size()
	height := vg.Length(0)
	if size.Y > 0 {
		height = size.Y + 0.1*vg.Inch
	}
	canvas := vgsvg.New(plotWidth, plotHeight+height)
	area := draw.Crop(draw.New(canvas), 0.1*vg.Inch, -0.2*vg.Inch, 0.1*vg.Inch, -0.1*vg.Inch)
	g.Draw(draw.Crop(area, 0, 0, height, 0))
	legend.Draw(draw.Crop(area, 0.5*vg.Inch, 0, 0, 0))
	var b bytes.Buffer
	_, _ = canvas.WriteTo(&b) // no write to a buffer fails
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}

// scaled is where a value stands on an axis.
func scaled(v float64, logarithm bool) float64 {
	if logarithm {
		return math.Log10(v)
	}
	return v
}

// addBars draws a column for each bar, with its name below.
func (p *Plot) addBars(g *plot.Plot) error {
	if len(p.Bars) == 0 {
		return nil
	}
	var values plotter.Values
	var names []string
	for _, b := range p.Bars {
		values, names = append(values, b.Value), append(names, b.Name)
	}
	chart, err := plotter.NewBarChart(values, vg.Points(min(40, 400/float64(len(p.Bars)))))
	if err != nil {
		return err
	}
	chart.Color, chart.LineStyle.Width = colors[0], 0
	g.Add(chart)
	g.NominalX(names...)
	g.X.Tick.Label.Rotation, g.X.Tick.Label.XAlign, g.X.Tick.Label.YAlign = 0.35, draw.XRight, draw.YTop
	return nil
}

// addMarks draws the dashed lines, which widen the axes so far that they can be seen.
func (p *Plot) addMarks(g *plot.Plot) error {
	if g.Y.Min > g.Y.Max { // nothing was drawn
		return nil
	}
	for i, m := range p.Lines {
		axis, logarithm := &g.X, p.LogX
		if m.Level {
			axis, logarithm = &g.Y, p.LogY
		}
		at := scaled(m.At, logarithm)
		axis.Min, axis.Max = min(axis.Min, at), max(axis.Max, at)
		xy := plotter.XYs{{X: at, Y: g.Y.Min}, {X: at, Y: g.Y.Max}}
		if m.Level {
			xy = plotter.XYs{{X: g.X.Min, Y: at}, {X: g.X.Max, Y: at}}
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = colors[(len(colors)-1-i)%len(colors)], 1.2, []vg.Length{6, 4}
		g.Add(line)
		g.Legend.Add(m.Name, line)
	}
	return nil
}

// decades marks powers of ten on an axis of logarithms.
type decades struct{ nines bool }

func (a decades) Ticks(lo, hi float64) (ticks []plot.Tick) {
	for d := math.Floor(lo); d <= math.Ceil(hi); d++ {
		for m := 1.0; m < 10; m++ {
			if at := d + math.Log10(m); at >= lo-1e-9 && at <= hi+1e-9 {
				t := plot.Tick{Value: at}
				switch {
				case m != 1:
				case a.nines:
					t.Label = fmt.Sprintf("%.6g %%", 100-math.Pow(10, 2-d))
				default:
					t.Label = fmt.Sprintf("%g", math.Pow(10, d))
				}
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}
