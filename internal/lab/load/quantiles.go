// SPDX-License-Identifier: Apache-2.0

package load

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Quantiles of a time, in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	// With fewer values than they need, these are the maximum.
	P9999  float64 `json:"p9999"`
	P99999 float64 `json:"p99999"`
}

// newTimes makes a histogram of microseconds up to a minute, to three digits.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// recordTime adds one time, clamped to what the histogram holds.
func recordTime(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	ms := func(q float64) float64 { return Round3(float64(h.ValueAtQuantile(q)) / 1000) }
	return Quantiles{P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), P9999: ms(99.99), P99999: ms(99.999)}
}

// Round3 keeps three decimals: microseconds of a value in milliseconds.
func Round3(v float64) float64 { return math.Round(v*1000) / 1000 }
