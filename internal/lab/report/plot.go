// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/overload"
)

// look is how one defence is drawn, the same in every plot. The colours are
// those of Okabe and Ito, which people with colour blindness can distinguish; line widths
// decrease from first to last, so that coinciding lines all stay visible. Defences in a
// box before the server are dotted.
type look struct {
	label  string
	color  color.RGBA
	width  vg.Length
	shape  draw.GlyphDrawer
	dashes []vg.Length
}

var (
	grey       = color.RGBA{0x88, 0x88, 0x88, 0xff}
	blue       = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange     = color.RGBA{0xe6, 0x9f, 0x00, 0xff}
	green      = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	vermillion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	purple     = color.RGBA{0xcc, 0x79, 0xa7, 0xff}
	sky        = color.RGBA{0x56, 0xb4, 0xe9, 0xff}

	dotted = []vg.Length{1, 2}
)

var looks = map[string]look{
	defences.None:   {"no defence", grey, 2.2, draw.CrossGlyph{}, nil},
	defences.Kernel: {"kernel SYN cookies", blue, 4.5, draw.BoxGlyph{}, nil},
	defences.Nft:    {"nftables SYNPROXY", orange, 3.2, draw.PyramidGlyph{}, nil},
	defences.Host:   {"Tidegate host", green, 1.8, draw.CircleGlyph{}, nil},

	defences.NftProxy:   {"SYNPROXY in a box", vermillion, 2.2, draw.TriangleGlyph{}, dotted},
	"proxy-cookie":      {"Tidegate proxy", purple, 1.8, draw.SquareGlyph{}, dotted},
	"proxy-auth-cookie": {"proxy, auth-cookie", orange, 1.8, draw.PyramidGlyph{}, dotted},
	"proxy-auth-full":   {"proxy, auth-full", green, 1.8, draw.CircleGlyph{}, dotted},
	defences.Edge:       {"Tidegate edge", sky, 1.8, draw.RingGlyph{}, dotted},
}

func lookOf(defence string) look {
	if l, ok := looks[defence]; ok {
		return l
	}
	return look{defence, color.RGBA{A: 0xff}, 2, draw.CircleGlyph{}, dotted}
}

// A plot is as wide as a phone's screen, so that its text is readable there.
const (
	plotWidth  = 5 * vg.Inch
	plotHeight = 4 * vg.Inch
	legendRow  = 0.2 * vg.Inch
	plotDPI    = 220
	axisFont   = 11
	smallFont  = 10
	thinLine   = vg.Length(2)
)

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// render draws a plot below a legend of its own, so that the legend
// never covers the data.
func render(p *plot.Plot, of []*overload.Defence) ([]byte, error) {
	img := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI), vgimg.UseBackgroundColor(color.White))
	all := draw.New(img)
	area := draw.Crop(all, 0.08*vg.Inch, -0.12*vg.Inch, 0.08*vg.Inch, -0.08*vg.Inch)
	if len(of) > 0 {
		drawTitle(p, area)
		strip := draw.Crop(area, 0.1*vg.Inch, 0, 0, -0.34*vg.Inch)
		rows := drawLegend(strip, of)
		area = draw.Crop(area, 0, 0, 0, -0.42*vg.Inch-vg.Length(rows)*legendRow)
	}
	p.Draw(area)
	var buf bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: img}.WriteTo(&buf)
	return buf.Bytes(), err
}

// drawTitle puts the title above the legend instead of below it.
func drawTitle(p *plot.Plot, c draw.Canvas) {
	sty := p.Title.TextStyle
	c.FillText(sty, vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Max.Y}, p.Title.Text)
	p.Title.Text = ""
}

// drawLegend draws the entries in rows from the top down and returns the number of rows.
func drawLegend(c draw.Canvas, of []*overload.Defence) (rows int) {
	sty := text.Style{
		Color: color.Black, Font: sans, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler,
	}
	sty.Font.Size = smallFont
	const swatch, gap = 0.3 * vg.Inch, 0.18 * vg.Inch
	x, y, rows := c.Min.X, c.Max.Y-legendRow/2, 1
	for _, d := range of {
		l := lookOf(d.Name)
		name := l.label
		if d.Capacity.Median > 0 {
			name += " (" + overload.Rate(d.Capacity.Median) + ")"
		}
		if wide := swatch + sty.Width(name); x > c.Min.X && x+wide > c.Max.X {
			x, y, rows = c.Min.X, y-legendRow, rows+1
		}
		c.StrokeLine2(draw.LineStyle{Color: l.color, Width: min(l.width, 3), Dashes: l.dashes}, x, y, x+0.24*vg.Inch, y)
		c.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: 3, Shape: l.shape}, vg.Point{X: x + 0.12*vg.Inch, Y: y})
		c.FillText(sty, vg.Point{X: x + swatch, Y: y}, name)
		x += swatch + sty.Width(name) + gap
	}
	return rows
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font = sans
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 10
	p.Title.TextStyle.YAlign = draw.YTop
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans, sans
		a.Label.TextStyle.Font.Size = axisFont
		a.Tick.Label.Font.Size = smallFont
		a.Label.Padding = 4
	}
	return p
}

// values selects one number of a measurement.
type values func(*overload.Point) float64

