// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"syscall"

	"tidegate/internal/config"
	"tidegate/internal/instance"
)

// reloads gives a role one reload at a time, so that each requester gets the result of its own.
type reloads struct {
	asked  chan chan<- error // each waits for an answer
	toRole chan os.Signal
	ended  chan error
}

// newReloads has opt take reloads from the signals and from ask, until ctx ends.
func newReloads(ctx context.Context, signals <-chan os.Signal, opt *instance.Options) *reloads {
	r := &reloads{asked: make(chan chan<- error), toRole: make(chan os.Signal), ended: make(chan error, 1)}
	next := opt.OnReload
	opt.Reload = r.toRole
	opt.OnReload = func(cfg *config.Config, err error) {
		if next != nil {
			next(cfg, err)
		}
		select {
		case r.ended <- err:
		default: // not requested: a role that reloads by itself
		}
	}
	go r.run(ctx, signals)
	return r
}

func (r *reloads) run(ctx context.Context, signals <-chan os.Signal) {
	for {
		var waits chan<- error
		select {
		case <-ctx.Done():
			return
		case <-signals:
		case waits = <-r.asked:
		}
		select {
		case <-r.ended: // the end of an unrequested reload
		default:
		}
		select {
		case <-ctx.Done():
			return
		case r.toRole <- syscall.SIGHUP:
		}
		select {
		case <-ctx.Done():
			return
		case err := <-r.ended:
			if waits != nil {
				waits <- err
			}
		}
	}
}

// ask has the configuration read again and waits for the result.
func (r *reloads) ask(ctx context.Context) error {
	ended := make(chan error, 1)
	select {
	case r.asked <- ended:
	case <-ctx.Done():
		return errors.New("the instance is busy with another reload; nothing was asked")
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.New("the reload has not ended in time; see the daemon's log")
	}
}
