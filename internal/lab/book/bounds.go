// SPDX-License-Identifier: Apache-2.0

package book

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"tidegate/internal/device"
)

// bounds are the standard error of a mean and its 95 % confidence interval, by Student's t.
func bounds(s device.Sample) (se, low, high float64) {
	if s.N < 2 {
		return 0, s.Mean, s.Mean
	}
	se = s.SD / math.Sqrt(float64(s.N))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(s.N - 1)}.Quantile(0.975)
	return se, s.Mean - t*se, s.Mean + t*se
}
