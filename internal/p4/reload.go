// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidegate/internal/p4/simpleswitch"
	"tidegate/internal/schema"
)

// A reload ends one controller and starts another, which takes over what the first has
// left in the switch: nothing is forgotten, and entries change in place.

var errReload = errors.New("reload")

// reload is a configuration about to replace the present one.
type reload struct {
	cfg    *Config
	secret Secret
	fresh  []uint8 // numbers of services that are new
}

// read rereads the configuration; nil, with a log line, on failure.
func (r *runner) read() *reload {
	cfg, secret, err := r.opt.Load()
	if err == nil {
		err = r.cfg.checkReload(cfg)
	}
	if err != nil {
		r.refused(err)
		return nil
	}
	return &reload{cfg, secret, cfg.keepNumbers(r.cfg)}
}

// refused reports that a reload has ended with the old configuration in force.
func (r *runner) refused(err error) {
	r.log.Error("reload refused; the old configuration stays in force", "error", err)
	if r.opt.Reloaded != nil {
		r.opt.Reloaded(r.cfg, err)
	}
}

// change starts a controller with the new configuration; nil, and the old one stays, if the
// switch cannot have it.
func (r *runner) change(ctx context.Context) *Controller {
	next := r.next
	r.next = nil
	c, err := NewController(ctx, next.cfg, next.secret, r.opt.Options)
	if err == nil {
		for _, id := range next.fresh {
			err = errors.Join(err, c.forgetCounts(id))
		}
	}
	if err != nil && !simpleswitch.Gone(err) { // a switch that is gone is awaited, and gets the new configuration
		r.refused(fmt.Errorf("the switch does not take it: %w", err))
		return nil
	}
	r.take(next)
	return c
}

// take puts another configuration in force.
func (r *runner) take(next *reload) {
	r.cfg, r.secret = next.cfg, next.secret
	if r.opt.Reloaded != nil {
		r.opt.Reloaded(next.cfg, nil)
	}
	r.log.Info("the configuration was reloaded", "services", len(next.cfg.Services))
}

// checkReload refuses changes that need a restart.
func (c *Config) checkReload(next *Config) error {
	for name, differs := range map[string]bool{
		"instance": c.Instance != next.Instance, "metrics": c.Metrics != next.Metrics, "services.strategy (the program on the switch)": c.Program != next.Program,
		"thrift": c.Thrift != next.Thrift, "notifications": c.Notifications != next.Notifications, "epoch": c.Epoch != next.Epoch,
		"protocol": c.Protocol != next.Protocol, "whitelist": c.Whitelist != next.Whitelist,
	} {
		if differs {
			return fmt.Errorf("%s: cannot change while it runs; restart, or set it back", name)
		}
	}
	return nil
}

// keepNumbers gives services the numbers, and so the counters, that they have in old;
// it returns the numbers of new services.
func (c *Config) keepNumbers(old *Config) (fresh []uint8) {
	has := map[string]uint8{}
	var used []uint8
	for _, s := range old.Services {
		has[s.Name], used = s.ID, append(used, s.ID)
	}
	for i := range c.Services {
		c.Services[i].ID = has[c.Services[i].Name]
	}
	free := func() uint8 { // one that no old service had, if there is any
		for _, taken := range [][]uint8{append(numbersOf(c), used...), numbersOf(c)} {
			for n := uint8(1); n <= maxServices; n++ {
				if !slices.Contains(taken, n) {
					return n
				}
			}
		}
		panic("unreachable: check has counted the services")
	}
	for i := range c.Services {
		if c.Services[i].ID == 0 {
			c.Services[i].ID = free()
			fresh = append(fresh, c.Services[i].ID)
		}
	}
	return fresh
}

func numbersOf(c *Config) (numbers []uint8) {
	for _, s := range c.Services {
		numbers = append(numbers, s.ID)
	}
	return numbers
}

// forgetCounts sets the counters of a number to zero, for the service that now has it.
func (c *Controller) forgetCounts(id uint8) error {
	for n := range schema.NumCounters {
		if err := c.sw.SetCounter(c.names.in(counterAll), int(id)*int(schema.NumCounters)+n, 0); err != nil {
			return err
		}
	}
	return nil
}
