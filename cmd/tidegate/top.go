// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tidegate/internal/api"
	"tidegate/internal/live"
	"tidegate/internal/top"
)

func newTopCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running instance in the terminal: services, rates, reasons, cost, events",
		Long: `Watch a running instance, once a second: each service with its rates and the last minute of them, the counters that move, what
the packet path costs, what limits the protection, and the last events. It asks the instance's API and changes nothing. While it
runs, the kernel counts the run time of BPF programs, which costs each run about 30 ns.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !term.IsTerminal(int(os.Stdout.Fd())) {
				return errors.New("stdout is no terminal; `tidegate status --json` is for scripts, `tidegate web` for browsers")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := api.NewClient(stateDir, name).Do(ctx, "GET", "/v1/modes", nil, nil); err != nil {
				return err // before the screen is taken
			}
			feed := live.New(stateDir, name)
			p := tea.NewProgram(top.New(feed), tea.WithAltScreen(), tea.WithContext(ctx), tea.WithoutSignalHandler())
			asking, end := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				feed.Run(asking, func() { p.Send(top.Refresh{}) })
			}()
			_, err := p.Run()
			end()
			<-done
			if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil { // by a signal, as it should
				return nil
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	return cmd
}
