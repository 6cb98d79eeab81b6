// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/role/patrol"
	"tidegate/internal/role/switchgate"
)

func newOffCmd() *cobra.Command {
	var file, name string
	var drain time.Duration
	var now bool
	cmd := &cobra.Command{
		Use:   "off [-c FILE | --instance NAME]",
		Short: "Take an instance down: drain, detach its programs, remove its tables",
		Long: `Take an instance down, whether or not its process runs; a running process is stopped
first. SYNs go to the kernel, or to the servers, at once. Handshakes in progress can complete,
and translated connections continue, until the last has ended or the drain time has passed;
then everything is removed. Connections that a kernel has adopted do not need Tidegate and
continue. Ctrl-C ends the wait: connections then stay translated until off is run again.
If there is nothing to take down, that is not an error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" && cmd.Flags().Changed("instance") {
				return cli.UsageErrorf("name the instance by -c FILE or by --instance NAME, not by both")
			}
			if drain < 0 {
				return cli.UsageErrorf("--drain %s: no time can be negative", drain)
			}
			if now {
				drain = 0
			} else if !cmd.Flags().Changed("drain") {
				drain = instance.DrainAsConfigured
			}
			return runOff(cmd, file, name, drain, now)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration `FILE` that names the instance")
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().DurationVar(&drain, "drain", 0, "wait for this `DURATION` at most (default: as configured for the instance)")
	cmd.Flags().BoolVar(&now, "now", false, "do not wait for connections to end")
	return cmd
}

func runOff(cmd *cobra.Command, file, name string, drain time.Duration, now bool) error {
	opt := instance.Options{ConfigPath: file, Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))}
	isPatrol := false
	if file != "" {
		cfg, err := config.Load(file)
		if err != nil {
			return err
		}
		name, isPatrol = cfg.Instance, cfg.Patrol != nil
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	go func() {
		<-signals
		cancel()
		signal.Stop(signals) // the next one ends this process
	}()
	unlock, err := instance.OwnForTakeDown(ctx, opt, name, now)
	if err != nil {
		return err
	}
	if isPatrol {
		unlock()
		return patrol.Off(opt)
	}
	defer unlock()
	if _, err := switchgate.Off(ctx, opt, name, opt.Log); err != nil {
		return err
	}
	if err := instance.TakeDown(ctx, context.Background(), opt, name, drain, opt.Log); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "instance %s: nothing is installed any more\n", name)
	return instance.HandOver(opt, name)
}
