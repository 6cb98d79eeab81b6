// SPDX-License-Identifier: Apache-2.0

package device

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
)

// Options of `tidegate-lab device`.
type Options struct {
	Config
	Tables   bool // Tables 4 and 5 of the paper instead of one configuration
	Rate     int  // SYNs per second of the device
	Samples  int
	Seconds  int    // of the device, per sample
	Parallel int    // devices that are measured at once, 0: one; each counts its own time
	Journal  string // of the tables: a file that keeps each sample, from which an interrupted run continues; empty: none
	Requests int    // of honest clients, for legit_success
	IPv6     bool
	Source   string // the folder lwip/; empty: found
	Progress func(format string, args ...any)
}

// DefaultOptions are those of `tidegate-lab device` without flags.
func DefaultOptions() Options {
	return Options{
		Config: Config{Policy: PolicyCookies, Layout: LayoutHybrid, Queue: 8},
		Rate:   200, Samples: 5, Seconds: 30, Requests: 100,
	}
}

// Validate checks all options; an error names the option, its value, and valid values.
func (o *Options) Validate() error {
	switch {
	case o.Rate < 0 || o.Rate > maxFloodRate:
		return fmt.Errorf("--syn-rate %d: want 0 to %d SYNs per second", o.Rate, maxFloodRate)
	case o.Samples < 1 || o.Samples > 1000:
		return fmt.Errorf("--samples %d: want 1 to 1000", o.Samples)
	case o.Seconds < 1 || o.Seconds > 600:
		return fmt.Errorf("--seconds %d: want 1 to 600", o.Seconds)
	case o.Requests < 1 || o.Requests > 10000:
		return fmt.Errorf("--requests %d: want 1 to 10000", o.Requests)
	}
	return o.Config.Validate()
}

// Row is one configuration with its measurements.
type Row struct {
	Policy     string    `json:"policy"`
	Layout     string    `json:"layout"`
	Queue      int       `json:"queue"`
	SYNRate    int       `json:"syn_rate"`
	Throughput Sample    `json:"throughput_mbps"`
	Values     []float64 `json:"throughput_values_mbps"`
	Legit      *float64  `json:"legit_success,omitempty"`
	Counts
}

// Result is one configuration, with and without the attack.
type Result struct {
	Row
	NoAttack Sample `json:"throughput_no_attack_mbps"`
	Seconds  int    `json:"seconds"`
	Load     Load   `json:"load"`
}

// cell is a configuration that waits for its samples.
type cell struct {
	Config
	rate  int
	image string
	mbps  []float64
}

// runner holds what is shared by the parts of one run.
type runner struct {
	Options
	journal *journal
	images  map[string]string
}

func newRunner(o Options) (*runner, error) {
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if o.Source == "" {
		var err error
		if o.Source, err = FindSource(); err != nil {
			return nil, err
		}
	}
	return &runner{Options: o, images: map[string]string{}}, nil
}

func (r *runner) image(ctx context.Context, c Config) (string, error) {
	if image, ok := r.images[c.image()]; ok {
		return image, nil
	}
	r.Progress("building the firmware: %s", c.image())
	image, err := Build(ctx, r.Source, Firmware, c, r.Progress)
	if err == nil {
		r.images[c.image()] = image
	}
	return image, err
}

// sample measures every cell's throughput, all cells once in each round and in a
// random order each time, so that drift does not affect one of them alone.
func (r *runner) sample(ctx context.Context, cells []*cell) error {
	for _, c := range cells {
		var err error
		if c.image, err = r.image(ctx, c.Config); err != nil {
			return err
		}
	}
	type turn struct {
		*cell
		seed uint64
	}
	var turns []turn
	for round := range r.Samples {
		for _, i := range rand.Perm(len(cells)) {
			turns = append(turns, turn{cells[i], uint64(round)})
		}
	}
	var mu sync.Mutex // of what follows, of each cell's samples, and of Progress
	next, done := 0, 0
	var failed error
	work := func() {
		mu.Lock()
		defer mu.Unlock()
		for next < len(turns) && failed == nil {
			c := turns[next]
			next++
			if mbps, there := r.journal.find(c.cell, r.Seconds, c.seed); there {
				c.mbps = append(c.mbps, mbps)
				done++
				continue
			}
			mu.Unlock()
			t, err := r.saturated(ctx, c.cell, c.seed)
			mu.Lock()
			if err == nil {
				err = r.journal.add(c.cell, r.Seconds, c.seed, t.Mbps)
			}
			if err != nil {
				failed = errors.Join(failed, err)
				return
			}
			c.mbps = append(c.mbps, t.Mbps)
			done++
			r.Progress("%d/%d: %s at %d SYN/s: %.3f Mb/s (asleep %.1f %%, skipped %.1f %%)", done, len(turns), c.Config, c.rate, t.Mbps, 100*t.Idle, 100*t.Skipped)
		}
	}
	var all sync.WaitGroup
	for range max(1, r.Parallel) {
		all.Go(work)
	}
	all.Wait()
	return failed
}

