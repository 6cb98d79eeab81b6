// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"tidegate/internal/p4/simpleswitch"
)

// RunOptions are Run's options besides configuration and secret.
type RunOptions struct {
	Options
	Ready    func()                               // called once the services are protected
	Every    time.Duration                        // how often Counters is called; 0: never
	Counters func(counts map[string]Counts) error // may be nil
	AtEnd    func(counts map[string]Counts) error // may be nil
	Figures  func(Figures)                        // called once a second; may be nil

	Reload   <-chan os.Signal                // each value triggers a reload
	Load     func() (*Config, Secret, error) // reads it
	Reloaded func(*Config, error)            // called after each reload, refused or not, with the configuration in force; may be nil

	Stay func() bool // called at the end: whether the switch keeps protecting; nil: it then forwards everything
}

// Figures are the controller's state beyond the switch's counters.
type Figures struct {
	Answers  bool       `json:"answers"`  // the switch
	Since    time.Time  `json:"since"`    // when it was configured, or was found gone
	Restarts uint64     `json:"restarts"` // how often it came back
	Entries  int        `json:"entries"`  // sources or connections in its table
	MACs     MACFigures `json:"macs"`

	Filter *FilterFigures `json:"filter,omitempty"` // of an edge
}

const (
	// tick is the interval of periodic work. Nothing waits for it: keys change by the
	// switch's clock, and the filter's window is counted in seconds.
	tick = 250 * time.Millisecond

	figuresEvery    = time.Second
	waitingLogEvery = 30 * time.Second // at most this often
)

// runner is the life of a controller, across restarts of its switch.
type runner struct {
	cfg     *Config
	secret  Secret
	opt     RunOptions
	log     *slog.Logger
	ready   bool
	figures Figures
	learned MACFigures // by controllers before this one
	next    *reload    // about to be tried
}

// Run maintains the switch's tables until ctx ends; then it makes the switch forward
// everything, unless opt.Stay says otherwise. It waits for a switch that is not there yet; one that has gone is awaited
// and configured again.
func Run(ctx context.Context, cfg *Config, secret Secret, opt RunOptions) error {
	r := &runner{cfg: cfg, secret: secret, opt: opt, log: opt.Log}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	var c *Controller
	for {
		var err error
		if c == nil {
			if c, err = r.connect(ctx); err != nil || c == nil {
				return err
			}
		}
		err = r.keep(ctx, c)
		r.learned = c.macs.figures().plus(r.learned)
		was := c
		if c = nil; errors.Is(err, errReload) {
			if err := was.Close(); err != nil {
				return err
			}
			c = r.change(ctx)
			continue
		}
		if closed := was.Close(); !simpleswitch.Gone(err) {
			return errors.Join(err, closed)
		}
		r.log.Warn("the switch no longer answers; waiting for it", "thrift", cfg.Thrift, "error", err)
		r.gone()
	}
}

func (r *runner) gone() {
	if r.figures.Answers || r.figures.Since.IsZero() {
		r.figures.Answers, r.figures.Since = false, time.Now()
	}
	r.say()
}

func (r *runner) say() {
	if r.opt.Figures != nil {
		r.opt.Figures(r.figures)
	}
}

// connect waits for the switch and configures it; nil if ctx ended first.
func (r *runner) connect(ctx context.Context) (*Controller, error) {
	var logged time.Time
	wait := time.NewTicker(tick)
	defer wait.Stop()
	for {
		c, err := NewController(ctx, r.cfg, r.secret, r.opt.Options)
		switch {
		case err == nil:
			r.connected(c)
			return c, nil
		case ctx.Err() != nil:
			return nil, nil
		case !simpleswitch.Gone(err):
			return nil, err
		case time.Since(logged) >= waitingLogEvery:
			logged = time.Now()
			r.log.Warn("waiting for the switch", "thrift", r.cfg.Thrift, "error", err)
			r.gone()
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-r.opt.Reload:
			if next := r.read(); next != nil {
				r.take(next)
			}
		case <-wait.C:
		}
	}
}

func (r *runner) connected(c *Controller) {
	r.figures.Answers, r.figures.Since = true, time.Now()
	switch {
	case !r.ready:
		r.ready = true
		r.opt.Ready()
	case c.Adopted():
		r.log.Info("the switch answers again; its state is intact")
	default:
		r.figures.Restarts++
		r.log.Info("the switch was restarted; its state was programmed again")
	}
	r.look(c)
}

// look updates the figures.
func (r *runner) look(c *Controller) {
	r.figures.Entries, r.figures.MACs = c.Entries(), c.macs.figures().plus(r.learned)
	r.say()
}

// keep performs periodic work until ctx ends, or the switch is gone.
func (r *runner) keep(ctx context.Context, c *Controller) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	due, figures, filter := c.now().Add(r.opt.Every), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			if r.opt.Stay != nil && r.opt.Stay() {
				return c.report(r.opt.AtEnd)
			}
			if err := errors.Join(c.Open(), c.report(r.opt.AtEnd)); !simpleswitch.Gone(err) {
				return err
			}
			r.log.Warn("the switch does not answer; it could not be set to forward everything")
			return nil
		case <-r.opt.Reload:
			if r.next = r.read(); r.next != nil {
				return errReload
			}
		case <-ticker.C:
			if err := c.Tick(); err != nil {
				return err
			}
			if r.opt.Every > 0 && !c.now().Before(due) {
				due = c.now().Add(r.opt.Every)
				if err := c.report(r.opt.Counters); err != nil {
					return err
				}
			}
			if now := time.Now(); c.cfg.Program == ProgramEdge && !now.Before(filter) {
				filter = now.Add(filterEvery)
				if err := r.lookAtFilter(c); err != nil {
					return err
				}
			}
			if now := time.Now(); !now.Before(figures) {
				figures = now.Add(figuresEvery)
				r.look(c)
			}
		}
	}
}

// lookAtFilter logs when the filter becomes saturated, and when it no longer is.
func (r *runner) lookAtFilter(c *Controller) error {
	f, err := c.Filter()
	if err != nil {
		return err
	}
	switch was := r.figures.Filter != nil && r.figures.Filter.Alarm; {
	case f.Alarm && !was:
		r.log.Warn("the filter is saturated; this share of unknown ACKs is forwarded to the servers", "fp_rate", f.Computed, "alarm_above", c.cfg.FilterAlarm)
	case was && !f.Alarm:
		r.log.Info("the filter is no longer saturated", "fp_rate", f.Computed)
	}
	r.figures.Filter = f
	return nil
}

func (c *Controller) report(to func(map[string]Counts) error) error {
	if to == nil {
		return nil
	}
	counts, err := c.Counters()
	if err != nil {
		return err
	}
	return to(counts)
}
