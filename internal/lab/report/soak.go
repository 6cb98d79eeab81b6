// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"tidegate/internal/lab/soak"
)

// SoakPlotFile is the plot that WriteSoak writes beside the results.
const SoakPlotFile = "soak.svg"

// WriteSoak writes the plot of memory over time and results.json to dir.
func WriteSoak(dir string, r *soak.Result) error {
	svg, err := soakPlot(r)
	if err != nil {
		return err
	}
	return writeFiles(dir, r, map[string][]byte{SoakPlotFile: svg})
}

// soakPlot draws the daemon's resident memory and that of the BPF maps, and a thin vertical line for each change.
// The daemon's line is broken where another one starts.
func soakPlot(r *soak.Result) ([]byte, error) {
	p := newPlot(fmt.Sprintf("Memory under %.0f SYN/s", r.SYNPPS), "seconds", "MiB")
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	var rss, maps plotter.XYs
	var lives []plotter.XYs
	top := 1.0
	for i, s := range r.Samples {
		if i > 0 && s.PID != r.Samples[i-1].PID {
			lives, rss = append(lives, rss), nil
		}
		rss = append(rss, plotter.XY{X: s.At, Y: float64(s.RSS) / (1 << 20)})
		maps = append(maps, plotter.XY{X: s.At, Y: float64(s.Maps) / (1 << 20)})
		top = max(top, rss[len(rss)-1].Y, maps[i].Y)
	}
	lives = append(lives, rss)
	p.Y.Min, p.Y.Max = 0, 1.25*top
	for _, c := range r.Did {
		mark, err := plotter.NewLine(plotter.XYs{{X: c.At, Y: 0}, {X: c.At, Y: 1.1 * top}})
		if err != nil {
			return nil, err
		}
		mark.Color, mark.Width = grey, 0.4
		p.Add(mark)
	}
	for i, life := range lives {
		if len(life) == 0 {
			continue
		}
		line, err := plotter.NewLine(life)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = vermillion, thinLine
		p.Add(line)
		if i == len(lives)-1 {
			p.Legend.Add("daemon, resident", line)
		}
	}
	if len(maps) > 0 {
		line, err := plotter.NewLine(maps)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = blue, thinLine
		p.Add(line)
		p.Legend.Add("BPF maps", line)
	}
	p.Legend.Top = true
	p.Legend.TextStyle.Font = sans
	p.Legend.TextStyle.Font.Size = 11
	canvas := vgsvg.New(connectWidth, connectHeight)
	p.Draw(draw.Crop(draw.New(canvas), 0.1*vg.Inch, -0.2*vg.Inch, 0.1*vg.Inch, -0.1*vg.Inch))
	var buf bytes.Buffer
	_, err := canvas.WriteTo(&buf)
	return buf.Bytes(), err
}
