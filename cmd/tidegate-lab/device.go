// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/device"
)

func newDeviceCmd() *cobra.Command {
	o := device.DefaultOptions()
	asJSON := false
	cmd := &cobra.Command{
		Use:   "device",
		Short: "Flood a small lwIP device in an emulator, at a low rate",
		Long: `Build the firmware of lwip/ for a Cortex-M3, run it in QEMU behind a tap inside
a network namespace, and flood it at a low rate.

With --policy, --layout or --queue, measure that one configuration: its
throughput with and without the attack, how honest clients are served, and
instructions per SYN and per ACK. Without them, measure Tables 4 and 5 of the
study that this reproduces, with t-tests, effect sizes and an analysis of
variance. Throughput and the rate of the attack are measured by the device's own
clock, at 31 million instructions a second. Needs root.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := cmd.Flags()
			o.Tables = !f.Changed("policy") && !f.Changed("layout") && !f.Changed("queue")
			if err := o.Validate(); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			if o.Tables {
				t, err := device.RunTables(ctx, o)
				if err != nil {
					return interrupted(ctx, err)
				}
				if asJSON {
					return cli.WriteJSON(cmd.OutOrStdout(), t)
				}
				return t.Write(cmd.OutOrStdout())
			}
			res, err := device.Run(ctx, o)
			if err != nil {
				return interrupted(ctx, err)
			}
			if asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), res)
			}
			return writeDevice(cmd.OutOrStdout(), res)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Policy, "policy", o.Policy, "action on a full queue: drop, recycle-oldest, cookies, cookies-always")
	f.StringVar(&o.Layout, "layout", o.Layout, "cookie layout: classic, linux, linux-sha1, linux-sha1-unrolled, freebsd, hybrid, tidegate")
	f.IntVar(&o.Queue, "queue", o.Queue, "number of half-open connections that a listener keeps: 2, 4, 8 or 16")
	f.IntVar(&o.Rate, "syn-rate", o.Rate, "SYNs per second of the device's clock")
	f.IntVar(&o.Samples, "samples", o.Samples, "throughput samples of each configuration (the study took 30)")
	f.IntVar(&o.Seconds, "seconds", o.Seconds, "length of a sample by the device's clock")
	f.IntVar(&o.Requests, "requests", o.Requests, "number of requests of honest clients, ten a second")
	f.BoolVar(&o.IPv6, "ipv6", false, "honest clients use IPv6 (the flood stays IPv4)")
	f.StringVar(&o.Source, "source", "", "the folder lwip/ of the source tree (default: found from here)")
	f.BoolVar(&asJSON, "json", false, "one JSON object on stdout")
	return cmd
}

func writeDevice(w io.Writer, r *device.Result) error {
	_, err := fmt.Fprintf(w, `%s, layout %s, queue %d, %d SYN/s
throughput:     %.3f Mb/s (std dev %.3f, %d samples of %d s)
without attack: %.3f Mb/s (std dev %.3f)
honest clients: %d of %d served (%.1f %%)
instructions:   %d per SYN, %d per ACK that opens a connection, %d per ACK that opens none
`, r.Policy, r.Layout, r.Queue, r.SYNRate, r.Throughput.Mean, r.Throughput.SD, r.Throughput.N, r.Seconds,
		r.NoAttack.Mean, r.NoAttack.SD, r.Load.OK, r.Load.Requests, 100*r.Load.Success(), r.SYN, r.ACK, r.BadACK)
	return err
}
