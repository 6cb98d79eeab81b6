package p4

import (
	"context"
	"errors"
	"time"

	"tidegate/internal/keys"
)

// RunOptions are what Run needs besides configuration and secret.
type RunOptions struct {
	Options
	Ready    func()                               // called once the services are protected
	Every    time.Duration                        // how often Counters is called; 0: never
	Counters func(counts map[string]Counts) error // may be nil
	AtEnd    func(counts map[string]Counts) error // may be nil
}

// tick is how often what is due is done. Nothing waits for it: keys change by the
// switch's clock, and the filter's window is counted in seconds.
const tick = 250 * time.Millisecond

// Run keeps the switch's tables until ctx ends; then it lets the switch forward
// everything. A switch that does not answer any more ends it with an error.
func Run(ctx context.Context, cfg *Config, secret *keys.Secret, opt RunOptions) (err error) {
	c, err := NewController(ctx, cfg, secret, opt.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	opt.Ready()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	due := c.now().Add(opt.Every)
	for {
		select {
		case <-ctx.Done():
			return errors.Join(c.Open(), c.report(opt.AtEnd))
		case <-ticker.C:
			if err := c.Tick(); err != nil {
				return err
			}
			if opt.Every > 0 && !c.now().Before(due) {
				due = c.now().Add(opt.Every)
				if err := c.report(opt.Counters); err != nil {
					return err
				}
			}
		}
	}
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
