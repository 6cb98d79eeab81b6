// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"context"
	"fmt"

	"tidegate/internal/lab/load"
)

// Levels are the three loads of *Me Love (SYN-)Cookies*, figure 12, measured for long enough to show the tail of the latency.
type Levels struct {
	Seconds  float64 `json:"seconds"`
	None     Point   `json:"none"`     // no flood
	Half     Point   `json:"half"`     // half of the capacity, or of the generator's maximum, if that is less
	Overload Point   `json:"overload"` // the generator's maximum
}

// measureLevels measures a defence whose capacity is known.
func (d *Defence) measureLevels(ctx context.Context, o Options, s *stand) error {
	s.opts.Duration = o.LevelsFor
	half := d.AtMax.Offered / 2
	if !d.Capacity.Unsought {
		half = d.Capacity.Median / 2
	}
	l := &Levels{Seconds: o.LevelsFor.Seconds()}
	for _, level := range []struct {
		to   *Point
		rate load.Rate
	}{{&l.None, 0}, {&l.Half, load.Rate(half)}, {&l.Overload, load.RateMax}} {
		p, err := s.at(ctx, level.rate)
		if err != nil {
			return fmt.Errorf("for %s at %s SYN/s: %w", o.LevelsFor, level.rate, err)
		}
		*level.to = p
		if o.Done != nil {
			o.Done(d.Name, p)
		}
	}
	d.Levels = l
	return nil
}
