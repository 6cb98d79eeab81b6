// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/role/borderman"
	"tidegate/internal/role/edge"
	"tidegate/internal/role/filterman"
	"tidegate/internal/role/host"
	"tidegate/internal/role/patrol"
	"tidegate/internal/role/proxy"
	"tidegate/internal/role/server"
	"tidegate/internal/role/switchgate"
	"tidegate/internal/status"
)

func newRunCmd() *cobra.Command {
	var file string
	var skew, step, trial, calm time.Duration
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Protect the services of a configuration until stopped",
		Long: `Protect the services of FILE on this machine (or network namespace), or, with
role: proxy or edge, on servers behind it. SIGHUP reloads FILE. Signals that stop it:

  SIGINT (Ctrl-C)  takes everything down, as ` + "`tidegate off`" + ` does; a second one ends the drain at once
  SIGTERM          leaves the packet path in place: it continues until its keys expire
                   (key_horizon), or until the next run takes it over without a gap

With plane: p4, the switch is what stays or is taken down: it then forwards everything. Where there is no packet path
of its own (plane: dpdk, managers), both signals end everything. A patrol stays with both;
` + "`tidegate off -c FILE`" + ` takes it down.
The line "ready" is written to stdout once the services are protected.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return cli.UsageErrorf("run needs -c FILE; docs/configuration.md shows one")
			}
			if trial != 0 && (trial < minTrial || trial > maxTrial) {
				return cli.UsageErrorf("--trial %s is out of range; use %s to %s", trial, minTrial, maxTrial)
			}
			return runRole(cmd, file, skew, step, trial, calm)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `FILE`")
	cmd.Flags().DurationVar(&trial, "trial", 0, "role host: protect with mode always for this `DURATION` (for example 60s), compare connections verified with sockets made, and take everything down, at once if they differ; 5s to 1h")
	cmd.Flags().DurationVar(&skew, "clock-offset", 0, "behave as if the clock were off by this much (experiments)")
	cmd.Flags().DurationVar(&step, "clock-step", 0, "SIGUSR1 steps the clock by this much, and the next one steps it back (experiments)")
	cmd.Flags().DurationVar(&calm, "detector-calm", 0, "calm period of the detector of mode auto (experiments)")
	_ = cmd.Flags().MarkHidden("detector-calm")
	_ = cmd.Flags().MarkHidden("clock-offset")
	_ = cmd.Flags().MarkHidden("clock-step")
	return cmd
}

// runners are the roles by name.
var runners = map[string]func(ctx, force context.Context, opt instance.Options) error{
	config.RoleHost:          host.Run,
	config.RoleProxy:         proxy.Run,
	config.RoleEdge:          edge.Run,
	config.RoleServer:        server.Run,
	config.RolePatrol:        patrol.Run,
	config.RoleBorderManager: borderman.Run,
	config.RoleFilterManager: filterman.Run,
}

const (
	minTrial = 5 * time.Second
	maxTrial = time.Hour
)

func runRole(cmd *cobra.Command, file string, skew, step, trial, calm time.Duration) error {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	cfg, err := (&instance.Options{ConfigPath: file, Log: log}).LoadAtStart()
	if err != nil {
		return err
	}
	if trial != 0 && cfg.Role != config.RoleHost {
		return cli.UsageErrorf("--trial is for role host; this configuration has role %s", cfg.Role)
	}

	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(stop)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	force, cut := context.WithCancel(context.Background())
	defer cut()
	go func() {
		if <-stop == syscall.SIGINT {
			cancel(instance.ErrOff)
		} else {
			cancel(nil)
		}
		<-stop
		cut()
	}()
	opt := instance.Options{
		ConfigPath: file,
		Config:     cfg,
		Skew:       skew,
		Trial:      trial,
		Calm:       calm,
		Ready:      func() { announceReady(cmd.OutOrStdout(), cmd.ErrOrStderr()) },
		Log:        log,
	}
	events, err := newEvents(ctx, &opt, cfg, reload)
	if err != nil {
		return err
	}
	if step != 0 {
		opt.Step = steppedClock(ctx, step)
	}
	if cfg.Metrics.IsValid() {
		done, err := status.ServeMetrics(ctx, opt, cfg.Instance, cfg.Metrics, opt.Log)
		if err != nil {
			return err
		}
		defer done()
	}
	run := runners[cfg.Role]
	if cfg.Plane == config.PlaneP4 {
		run = switchgate.Run
	}
	err = run(ctx, force, opt)
	events.end(ctx, err)
	return errors.Join(err, instance.HandOver(opt, cfg.Instance))
}

// steppedClock is a clock's offset, which each SIGUSR1 steps by this much, and back.
func steppedClock(ctx context.Context, step time.Duration) *atomic.Int64 {
	off, steps := new(atomic.Int64), make(chan os.Signal, 1)
	signal.Notify(steps, syscall.SIGUSR1)
	go func() {
		defer signal.Stop(steps)
		for {
			select {
			case <-ctx.Done():
				return
			case <-steps:
				off.Store(int64(step) - off.Load())
			}
		}
	}()
	return off
}
