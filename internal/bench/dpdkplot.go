// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// The colours of Okabe and Ito, which people with colour blindness can distinguish.
var dpdkColors = map[string]color.RGBA{
	"macswap":     {0x88, 0x88, 0x88, 0xff},
	"auth-full":   {0xe6, 0x9f, 0x00, 0xff},
	"auth-cookie": {0x00, 0x72, 0xb2, 0xff},
	"cookie":      {0x00, 0x9e, 0x73, 0xff},
	"cache":       {0xcc, 0x79, 0xa7, 0xff},
	"cache-keep":  {0xf0, 0xe4, 0x42, 0xff},
	"forward":     {0x56, 0xb4, 0xe9, 0xff},
	"translate":   {0xd5, 0x5e, 0x00, 0xff},
}

// Plots draws the paper's figures 8 (what one core takes, by strategy), 9 (by burst
// length) and 10 (by cores) into a directory, as SVG.
func (r *DPDKResult) Plots(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, draw := range map[string]func() (*plot.Plot, error){
		"fig8-strategies.svg": r.plotStrategies,
		"fig9-bursts.svg":     r.plotBursts,
		"fig10-cores.svg":     r.plotCores,
	} {
		p, err := draw()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.Y.Min = 0
		p.Y.Label.Text = "million frames a second"
		if err := p.Save(7*vg.Inch, 4.2*vg.Inch, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *DPDKResult) plotStrategies() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "One core, " + r.DPDK + ", bursts of " + fmt.Sprint(r.Burst)
	var names []string
	for _, k := range dpdkKinds {
		s, ok := r.MppsPerCore[k]
		if !ok {
			continue
		}
		bar, err := plotter.NewBarChart(plotter.Values{s.Median}, 0.5*vg.Inch)
		if err != nil {
			return nil, err
		}
		bar.XMin, bar.Color = float64(len(names)), dpdkColors[k]
		p.Add(bar)
		names = append(names, k)
	}
	p.NominalX(names...)
	return p, nil
}

func (r *DPDKResult) plotBursts() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = "One core, by burst length", "frames in a burst"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, burstTicks{}
	for _, k := range dpdkKinds {
		var xy plotter.XYs
		for _, n := range dpdkBursts {
			if s, ok := r.Batch[k][fmt.Sprint(n)]; ok {
				xy = append(xy, plotter.XY{X: float64(n), Y: s.Median})
			}
		}
		if err := addLine(p, k, xy); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (r *DPDKResult) plotCores() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = "By cores, bursts of "+fmt.Sprint(r.Burst), "cores"
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 1, Label: "1"}, {Value: 2, Label: "2"}}
	for _, k := range dpdkKinds {
		var xy plotter.XYs
		for n := 1; n <= 2; n++ {
			if s, ok := r.Cores[k][fmt.Sprint(n)]; ok {
				xy = append(xy, plotter.XY{X: float64(n), Y: s.Median})
			}
		}
		if err := addLine(p, k, xy); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func addLine(p *plot.Plot, name string, xy plotter.XYs) error {
	if len(xy) == 0 {
		return nil
	}
	line, points, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	line.Color, points.Color, line.Width = dpdkColors[name], dpdkColors[name], vg.Points(2)
	p.Add(line, points)
	p.Legend.Add(name, line, points)
	p.Legend.Top, p.Legend.Left = true, true
	return nil
}

type burstTicks struct{}

// Ticks marks the burst lengths that were measured.
func (burstTicks) Ticks(_, _ float64) (ticks []plot.Tick) {
	for _, n := range dpdkBursts {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: fmt.Sprint(n)})
	}
	return ticks
}
