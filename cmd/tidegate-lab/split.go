// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/lab/split"
)

func newSplitCmd() *cobra.Command {
	o := split.DefaultOptions()
	var flags floodFlags
	back, asJSON, figures, rounds := "", false, false, 1
	cmd := &cobra.Command{
		Use:   "split",
		Short: "Attack a server behind edges, with real clients",
		Long: `Run edges (role edge) in front of a server (role server) in namespaces, attack
the service, and measure which clients are still served, how much of the attack
reaches the server, and what it costs: first without tidegate and without attack,
then with both.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := flags.read(&o.Options); err != nil {
				return err
			}
			switch back {
			case "":
				o.Direct = o.Edges > 1
			case "edge", "direct":
				o.Direct = back == "direct"
			default:
				return cli.UsageErrorf("--return %q: want edge or direct", back)
			}
			if err := o.Validate(); err != nil {
				return cli.UsageErrorf("%v", err)
			}
			switch {
			case rounds < 1 || rounds > split.MaxRounds:
				return cli.UsageErrorf("--rounds %d: want 1 to %d", rounds, split.MaxRounds)
			case rounds > 1 && figures:
				return cli.UsageErrorf("--rounds: --figures repeats its own experiments; omit one of them")
			}
			o.Progress = progressTo(cmd.ErrOrStderr())
			ctx, stop := labContext(cmd)
			defer stop()
			var res summarized
			switch {
			case figures:
				if !cmd.Flags().Changed("duration") {
					o.Duration = split.FigureDuration
				}
				res, err = split.RunFigures(ctx, o)
			case rounds > 1:
				res, err = split.RunRounds(ctx, o, rounds)
			default:
				res, err = split.Run(ctx, o)
			}
			if err != nil {
				return interrupted(ctx, err)
			}
			return output(cmd.OutOrStdout(), res, asJSON)
		},
	}
	f := cmd.Flags()
	flags.add(f, &o.Options, "attack in packets")
	f.IntVar(&o.Edges, "edges", o.Edges, "number of edges; each packet goes through one at random")
	f.StringVar(&o.Plane, "plane", o.Plane, "where the edge runs: xdp, or p4: on simple_switch, compiled by p4c-bm2-ss\n(looked for in P4C and SIMPLE_SWITCH, then on PATH)")
	f.StringVar(&o.Mode, "mode", o.Mode, "protocol between edge and server: plain or tagged")
	f.StringVar(&o.Takeover, "server", o.Takeover, "how the server takes over connections: adopt, translate, or auto for each listener")
	f.StringVar(&o.Layout, "layout", o.Layout, "cookie layout: tidegate, or smartcookie, which switches can compute")
	f.StringVar(&o.Attack, "attack", o.Attack, "packets of the attack: syn, ack, rst or mixed")
	f.StringVar(&back, "return", "", "path of the server's answers: edge (the first), or direct, past the edges\n(default: direct if there are several edges)")
	f.Float64Var(&o.DropSetup, "drop-setup", 0, "drop this share (0 to 0.9) of the clients' bare ACKs between edge and server,\nincluding the third segment of handshakes")
	f.BoolVar(&o.RouteFlap, "route-flap", false, "all packets go through one edge, another one every 250 ms")
	f.BoolVar(&o.Sync, "sync", false, "tagged: edges share what their filters learn")
	f.DurationVar(&o.Skew, "skew", 0, "how far the edges' clocks are ahead of the server's")
	f.DurationVar(&o.ClockSkew, "clock-skew", o.ClockSkew, "clock_skew of edges and server; negative: the default")
	f.DurationVar(&o.Epoch, "epoch", o.Epoch, "length of an epoch")
	f.StringVar(&o.UnknownRate, "unknown-rate", o.UnknownRate, "unknown packets a second that each edge forwards to the server, or all")
	f.IntVar(&o.FilterBits, "filter-bits", o.FilterBits, "positions of a partition of the filter, as a power of two")
	f.IntVar(&o.FilterFlows, "filter-flows", 0, "put this many random flows into each edge's filter before the attack\n(579600: the setting of SmartCookie's figure 7, 7.66 % false positives)")
	f.StringVar(&o.Options.Server, "web", o.Options.Server, "web server: auto, nginx or builtin")
	f.StringVar(&o.Congestion, "congestion-control", "", "the server's algorithm, from net.ipv4.tcp_allowed_congestion_control (default: the system's)")
	f.IntVar(&rounds, "rounds", rounds, "make the experiment so many times: the result is the round whose latency is the median,\nwith the latencies of all")
	f.BoolVar(&figures, "figures", false, "instead of one experiment: figures 5, 6 and 7 of SmartCookie, with a defence that\nresets new clients (proxy-auth-wrong, proxy-auth-cookie) for comparison; 3 to 5 minutes")
	jsonFlag(f, &asJSON)
	return cmd
}
