// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"errors"
	"math"
	"testing"

	"tidegate/internal/lab/load"
)

// A search finds the rate beyond which a simulated defence serves too few, at any capacity.
func TestSearch(t *testing.T) {
	const most = 3e6
	for _, capacity := range []float64{1500, 180_000, 240_000, 1.7e6, 2.9e6} {
		calls := 0
		at := func(rate load.Rate) (Point, error) {
			calls++
			p := Point{Offered: math.Min(float64(rate), most), Success: 1}
			if p.Offered > capacity {
				p.Success = 0.9
			}
			return p, nil
		}
		c, err := search(at, Point{Offered: most, Success: 0.9}, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []float64{c.Low, c.Median, c.High} {
			if v > capacity || v < capacity/closeEnough/1.02 {
				t.Errorf("capacity %g: found %g (%+v)", capacity, v, c)
			}
		}
		if c.AtLeast || calls > 45 {
			t.Errorf("capacity %g: %d measurements, %+v", capacity, calls, c)
		}
	}
}

// A capacity is a rate that was offered, also where the generator offers less than it is asked for.
func TestSearchReportsWhatWasOffered(t *testing.T) {
	offered := 0.0
	at := func(rate load.Rate) (Point, error) {
		p := Point{Offered: 0.7 * float64(rate), Success: 1}
		if rate > 300_000 {
			p.Success = 0.9
		} else {
			offered = max(offered, p.Offered)
		}
		return p, nil
	}
	c, err := search(at, Point{Offered: 2e6, Success: 0.5}, 2)
	if err != nil || c.High > offered || c.Low < offered/closeEnough/1.02 {
		t.Errorf("%+v, %v: at most %g was offered and served", c, err, offered)
	}
}

func TestSearchAtItsEnds(t *testing.T) {
	never := func(load.Rate) (Point, error) { return Point{Success: 0.5}, nil }
	if c, err := search(never, Point{Offered: 1e6, Success: 0}, 3); err != nil || c != (Capacity{}) {
		t.Errorf("a defence that serves nobody: %+v, %v", c, err)
	}
	if c, err := search(never, Point{Offered: 1e6, Success: 1}, 3); err != nil || !c.AtLeast || c.Median != 1e6 {
		t.Errorf("a defence that serves everybody: %+v, %v", c, err)
	}
	broken := errors.New("broken")
	if _, err := search(func(load.Rate) (Point, error) { return Point{}, broken }, Point{Offered: 1e6}, 3); !errors.Is(err, broken) {
		t.Errorf("a failed measurement: %v", err)
	}
}

// Offered, processed and lost add up, and the clients' own frames do not count as flood.
func TestPointFill(t *testing.T) {
	var p Point
	p.fill(gauges{arrived: 100}, gauges{arrived: 100 + 6000 + 60_000, victim: 2e9}, load.FloodStats{Frames: 100_000, ClientFrames: 6000, Wall: 2e9})
	for _, c := range []struct {
		p    Point
		want bool
	}{{Point{Success: 0.996, VictimCPU: 0.5, VictimWait: 0.003}, true}, {Point{Success: 0.996, VictimCPU: 0.95, VictimWait: 0.03}, false}, {Point{Success: 0.99, VictimCPU: 0.5, VictimWait: 0.001}, false}, {Point{Success: 1}, false}} {
		if c.p.Disturbed() != c.want {
			t.Errorf("%+v: disturbed %v", c.p, !c.want)
		}
	}
	if p.Offered != 50_000 || p.Processed != 33_000 || p.Lost != 20_000 || p.VictimCPU != 1 {
		t.Errorf("%+v", p)
	}
}
