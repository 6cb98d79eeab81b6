// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/trial"
)

// look is how one defence is drawn, the same in every plot. The colours are
// those of Okabe and Ito, which people with colour blindness tell apart; widths
// fall from first to last, so that lines that coincide all stay visible.
type look struct {
	label string
	color color.RGBA
	width vg.Length
	shape draw.GlyphDrawer
}

var looks = map[string]look{
	defences.None:   {"no defence", color.RGBA{0x88, 0x88, 0x88, 0xff}, 2.2, draw.CrossGlyph{}},
	defences.Kernel: {"kernel SYN cookies", color.RGBA{0x00, 0x72, 0xb2, 0xff}, 6.5, draw.BoxGlyph{}},
	defences.Nft:    {"nftables SYNPROXY", color.RGBA{0xe6, 0x9f, 0x00, 0xff}, 3.8, draw.PyramidGlyph{}},
	defences.Host:   {"Tidegate host", color.RGBA{0x00, 0x9e, 0x73, 0xff}, 1.6, draw.CircleGlyph{}},

	"proxy-cookie":      {"proxy, cookie", color.RGBA{0x00, 0x72, 0xb2, 0xff}, 5, draw.BoxGlyph{}},
	"proxy-auth-cookie": {"proxy, auth-cookie", color.RGBA{0xe6, 0x9f, 0x00, 0xff}, 3.4, draw.PyramidGlyph{}},
	"proxy-auth-full":   {"proxy, auth-full", color.RGBA{0x00, 0x9e, 0x73, 0xff}, 1.8, draw.CircleGlyph{}},
}

func lookOf(defence string) look {
	if l, ok := looks[defence]; ok {
		return l
	}
	return look{defence, color.RGBA{A: 0xff}, 2, draw.CircleGlyph{}}
}

const (
	plotWidth  = 8 * vg.Inch
	plotHeight = 4.6 * vg.Inch
	legendH    = 0.34 * vg.Inch
	plotDPI    = 160
	axisFont   = 12
	thinLine   = vg.Length(2)
)

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// render draws a plot below a legend strip of its own, so that the legend can
// never lie on the data.
func render(p *plot.Plot, defences []string) ([]byte, error) {
	img := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI), vgimg.UseBackgroundColor(color.White))
	all := draw.New(img)
	area := draw.Crop(all, 0.12*vg.Inch, -0.25*vg.Inch, 0.1*vg.Inch, -0.08*vg.Inch)
	if len(defences) > 0 {
		drawTitle(p, area)
		strip := draw.Crop(area, 0.55*vg.Inch, 0, area.Max.Y-area.Min.Y-legendH-0.3*vg.Inch, -0.3*vg.Inch)
		drawLegend(strip, defences)
		area = draw.Crop(area, 0, 0, 0, -legendH-0.32*vg.Inch)
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

// drawLegend lays the entries side by side.
func drawLegend(c draw.Canvas, defences []string) {
	sty := text.Style{
		Color: color.Black, Font: sans, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler,
	}
	sty.Font.Size = 11
	const swatch, gap = 0.37 * vg.Inch, 0.3 * vg.Inch
	x, y := c.Min.X, (c.Min.Y+c.Max.Y)/2
	for _, d := range defences {
		l := lookOf(d)
		c.StrokeLine2(draw.LineStyle{Color: l.color, Width: min(l.width, 4)}, x, y, x+0.3*vg.Inch, y)
		c.DrawGlyph(draw.GlyphStyle{Color: l.color, Radius: 4.5, Shape: l.shape}, vg.Point{X: x + 0.15*vg.Inch, Y: y})
		c.FillText(sty, vg.Point{X: x + swatch, Y: y}, l.label)
		x += swatch + sty.Width(l.label) + gap
	}
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font = sans
	p.Title.TextStyle.Font.Size = 14
	p.Title.Padding = 10
	p.Title.TextStyle.YAlign = draw.YTop
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans, sans
		a.Label.TextStyle.Font.Size = axisFont
		a.Tick.Label.Font.Size = 11
		a.Label.Padding = 4
	}
	return p
}

// values picks one number of a result.
type values func(*trial.Result) float64

