// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"image/color"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"tidegate/internal/lab/trial"
)

//go:embed connect.html.tmpl
var connectPageText string

// ConnectPlotFile is the plot that WriteConnect writes beside the page and the results.
const ConnectPlotFile = "connect-time.svg"

// curveColors are those of Okabe and Ito, in the order of the curves.
var curveColors = []color.RGBA{
	{0x88, 0x88, 0x88, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x00, 0x72, 0xb2, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
}

func curveColor(i int) color.RGBA { return curveColors[i%len(curveColors)] }

// WriteConnect writes report.html (self-contained), the plot and results.json to dir.
func WriteConnect(dir string, t *trial.ConnectTimes) error {
	svg, err := connectPlot(t)
	if err != nil {
		return err
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"percent": percent, "quantile": func(v *float64) string {
			if v == nil {
				return "never"
			}
			return ms(*v)
		},
		"ms": ms, "hex": func(i int) template.CSS {
			c := curveColor(i)
			return template.CSS(fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B))
		},
	}).Parse(connectPageText)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := page.Execute(&html, map[string]any{"T": t, "Plot": template.HTML(svg[bytes.Index(svg, []byte("<svg")):])}); err != nil {
		return err
	}
	return writeFiles(dir, t, map[string][]byte{ConnectPlotFile: svg, PageFile: html.Bytes()})
}

// Sizes of the drawing, an SVG with its legend inside.
const (
	connectWidth  = 8 * vg.Inch
	connectHeight = 4.6 * vg.Inch
)

// connectPlot draws, for each defence, the share of all connections that were established
// within a time. The connections missing where a curve ends below 1 were never established.
func connectPlot(t *trial.ConnectTimes) ([]byte, error) {
	p := newPlot(fmt.Sprintf("Time to connect, %d connections under %s SYN/s", t.Connections, t.Rate), "time", "share of all connections")
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	lo := math.Inf(1)
	for _, c := range t.Curves {
		if len(c.Times) > 0 {
			lo = min(lo, max(c.Times[0], 0.001))
		}
	}
	if math.IsInf(lo, 1) {
		lo = 1
	}
	for i, c := range t.Curves {
		line, err := plotter.NewLine(steps(c.Times, t.Connections, lo/1.5, t.TimeoutMs))
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.StepStyle = curveColor(i), thinLine, plotter.PostStep
		p.Add(line)
		p.Legend.Add(c.Name, line)
	}
	p.X.Min, p.X.Max = math.Log10(lo/1.5), math.Log10(t.TimeoutMs)
	p.X.Tick.Marker = logTicks(msLabel)
	p.Y.Min, p.Y.Max = 0, 1.02
	p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = true, connectWidth*0.58, vg.Points(45)
	p.Legend.TextStyle.Font = sans
	p.Legend.TextStyle.Font.Size = 11
	canvas := vgsvg.New(connectWidth, connectHeight)
	p.Draw(draw.Crop(draw.New(canvas), 0.1*vg.Inch, -0.2*vg.Inch, 0.1*vg.Inch, -0.1*vg.Inch))
	var buf bytes.Buffer
	_, err := canvas.WriteTo(&buf)
	return buf.Bytes(), err
}

// steps returns the corners of an empirical distribution, as logarithms; at most a few
// hundred, since a plot cannot show more.
func steps(times []float64, all int, from, to float64) plotter.XYs {
	const most = 400
	xy := plotter.XYs{{X: math.Log10(from), Y: 0}}
	stride := max(1, len(times)/most)
	for i := range times {
		if i%stride == 0 || i == len(times)-1 {
			xy = append(xy, plotter.XY{X: math.Log10(max(times[i], from)), Y: float64(i+1) / float64(all)})
		}
	}
	return append(xy, plotter.XY{X: math.Log10(to), Y: float64(len(times)) / float64(all)})
}
