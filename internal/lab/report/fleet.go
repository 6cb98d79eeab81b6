// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"tidegate/internal/lab/fleets"
)

// FleetPlotFile is the plot that WriteFleet writes beside the results.
const FleetPlotFile = "fleet.svg"

// WriteFleet writes the plot of who knew what when and results.json to dir.
func WriteFleet(dir string, r *fleets.Result) error {
	svg, err := fleetPlot(r)
	if err != nil {
		return err
	}
	return writeFiles(dir, r, map[string][]byte{FleetPlotFile: svg})
}

// fleetPlot draws, for each event, the share of those concerned that knew of it after so many milliseconds.
func fleetPlot(r *fleets.Result) ([]byte, error) {
	p := newPlot(fmt.Sprintf("Who knew what when: %d gates, %.0f SYN/s", r.Gates, r.Rate), "milliseconds after the event", "% of those concerned")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 60_000, 0, 160 // room for the legend
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	colours := []color.RGBA{blue, orange, green, vermillion, purple, sky, grey}
	for i, row := range r.Rows {
		if len(row.Each) == 0 {
			continue
		}
		var steps plotter.XYs
		known := 0.0
		for k, ms := range row.Each {
			ms = max(ms, 1)
			steps = append(steps, plotter.XY{X: ms, Y: known})
			known = 100 * float64(k+1) / float64(row.When.All)
			steps = append(steps, plotter.XY{X: ms, Y: known})
		}
		line, err := plotter.NewLine(steps)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colours[i%len(colours)], 1.6
		if i >= len(colours) {
			line.Dashes = dotted
		}
		p.Add(line)
		p.Legend.Add(row.Event+": "+row.Who, line)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font = sans
	p.Legend.TextStyle.Font.Size = 8
	canvas := vgsvg.New(connectWidth, connectHeight)
	p.Draw(draw.Crop(draw.New(canvas), 0.1*vg.Inch, -0.2*vg.Inch, 0.1*vg.Inch, -0.1*vg.Inch))
	var buf bytes.Buffer
	_, err := canvas.WriteTo(&buf)
	return buf.Bytes(), err
}