// A sample counts if the device slept little for lack of frames; otherwise the machine under the emulator was
// so busy that hardly an interval is without a pause, and the sample is repeated.
const (
	maxIdle  = 0.05
	maxTries = 12
	// maxUneven is by how much the rate of the attack in the intervals that count may differ from that asked for: a sender that is
	// kept waiting sends in bursts, more of which may fall into those intervals. 1 % of 200 SYN/s is 0.01 Mb/s.
	maxUneven = 0.02
)

// evenly reports whether the attack met the device at its rate in the intervals that count.
func (t *Throughput) evenly(c *cell) bool {
	if c.rate == 0 || c.Policy == PolicyDrop || t.Seconds < 5 {
		return true // short samples show that it works, and decide nothing
	}
	return math.Abs(t.Answered-float64(c.rate)) <= maxUneven*float64(c.rate)
}

func (r *runner) saturated(ctx context.Context, c *cell, seed uint64) (t Throughput, err error) {
	var unlike error
	for range maxTries {
		if t, err = MeasureThroughput(ctx, c.image, c.Config, c.rate, r.Seconds, seed); err != nil {
			return t, fmt.Errorf("%s: %w", c.Config, err)
		}
		if unlike = plausible(c, t); unlike != nil {
			r.Progress("%v; measuring again", unlike)
			continue
		}
		if t.Idle <= maxIdle && t.evenly(c) {
			return t, nil
		}
		r.Progress("%s: the device slept %.1f %% of the time, for lack of frames, and %.1f SYN/s met it at work; measuring again", c.Config, 100*t.Idle, t.Answered)
	}
	if unlike != nil {
		return t, unlike
	}
	return t, fmt.Errorf("%s: in %d tries the device waited for its client %.1f %% of the time or more, or the attack's frames came in bursts: this machine is too busy to measure throughput",
		c.Config, maxTries, 100*maxIdle)
}

// plausible checks that the attack took place and met the requested
// policy.
func plausible(c *cell, t Throughput) error {
	want := t.Worked * float64(c.rate)
	switch {
	case float64(t.SYNs) < 0.9*want:
		return fmt.Errorf("%s: %d SYNs sent, want at least %.0f", c.Config, t.SYNs, want)
	case c.rate == 0:
		return nil
	case c.Cookies() && float64(t.Cookies) < 0.8*want:
		return fmt.Errorf("%s: only %d cookies sent for %d SYNs", c.Config, t.Cookies, t.SYNs)
	case c.Policy == PolicyRecycle && float64(t.Recycled) < 0.8*want:
		return fmt.Errorf("%s: only %d connections recycled for %d SYNs", c.Config, t.Recycled, t.SYNs)
	case c.Policy == PolicyDrop && int(t.HalfOpen) != c.Queue:
		return fmt.Errorf("%s: %d half-open connections, want a full queue", c.Config, t.HalfOpen)
	}
	return nil
}

func (r *runner) row(ctx context.Context, c *cell) (Row, error) {
	counts, err := Count(ctx, c.image, c.Config)
	return Row{
		Policy: c.Policy, Layout: c.Layout, Queue: c.Queue, SYNRate: c.rate,
		Throughput: Describe(c.mbps), Values: c.mbps, Counts: counts,
	}, err
}

// Run measures one configuration.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	attacked, calm := &cell{Config: o.Config, rate: o.Rate}, &cell{Config: o.Config}
	if err := r.sample(ctx, []*cell{attacked, calm}); err != nil {
		return nil, err
	}
	res := &Result{NoAttack: Describe(calm.mbps), Seconds: o.Seconds}
	if res.Row, err = r.row(ctx, attacked); err != nil {
		return nil, err
	}
	r.Progress("%d requests of honest clients under %d SYN/s", o.Requests, o.Rate)
	if res.Load, err = MeasureLoad(ctx, Firmware, attacked.image, o.Config, o.Rate, o.Requests, o.IPv6); err != nil {
		return nil, err
	}
	success := res.Load.Success()
	res.Legit = &success
	return res, nil
}
