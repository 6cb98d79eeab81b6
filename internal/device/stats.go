// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Sample describes one configuration's measurements, with the values that the paper
// gives, so that its figures and ours go through the same tests.
type Sample struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"` // of the sample, N-1
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Describe makes a Sample of measurements.
func Describe(x []float64) Sample {
	s := Sample{N: len(x), Min: math.NaN(), Max: math.NaN()}
	if len(x) == 0 {
		return Sample{}
	}
	s.Mean = stat.Mean(x, nil)
	if len(x) > 1 {
		s.SD = stat.StdDev(x, nil)
	}
	s.Min, s.Max = x[0], x[0]
	for _, v := range x {
		s.Min, s.Max = min(s.Min, v), max(s.Max, v)
	}
	return s
}

// TTest is Student's unpaired t test with pooled variance, as the paper uses it,
// and Cohen's d.
type TTest struct {
	T  float64 `json:"t"`
	DF float64 `json:"df"`
	P  float64 `json:"p"` // two-sided
	D  float64 `json:"cohen_d"`
	// The 95 % confidence interval of the difference of means, a less b.
	Low  float64 `json:"ci95_low"`
	High float64 `json:"ci95_high"`
}

// CompareMeans tests two samples. Samples without any spread have no t.
func CompareMeans(a, b Sample) (TTest, bool) {
	df := float64(a.N + b.N - 2)
	if a.N < 2 || b.N < 2 {
		return TTest{}, false
	}
	pooled := (float64(a.N-1)*a.SD*a.SD + float64(b.N-1)*b.SD*b.SD) / df
	if pooled == 0 {
		return TTest{}, false
	}
	diff := a.Mean - b.Mean
	se := math.Sqrt(pooled * (1/float64(a.N) + 1/float64(b.N)))
	dist := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}
	half := dist.Quantile(0.975) * se
	return TTest{
		T: diff / se, DF: df, P: 2 * dist.Survival(math.Abs(diff/se)),
		D: diff / math.Sqrt(pooled), Low: diff - half, High: diff + half,
	}, true
}

// ANOVA is the one-way analysis of variance between samples.
type ANOVA struct {
	F         float64 `json:"f"`
	DFBetween float64 `json:"df_between"`
	DFWithin  float64 `json:"df_within"`
	P         float64 `json:"p"`
}

// AnalyseVariance compares three samples or more at once.
func AnalyseVariance(samples []Sample) (ANOVA, bool) {
	var n, sum, within float64
	for _, s := range samples {
		n += float64(s.N)
		sum += float64(s.N) * s.Mean
		within += float64(s.N-1) * s.SD * s.SD
	}
	a := ANOVA{DFBetween: float64(len(samples) - 1), DFWithin: n - float64(len(samples))}
	if a.DFBetween < 1 || a.DFWithin < 1 || within == 0 {
		return ANOVA{}, false
	}
	var between float64
	for _, s := range samples {
		d := s.Mean - sum/n
		between += float64(s.N) * d * d
	}
	a.F = (between / a.DFBetween) / (within / a.DFWithin)
	// distuv.F's Survival is 1 - CDF and loses precision below 1e-16; this is the tail itself.
	a.P = mathext.RegIncBeta(a.DFWithin/2, a.DFBetween/2, a.DFWithin/(a.DFWithin+a.DFBetween*a.F))
	return a, true
}

// Bonferroni corrects a p value for the number of comparisons.
func Bonferroni(p float64, comparisons int) float64 {
	return min(1, p*float64(comparisons))
}
