// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tidegate/internal/cli"
	"tidegate/internal/plane"
	"tidegate/internal/role/filterman"
	"tidegate/internal/upstream"
)

func newFilterCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "filter",
		Short: "Request filters near the source of unwanted traffic, and manage them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFilterAddCmd(), newFilterListCmd("list", "List the requested filters"),
		newFilterListCmd("stats", "List the filters with their counters"), newFilterRmCmd(), newFilterNotifyCmd(),
		newFilterKeyCmd(), newFilterCountersCmd())
	return cmd
}

// parsePair reads SRC and DST.
func parsePair(args []string) (src, dst netip.Prefix, err error) {
	if src, err = parsePrefix("source", args[0]); err == nil {
		dst, err = parsePrefix("destination", args[1])
	}
	return src, dst, err
}

// parsePrefix takes an address for a prefix of full length.
func parsePrefix(what, s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return p, cli.UsageErrorf("%s %q: want an address or prefix such as 192.0.2.1 or 192.0.2.0/24", what, s)
	}
	return p.Masked(), nil
}

func apiFlags(cmd *cobra.Command) func() (*filterman.Client, error) {
	api, identity, instance := "", "", "default"
	cmd.Flags().StringVar(&api, "api", "", "the filter manager: the path of its `SOCKET`, or KEY@ADDRESS:PORT of one on another machine, of which\nthis is a detector (default: the socket of the instance)")
	cmd.Flags().StringVar(&identity, "identity", "", "`FILE` with this detector's private key, made by `tidegate keygen`; needed for KEY@ADDRESS:PORT")
	cmd.Flags().StringVar(&instance, "instance", instance, "`NAME` of the filter manager's instance")
	return func() (*filterman.Client, error) {
		if api == "" {
			api = filterman.DefaultAPI("/run/tidegate", instance)
		}
		if !upstream.IsPeer(api) {
			return filterman.NewClient(api), nil
		}
		if identity == "" {
			return nil, cli.UsageErrorf("--api %s needs --identity FILE, the private key of this detector", api)
		}
		id, err := upstream.LoadIdentity(identity)
		if err != nil {
			return nil, err
		}
		return filterman.NewRemoteClient(api, id)
	}
}

func newFilterAddCmd() *cobra.Command {
	witness, reflected, asJSON := "", false, false
	var expires time.Duration
	var floor uint32
	cmd := &cobra.Command{
		Use:   "add SRC DST --witness ts|handshake",
		Short: "Ask the network of SRC to drop its traffic to DST",
		Args:  cobra.ExactArgs(2),
	}
	client := apiFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		src, dst, err := parsePair(args)
		if err != nil {
			return err
		}
		c, err := client()
		if err != nil {
			return err
		}
		v, err := c.Add(cmd.Context(), []filterman.Request{{Src: src, Dst: dst, Witness: filterman.WitnessOf(witness),
			Reflected: reflected, Expires: expires, Floor: floor, Detector: "command line"}})
		if err != nil {
			return err
		}
		return printVerdicts(cmd.OutOrStdout(), v, asJSON)
	}
	f := cmd.Flags()
	f.StringVar(&witness, "witness", "", "`EVIDENCE` that SRC is not spoofed: ts (its packets carry the true-source\ncodepoint) or handshake (it completed one with a gate); anything else is refused")
	f.BoolVar(&reflected, "reflected", false, "SRC is a reflector: request a conditional filter, so that answers to DST's own requests still arrive")
	f.DurationVar(&expires, "expires", 0, "the filter lasts for this `DURATION` (default: the filter manager's)")
	f.Uint32Var(&floor, "floor", 0, "`PACKETS` a second, rounded down to a power of two: the filter expires when it\nmatches fewer over 10 s (default: the filter manager's)")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printVerdicts fails the command if one was refused.
func printVerdicts(w io.Writer, list []filterman.Verdict, asJSON bool) error {
	failed := false
	for _, v := range list {
		failed = failed || v.State != filterman.Installed
	}
	if asJSON {
		if err := json.NewEncoder(w).Encode(list); err != nil {
			return err
		}
	} else {
		for _, v := range list {
			line := fmt.Sprintf("%s %s -> %s", v.State, v.Src, v.Dst)
			if v.Error != "" {
				line += ": " + v.Error
			}
			fmt.Fprintln(w, line)
		}
	}
	if failed {
		return cli.ErrSilent
	}
	return nil
}

func newFilterListCmd(name, short string) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs}
	client := apiFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := client()
		if err != nil {
			return err
		}
		list, err := c.List(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return enc.Encode(list)
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "source\tdestination\tstate\tproven\tborder manager\tpackets\tbytes\tlast hit")
		for _, e := range list {
			state := e.State.String()
			if e.Code != "" {
				state += " (" + e.Code + ")"
			}
			at := ""
			if len(e.Borders) > 0 {
				at = fmt.Sprintf("%d of them", len(e.Borders))
			} else if e.BM != nil {
				at = e.BM.String()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\t%d\t%d\t%s ago\n", e.Src, e.Dst, state, e.Proven, at,
				e.Packets, e.Bytes, time.Since(e.LastHit.Time()).Round(time.Second))
		}
		return w.Flush()
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newFilterRmCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "rm SRC DST", Short: "Remove a filter", Args: cobra.ExactArgs(2)}
	client := apiFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		src, dst, err := parsePair(args)
		if err != nil {
			return err
		}
		c, err := client()
		if err != nil {
			return err
		}
		if err := c.Remove(cmd.Context(), src, dst); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "removed %s -> %s\n", src, dst)
		return nil
	}
	return cmd
}

// newFilterNotifyCmd is FastNetMon's notify script: ADDRESS DIRECTION PPS ACTION,
// and the attack's packets on stdin.
func newFilterNotifyCmd() *cobra.Command {
	witness := ""
	cmd := &cobra.Command{
		Use:   "notify --witness ts ADDRESS incoming|outgoing PPS ban|unban|attack_details",
		Short: "The command for FastNetMon's notify_script_path",
		Args:  cobra.ExactArgs(4),
	}
	client := apiFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := filterman.ParseFastNetMon(args, cmd.InOrStdin(), filterman.WitnessOf(witness))
		if err != nil || len(list) == 0 {
			return err
		}
		c, err := client()
		if err != nil {
			return err
		}
		v, err := c.Add(cmd.Context(), list)
		if err != nil {
			return err
		}
		return printVerdicts(cmd.OutOrStdout(), v, false)
	}
	cmd.Flags().StringVar(&witness, "witness", "", "`EVIDENCE`: ts, if FastNetMon is given only traffic with the true-source codepoint")
	return cmd
}

func newFilterKeyCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "key FILE",
		Short: "Print the public key of a file made by `tidegate keygen`",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := upstream.LoadIdentity(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), upstream.FormatKey(id.Public()))
			return nil
		},
	}
}

func newFilterCountersCmd() *cobra.Command {
	instance, asJSON := "default", false
	cmd := &cobra.Command{
		Use:   "counters",
		Short: "Show the counters of a patrol on this machine, whether or not its process runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := plane.OpenPatrolCounters("/sys/fs/bpf", instance)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(c)
			}
			for name, n := range c {
				if n != 0 && !strings.HasPrefix(name, "_") {
					fmt.Fprintf(cmd.OutOrStdout(), "%-20s %d\n", name, n)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&instance, "instance", instance, "`NAME` of the patrol's instance")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
