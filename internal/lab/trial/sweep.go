// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// SweepOptions is a set of experiments: every defence at every rate.
type SweepOptions struct {
	Base     Options // all but defence and rate
	Defences []string
	Rates    []load.Rate
	// Done is told each outcome as it comes; done counts up to total.
	Done func(p Point, done, total int)
}

// DefaultSweep fits, build included, into five minutes on two cores.
func DefaultSweep() SweepOptions {
	base := DefaultOptions()
	base.Load, base.Duration, base.Timeout = 400, 4*time.Second, 2*time.Second
	return SweepOptions{
		Base: base, Defences: defences.All(),
		Rates: []load.Rate{1000, 10000, 50000, 200000, load.RateMax},
	}
}

// Choose takes another list of rates, if one is given, and checks every experiment.
func (o *SweepOptions) Choose(rates string) error {
	if rates != "" {
		o.Rates = nil
		for _, text := range strings.Split(rates, ",") {
			r, err := load.ParseRate(text)
			if err != nil {
				return fmt.Errorf("--rates: %w", err)
			}
			o.Rates = append(o.Rates, r)
		}
	}
	if len(o.Defences) == 0 {
		return errors.New("--defences: name at least one")
	}
	for _, d := range o.Defences {
		one := o.Base
		one.Defence = d
		if err := one.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Point is one experiment of a sweep: a result, or why there is none.
type Point struct {
	Defence string  `json:"defence"`
	Rate    string  `json:"rate"`
	Result  *Result `json:"result,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Sweep is everything a report is made of.
type Sweep struct {
	Begun    time.Time `json:"begun"`
	Seconds  float64   `json:"seconds"`
	Kernel   string    `json:"kernel"`
	CPU      string    `json:"cpu"`
	CPUs     int       `json:"cpus"`
	Load     float64   `json:"load_per_s"`
	Timeout  float64   `json:"timeout_ms"`
	Clients  int       `json:"clients"`
	Defences []string  `json:"defences"`
	Rates    []string  `json:"rates"`
	Points   []Point   `json:"points"`
}

// Find returns the result of one experiment, nil if there is none.
func (s *Sweep) Find(defence, rate string) *Result {
	for _, p := range s.Points {
		if p.Defence == defence && p.Rate == rate {
			return p.Result
		}
	}
	return nil
}

// RunSweep runs all experiments. One that fails is reported in its point and
// the others go on, so that a kernel without one feature still shows the rest;
// a defence that failed once is not tried again. Only ctx ends the sweep early.
func RunSweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	s := &Sweep{
		Begun: time.Now().UTC().Truncate(time.Second), Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), CPUs: runtime.NumCPU(),
		Load: o.Base.Load, Timeout: o.Base.Timeout.Seconds() * 1e3, Clients: o.Base.Clients, Defences: o.Defences,
	}
	begin := time.Now()
	for _, r := range o.Rates {
		s.Rates = append(s.Rates, r.String())
	}
	failed := map[string]error{}
	var errs []error
	total := len(o.Rates) * len(o.Defences)
	for _, rate := range o.Rates {
		for _, d := range o.Defences {
			p := Point{Defence: d, Rate: rate.String()}
			if failed[d] == nil {
				one := o.Base
				one.Defence, one.Rate = d, rate
				res, err := Run(ctx, one)
				if errors.Is(err, ErrDisturbed) { // once more; then it is told
					res, err = Run(ctx, one)
				}
				if ctx.Err() != nil {
					return nil, errors.Join(ctx.Err(), err)
				}
				if errors.Is(err, ErrDisturbed) {
					p.Error = err.Error()
				} else if err != nil {
					failed[d] = err
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s at %s SYN/s: %w", d, rate, err))
				}
				p.Result = res
			}
			if failed[d] != nil {
				p.Error = failed[d].Error()
			}
			s.Points = append(s.Points, p)
			if o.Done != nil {
				o.Done(p, len(s.Points), total)
			}
		}
	}
	s.Seconds = load.Round3(time.Since(begin).Seconds())
	return s, errors.Join(errs...)
}