// sweepPlot draws a value against the flood rate that arrived; graded lines
// stay visible where they coincide.
func sweepPlot(p *plot.Plot, s *trial.Sweep, graded bool, v values) error {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	lo, hi := math.Inf(1), 0.0
	for _, d := range s.Defences {
		var xy plotter.XYs
		for _, rate := range s.Rates {
			if r := s.Find(d, rate); r != nil && r.SYNPPS > 0 {
				xy = append(xy, plotter.XY{X: math.Log10(r.SYNPPS), Y: v(r)})
				lo, hi = min(lo, r.SYNPPS), max(hi, r.SYNPPS)
			}
		}
		if len(xy) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xy)
		if err != nil {
			return err
		}
		l := lookOf(d)
		line.Color, line.Width = l.color, thinLine
		if graded {
			line.Width = l.width
		}
		points.Color, points.Shape, points.Radius = l.color, l.shape, 4.5
		p.Add(line, points)
	}
	if hi == 0 {
		lo, hi = 1000, 1e6
	}
	p.X.Min, p.X.Max = math.Log10(lo*0.8), math.Log10(hi*1.25)
	p.X.Tick.Marker = logTicks(rateLabel)
	return nil
}

func successPlot(s *trial.Sweep) ([]byte, error) {
	p := newPlot("Requests served under a SYN flood", "flood at the server (SYN/s)", "requests served (%)")
	err := sweepPlot(p, s, true, func(r *trial.Result) float64 { return 100 * r.Success })
	if err != nil {
		return nil, err
	}
	p.Y.Min, p.Y.Max = -4, 106
	p.Y.Tick.Marker = plot.ConstantTicks{
		{Value: 0, Label: "0"}, {Value: 25, Label: "25"}, {Value: 50, Label: "50"}, {Value: 75, Label: "75"}, {Value: 100, Label: "100"},
	}
	return render(p, s.Defences)
}

func latencyPlot(s *trial.Sweep) ([]byte, error) {
	p := newPlot("99th percentile of response time under a SYN flood (failed = timeout)", "flood at the server (SYN/s)", "p99 response time")
	lo, hi := s.Timeout, s.Timeout
	for _, pt := range s.Points {
		if pt.Result != nil && pt.Result.Latency.P99 > 0 {
			lo, hi = min(lo, pt.Result.Latency.P99), max(hi, pt.Result.Latency.P99)
		}
	}
	err := sweepPlot(p, s, false, func(r *trial.Result) float64 { return math.Log10(max(r.Latency.P99, 0.001)) })
	if err != nil {
		return nil, err
	}
	p.Y.Min, p.Y.Max = math.Log10(lo/1.6), math.Log10(hi*1.8)
	p.Y.Tick.Marker = logTicks(msLabel)
	return render(p, s.Defences)
}

// absorbPlot shows the highest SYN rate that each defence took on one core, and
// what share of requests it still served then.
func absorbPlot(s *trial.Sweep) ([]byte, error) {
	p := newPlot("SYN rate absorbed by one core, generator included", "million SYN/s", "")
	var names []string
	top := 0.0
	for i := len(s.Defences) - 1; i >= 0; i-- {
		d := s.Defences[i]
		best := fastest(s, d)
		if best == nil {
			continue
		}
		at := float64(len(names))
		names = append(names, lookOf(d).label)
		mpps := best.SYNPPS / 1e6
		top = max(top, mpps)
		bar, err := plotter.NewBarChart(plotter.Values{mpps}, 40)
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin, bar.Color, bar.LineStyle.Width = true, at, lookOf(d).color, 0
		label, err := plotter.NewLabels(plotter.XYLabels{
			XYs:    []plotter.XY{{X: mpps, Y: at}},
			Labels: []string{fmt.Sprintf("  %.2f M, %s of requests served", mpps, percent(best.Success))},
		})
		if err != nil {
			return nil, err
		}
		label.TextStyle[0].Font = sans
		label.TextStyle[0].Font.Size, label.TextStyle[0].YAlign = 11, draw.YCenter
		p.Add(bar, label)
	}
	if len(names) == 0 {
		return render(p, nil)
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
	p.Y.LineStyle.Width, p.Y.Tick.Length = 0, 0
	p.X.Min, p.X.Max = 0, max(top, 0.001)*1.75
	p.X.Tick.Marker = stepTicks{}
	return render(p, nil)
}

// logTicks marks decades with labels and the steps between them without. The
// data are logarithms on a linear axis: plot.LogScale makes room for an axis
// label at the wrong place (gonum.org/v1/plot v0.17, verticalAxis.GlyphBoxes).
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
