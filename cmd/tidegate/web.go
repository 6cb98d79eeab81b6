// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"tidegate/internal/api"
	"tidegate/internal/cli"
	"tidegate/internal/live"
	"tidegate/internal/web"
)

func newWebCmd() *cobra.Command {
	var name, listen string
	var names []string
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve a page that shows a running instance live: rates and reasons per service, attacks, cost, events",
		Long: `Serve one page, read-only, until Ctrl-C: each service's rates over ten minutes with attacks as bands, the counters that move, what the
packet path costs, and events. It asks the instance's API. There is no password: whoever reaches the address sees the page, so it
is loopback unless --listen says otherwise.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := netip.ParseAddrPort(listen)
			if err != nil {
				return cli.UsageErrorf("--listen %s: want ADDRESS:PORT, as in 127.0.0.1:8743", listen)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := api.NewClient(stateDir, name).Do(ctx, "GET", "/v1/modes", nil, nil); err != nil {
				return err
			}
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
			if err != nil {
				return fmt.Errorf("%w; --listen takes another address or port", err)
			}
			feed := live.New(stateDir, name)
			done := make(chan struct{})
			go func() {
				defer close(done)
				feed.Run(ctx, nil)
			}()
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s/\n", l.Addr())
			if !at.Addr().IsLoopback() {
				fmt.Fprintln(cmd.ErrOrStderr(), "whoever reaches this address sees the page")
			}
			err = web.Serve(ctx, l, feed, names)
			stop()
			<-done
			return err
		},
	}
	cmd.Flags().StringVar(&name, "instance", "default", "`NAME` of the instance")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8743", "`ADDRESS:PORT`; port 0 takes a free one")
	cmd.Flags().StringSliceVar(&names, "name", nil, "host `NAME` by which browsers may ask besides addresses and localhost")
	return cmd
}
