// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"math"
	"slices"

	"tidegate/internal/lab/load"
)

const (
	// middleRate is where a search begins, in SYNs per second.
	middleRate = 32_000
	// firstRate is the lowest rate that a search tries.
	firstRate = 1000
	// stride is the factor by which a search goes up until a rate is too high, or down until one is not.
	stride = 4
	// closeEnough is the ratio of the bounds at which a search ends.
	closeEnough = 1.12
	// lowest is the rate at which a search gives up.
	lowest = firstRate / step / step
	// step is how far around the first result later searches begin.
	step = 1.5
)

// measured returns the measurement at a rate.
type measured func(rate load.Rate) (Point, error)

// search finds a capacity several times. most is the measurement at the generator's
// maximum: a defence that serves enough there has no capacity that can be found here.
func search(at measured, most Point, searches int) (c Capacity, err error) {
	if most.Success >= Served {
		return Capacity{Median: most.Offered, Low: most.Offered, High: most.Offered, AtLeast: true}, nil
	}
	var found []float64
	low, high := 0.0, most.Offered
	for rate := float64(middleRate); rate < high; rate *= stride {
		p, err := at(load.Rate(rate))
		if err != nil {
			return c, err
		}
		if p.Success < Served {
			high = rate
			break
		}
		low = p.Offered
	}
	for low == 0 && high > firstRate {
		rate := max(high/stride, firstRate)
		p, err := at(load.Rate(rate))
		if err != nil {
			return c, err
		}
		if p.Success >= Served {
			low = p.Offered
			break
		}
		high = rate
	}
	for i := range searches {
		if i > 0 {
			if low, high, err = around(at, found[0], most.Offered); err != nil {
				return c, err
			}
		}
		if low, err = bisect(at, low, high); err != nil {
			return c, err
		}
		found = append(found, low)
		if low == 0 {
			break // too high even at the lowest rate
		}
	}
	slices.Sort(found)
	return Capacity{Median: found[len(found)/2], Low: found[0], High: found[len(found)-1]}, nil
}

// around finds bounds, a rate that is served and one that is not, near an earlier result.
func around(at measured, near, most float64) (low, high float64, err error) {
	for low = near / step; low >= lowest; low /= step {
		p, err := at(load.Rate(low))
		if err != nil {
			return 0, 0, err
		}
		if p.Success >= Served {
			low = p.Offered
			break
		}
		high = low
	}
	if low < lowest {
		low = 0
	}
	if high > 0 {
		return low, high, nil
	}
	for high = near * step; high < most; high *= step {
		p, err := at(load.Rate(high))
		if err != nil {
			return 0, 0, err
		}
		if p.Success < Served {
			return low, high, nil
		}
		low = p.Offered
	}
	return low, most, nil
}

// bisect bisects on a logarithmic scale and returns the highest rate that was served.
// A generator may offer less than it is asked for: the bounds are rates asked for, the result was offered.
func bisect(at measured, low, high float64) (float64, error) {
	if low == 0 {
		return 0, nil
	}
	best := low
	for high/low > closeEnough {
		rate := math.Sqrt(low * high)
		p, err := at(load.Rate(rate))
		if err != nil {
			return 0, err
		}
		if p.Success >= Served {
			low, best = rate, max(best, p.Offered)
		} else {
			high = rate
		}
	}
	return best, nil
}
