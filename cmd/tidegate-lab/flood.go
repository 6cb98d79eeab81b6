// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

func newFloodCmd() *cobra.Command {
	o := trial.DefaultOptions()
	rate, mix, closes, timestamps, asJSON := "50k", "mixed", "server", true, false
	cmd := &cobra.Command{
		Use:   "flood",
		Short: "One defence under one flood, with real clients",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Rate, err = load.ParseRate(rate); err != nil {
				return cli.UsageErrorf("--rate: %v", err)
			}
			if o.FloodMix, err = load.ParseFloodMix(mix); err != nil {
				return cli.UsageErrorf("--flood-options: %v", err)
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
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(res)
			}
			_, err = io.WriteString(cmd.OutOrStdout(), res.Summary())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Defence, "defence", o.Defence, "none, kernel (SYN cookies), nft (SYNPROXY), host (tidegate), or one in a box\nbetween clients and server: proxy-STRATEGY (tidegate), nft-proxy (SYNPROXY)")
	f.StringVar(&o.Plane, "plane", o.Plane, "of proxy-STRATEGY: xdp, or dpdk (tidegate-dpdk by AF_PACKET; see make dpdk)")
	f.StringVar(&rate, "rate", rate, "flood in SYNs per second: 0, 50000, 50k, 1.5M or max")
	f.StringVar(&mix, "flood-options", mix, "TCP options of the flood: mixed, ts (with timestamps) or nots")
	f.BoolVar(&o.IPv6, "ipv6", false, "flood and clients use IPv6")
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long clients come")
	f.IntVar(&o.Clients, "clients", o.Clients, "number of clients (source addresses)")
	f.Float64Var(&o.Load, "load", o.Load, "legitimate requests per second, all clients together")
	f.IntVar(&o.Requests, "requests", 0, "this many requests in all, instead of load x duration")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "of one request, from when it was due")
	f.StringVar(&closes, "close", closes, "who closes the connection first: server or client")
	f.BoolVar(&timestamps, "timestamps", true, "clients use TCP timestamps")
	f.IntVar(&o.Retries, "retries", o.Retries, "try a request again that was reset before it got an answer, as browsers do")
	f.IntVar(&o.Ports, "ports", 0, "local ports each client may use (0: the system's range)")
	f.StringVar(&o.Server, "server", o.Server, "web server: auto, nginx or builtin")
	f.IntVar(&o.ResponseSize, "response-size", o.ResponseSize, "bytes of each response")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func newCleanCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed labs have left behind",
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

// newServerCmd is the web server that stands in for a missing nginx.
func newServerCmd() *cobra.Command {
	return &cobra.Command{
		Use: "_httpd SIZE", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return load.RunServerChild(args) },
	}
}
