// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

func newFloodCmd() *cobra.Command {
	o := trial.DefaultOptions()
	var flags floodFlags
	closes, timestamps, asJSON := "server", true, false
	cmd := &cobra.Command{
		Use:   "flood",
		Short: "Test one defence under one flood, with real clients",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := flags.read(&o); err != nil {
				return err
			}
			if closes != "server" && closes != "client" {
				return cli.UsageErrorf("--close %q: want server or client", closes)
			}
			o.ClientCloses, o.NoTimestamps = closes == "client", !timestamps
			if err := o.Validate(); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			res, err := trial.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			return output(cmd.OutOrStdout(), res, asJSON)
		},
	}
	f := cmd.Flags()
	flags.add(f, &o, "flood in SYNs")
	f.StringVar(&o.Defence, "defence", o.Defence, "none, kernel (SYN cookies), nft (SYNPROXY), host (tidegate), or a box\nbetween clients and server: proxy-STRATEGY (tidegate), nft-proxy (SYNPROXY)")
	f.StringVar(&o.Plane, "plane", o.Plane, "plane of proxy-STRATEGY: xdp, or dpdk (tidegate-dpdk by AF_PACKET; see make dpdk)")
	f.IntVar(&o.Requests, "requests", 0, "total number of requests, instead of load x duration")
	f.StringVar(&closes, "close", closes, "which side closes the connection first: server or client")
	f.BoolVar(&timestamps, "timestamps", true, "clients use TCP timestamps")
	f.IntVar(&o.Retries, "retries", o.Retries, "how often to retry a request that was reset before it got an answer, as browsers do")
	f.IntVar(&o.Ports, "ports", 0, "local ports each client may use (0: the system's range)")
	f.StringVar(&o.Server, "server", o.Server, "web server: auto, nginx or builtin")
	jsonFlag(f, &asJSON)
	return cmd
}

func newCleanCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove namespaces, files and processes that killed labs left behind",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			removed, err := rig.Clean()
			for _, name := range removed {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", name)
			}
			return err
		},
	}
}

// newClientCmd is the load generator that the lab starts in its client namespace.
func newClientCmd() *cobra.Command {
	return &cobra.Command{
		Use: "_client", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return load.RunClientChild(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// newServerCmd is the web server used where nginx is missing.
func newServerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "_httpd SIZE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return load.RunServerChild(args) },
	}
}