// ratePlot draws a value over the offered rate, and each defence's capacity as a
// vertical line. Lines of graded widths stay visible where they coincide.
func ratePlot(p *plot.Plot, r *overload.Result, bottom, top float64, v values) error {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	lo, hi := math.Inf(1), 0.0
	for _, d := range measured(r) {
		var xy plotter.XYs
		for i := range d.Points {
			if pt := &d.Points[i]; pt.Offered > 0 {
				xy = append(xy, plotter.XY{X: math.Log10(pt.Offered), Y: v(pt)})
				lo, hi = min(lo, pt.Offered), max(hi, pt.Offered)
			}
		}
		if len(xy) == 0 {
			continue
		}
		slices.SortFunc(xy, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return err
		}
		l := lookOf(d.Name)
		line.Color, line.Width, line.Dashes = l.color, l.width, l.dashes
		points.Color, points.Shape, points.Radius = l.color, l.shape, 3
		p.Add(line, points)
		if d.Capacity.Median > 0 {
			at := math.Log10(d.Capacity.Median)
			mark, err := plotter.NewLine(plotter.XYs{{X: at, Y: bottom}, {X: at, Y: top}})
			if err != nil {
				return err
			}
			mark.Color, mark.Width, mark.Dashes = l.color, 1.4, []vg.Length{4, 3}
			p.Add(mark)
		}
	}
	if hi == 0 {
		lo, hi = 1000, 1e6
	}
	p.X.Min, p.X.Max = math.Log10(lo*0.8), math.Log10(hi*1.25)
	p.Y.Min, p.Y.Max = bottom, top
	p.X.Tick.Marker = logTicks(rateLabel)
	return nil
}

func successPlot(r *overload.Result) ([]byte, error) {
	p := newPlot("Requests served; dashed: capacity", "offered flood (SYN/s)", "requests served (%)")
	if err := ratePlot(p, r, -4, 106, func(pt *overload.Point) float64 { return 100 * pt.Success }); err != nil {
		return nil, err
	}
	p.Y.Tick.Marker = plot.ConstantTicks{
		{Value: 0, Label: "0"}, {Value: 25, Label: "25"}, {Value: 50, Label: "50"}, {Value: 75, Label: "75"}, {Value: 100, Label: "100"},
	}
	return render(p, measured(r))
}

func latencyPlot(r *overload.Result) ([]byte, error) {
	p := newPlot("99th percentile of response time", "offered flood (SYN/s)", "p99 (failed = timeout)")
	lo, hi := r.Timeout, r.Timeout
	for _, d := range measured(r) {
		for _, pt := range d.Points {
			if pt.Latency.P99 > 0 {
				lo, hi = min(lo, pt.Latency.P99), max(hi, pt.Latency.P99)
			}
		}
	}
	err := ratePlot(p, r, math.Log10(lo/1.6), math.Log10(hi*1.8), func(pt *overload.Point) float64 { return math.Log10(max(pt.Latency.P99, 0.001)) })
	if err != nil {
		return nil, err
	}
	p.Y.Tick.Marker = logTicks(msLabel)
	return render(p, measured(r))
}

// costPlot shows the processor time that each defence takes for a SYN.
func costPlot(r *overload.Result) ([]byte, error) {
	p := newPlot("Processor time per SYN, without the wire's", "nanoseconds", "")
	var names []string
	top := 1.0
	list := measured(r)
	slices.Reverse(list)
	for _, d := range list {
		at := float64(len(names))
		names = append(names, lookOf(d.Name).label)
		top = max(top, d.SYNNs)
		bar, err := plotter.NewBarChart(plotter.Values{d.SYNNs}, 22)
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, at, lookOf(d.Name).color, 0
		label, err := plotter.NewLabels(plotter.XYLabels{
			XYs: []plotter.XY{{X: d.SYNNs, Y: at}}, Labels: []string{fmt.Sprintf("  %.0f ns", d.SYNNs)},
		})
		if err != nil {
			return nil, err
		}
		label.TextStyle[0].Font = sans
		label.TextStyle[0].Font.Size, label.TextStyle[0].YAlign = smallFont, draw.YCenter
		p.Add(bar, label)
	}
	if len(names) == 0 {
		return render(p, nil)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	p.Y.LineStyle.Width, p.Y.Tick.Length = 0, 0
	p.X.Min, p.X.Max = 0, top*1.3
	p.X.Tick.Marker = stepTicks{}
	return render(p, nil)
}

// logTicks marks decades with labels and the steps between them without. The
// data are logarithms on a linear axis: plot.LogScale reserves space for an axis
// label in the wrong place (gonum.org/v1/plot v0.17, verticalAxis.GlyphBoxes).
type logTicks func(v float64) string

func (f logTicks) Ticks(logLo, logHi float64) []plot.Tick {
	var ticks []plot.Tick
	lo, hi := math.Pow(10, logLo), math.Pow(10, logHi)
	wide := hi/lo > 30
	for decade := math.Pow(10, math.Floor(logLo)); decade <= hi; decade *= 10 {
		for m := 1.0; m < 10; m++ {
			v := decade * m
			if v < lo || v > hi {
				continue
			}
			t := plot.Tick{Value: math.Log10(v)}
			if m == 1 || (!wide && (m == 2 || m == 5)) {
				t.Label = f(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// stepTicks are about five round steps from zero.
type stepTicks struct{}

func (stepTicks) Ticks(_, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(hi/4)))
	for _, m := range []float64{5, 2} {
		if step*m <= hi/4 {
			step *= m
			break
		}
	}
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= hi; i++ {
		ticks = append(ticks, plot.Tick{Value: float64(i) * step, Label: fmt.Sprintf("%.4g", float64(i)*step)})
	}
	return ticks
}

func rateLabel(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.4gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.4gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}

func msLabel(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.4g s", v/1000)
	case v < 1:
		return fmt.Sprintf("%.4g µs", v*1000)
	}
	return fmt.Sprintf("%.4g ms", v)
}

// percent never rounds a loss away: 99.996 % does not become 100 %.
func percent(share float64) string {
	switch {
	case share == 1:
		return "100 %"
	case share > 0.999:
		return fmt.Sprintf("%.3f %%", math.Floor(share*1e5)/1e3)
	}
	return fmt.Sprintf("%.1f %%", share*100)
}
