// SPDX-License-Identifier: Apache-2.0

// Package switchgate is roles edge and proxy with plane: p4: it writes configuration and keys to a switch that runs
// one of our P4 programs, and makes its controller (internal/p4) an instance like any other. It must never see a packet.
package switchgate

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/p4"
	"tidegate/internal/status"
)

// Run protects the services on the switch until ctx ends. With instance.ErrOff as the cause the switch then forwards
// everything; otherwise it goes on protecting until its keys expire.
func Run(ctx, _ context.Context, opt instance.Options) error {
	opt.Complete()
	cfg, err := opt.First()
	if err != nil {
		return err
	}
	secret, err := instance.LoadSecrets(cfg)
	if err != nil {
		return err
	}
	secrets := []*keys.Roll{secret}
	defer func() {
		for _, s := range secrets {
			s.Zero()
		}
	}()
	state, err := status.KeepP4(ctx, opt, p4.FromConfig(cfg))
	if err != nil {
		return err
	}
	off := func() bool { return errors.Is(context.Cause(ctx), instance.ErrOff) }
	now, next := cfg, (*config.Config)(nil)
	err = p4.Run(ctx, p4.FromConfig(cfg), secret, p4.RunOptions{
		Options: p4.Options{Log: opt.Log, Now: opt.Now},
		Ready: func() {
			opt.Log.Info("protecting", "instance", cfg.Instance, "role", cfg.Role, "switch", cfg.P4.Thrift, "services", len(cfg.Services))
			if opt.Ready != nil {
				opt.Ready()
			}
		},
		Figures: state.Figures,
		Reload:  opt.Reload,
		Load: func() (*p4.Config, p4.Secret, error) {
			if next, err = load(&opt, now); err != nil {
				return nil, nil, err
			}
			fresh, err := instance.LoadSecrets(next)
			if err != nil {
				return nil, nil, err
			}
			secrets = append(secrets, fresh)
			return p4.FromConfig(next), fresh, nil
		},
		Reloaded: func(made *p4.Config, err error) {
			if err == nil {
				now = next
				state.Reloaded(made)
			}
			opt.TellReload(opt.Log, now, err)
		},
		Stay: func() bool { return !off() },
	})
	until := keys.EpochStart(state.LastKey()+1, now.Epoch)
	if err != nil || off() {
		state.Close()
		if err == nil {
			opt.Log.Info("stopped; the switch forwards everything", "instance", now.Instance)
		}
		return err
	}
	opt.Log.Info("stopped; the switch keeps protecting until its keys expire: start again, or take it down with `tidegate off`",
		"instance", now.Instance, "keys_until", until.Format(time.RFC3339))
	return state.Leave()
}

// load reads the configuration again and refuses changes that take a restart.
func load(opt *instance.Options, now *config.Config) (*config.Config, error) {
	next, err := opt.Load()
	if err != nil {
		return nil, err
	}
	return next, config.CheckReload(now, next, "")
}

// Off makes a switch forward everything, if a controller has left it protecting under this instance; done reports
// whether it did. The caller holds the instance's lock.
func Off(ctx context.Context, opt instance.Options, name string, log *slog.Logger) (done bool, err error) {
	opt.Complete()
	thrift, program, there, err := status.SwitchOf(opt.StateDir, name)
	if err != nil || !there {
		return false, err
	}
	if err := p4.Open(ctx, thrift, program); err != nil {
		return false, err
	}
	log.Info("the switch forwards everything", "instance", name, "switch", thrift)
	return true, instance.RemoveState(opt.StateDir, name)
}
