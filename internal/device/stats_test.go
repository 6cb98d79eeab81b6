// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"
	"testing"
)

// The paper's own figures, from its Tables 4 and 5 and the text around them.
var (
	paperFreeBSD = Sample{N: 30, Mean: 31.94, SD: 0.094}
	paperLinux   = Sample{N: 30, Mean: 31.67, SD: 0.073}
	paperHybrid  = Sample{N: 30, Mean: 31.91, SD: 0.081}
)

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestCompareMeansGivesTheSeedsFigures(t *testing.T) {
	for _, c := range []struct {
		name              string
		a, b              Sample
		t, d, low, high   float64
		significantAtFive bool
	}{
		{"linux and freebsd", paperLinux, paperFreeBSD, -12.4256, -3.2, -0.31350, -0.22650, true},
		{"linux and hybrid", paperLinux, paperHybrid, -12.0554, -3.11, -0.27985, -0.20015, true},
		{"freebsd and hybrid", paperFreeBSD, paperHybrid, 1.3242, 0.34, -0.01535, 0.07535, false},
	} {
		got, ok := CompareMeans(c.a, c.b)
		if !ok {
			t.Fatalf("%s: no result", c.name)
		}
		near(t, c.name+": t", got.T, c.t, 0.0001)
		near(t, c.name+": degrees of freedom", got.DF, 58, 0)
		near(t, c.name+": d", got.D, c.d, 0.015)
		near(t, c.name+": interval", got.Low, c.low, 0.00001)
		near(t, c.name+": interval", got.High, c.high, 0.00001)
		if (got.P <= 0.05) != c.significantAtFive {
			t.Errorf("%s: p = %v", c.name, got.P)
		}
	}
}

func TestAnalyseVarianceGivesTheSeedsFigure(t *testing.T) {
	a, ok := AnalyseVariance(paperTable5())
	if !ok {
		t.Fatal("no result")
	}
	// The paper's means and deviations are rounded; its F is 938.966.
	near(t, "F", a.F, 938.966, 2)
	near(t, "between", a.DFBetween, 4, 0)
	near(t, "within", a.DFWithin, 145, 0)
	if a.P > 1e-100 {
		t.Errorf("p = %v", a.P)
	}
}

// Known answers computed by hand: 1..5 against 3..7.
func TestSmallSamples(t *testing.T) {
	a, b := Describe([]float64{1, 2, 3, 4, 5}), Describe([]float64{3, 4, 5, 6, 7})
	near(t, "mean", a.Mean, 3, 0)
	near(t, "sd", a.SD, math.Sqrt(2.5), 1e-12) // (4+1+0+1+4)/4
	got, _ := CompareMeans(a, b)
	near(t, "t", got.T, -2, 1e-12)      // -2 / sqrt(2.5 * 2/5) = -2 / 1
	near(t, "p", got.P, 0.0805, 0.0001) // table of t with 8 degrees of freedom
	v, _ := AnalyseVariance([]Sample{a, b})
	near(t, "F", v.F, 4, 1e-12) // of two samples: t squared
	near(t, "p of F", v.P, got.P, 1e-9)
	if _, ok := CompareMeans(Sample{N: 3, Mean: 1}, Sample{N: 3, Mean: 2}); ok {
		t.Error("samples without spread have a t")
	}
	near(t, "Bonferroni", Bonferroni(0.02, 10), 0.2, 1e-12)
	near(t, "Bonferroni, at most 1", Bonferroni(0.5, 10), 1, 0)
}
