// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tidegate/internal/bench"
	"tidegate/internal/cli"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/trial"
)

// Flags that several commands share.

// floodFlags are the flags of one flood and its clients; these two are parsed after the command line.
type floodFlags struct{ rate, mix string }

// add registers the flags that flood and split share; what names the packets that the rate counts.
func (x *floodFlags) add(f *pflag.FlagSet, o *trial.Options, what string) {
	x.rate, x.mix = "50k", "mixed"
	f.StringVar(&x.rate, "rate", x.rate, what+" per second: 0, 50000, 50k, 1.5M or max")
	f.StringVar(&x.mix, "flood-options", x.mix, "TCP options of SYNs: mixed, ts (as Linux, with timestamps), nots (as Windows), bare (none), macos, odd (an order that no system uses), many (20 that say nothing), or data (as Linux, with 20 bytes of data)")
	f.BoolVar(&o.IPv6, "ipv6", false, "attack and clients use IPv6")
	f.DurationVar(&o.Duration, "duration", o.Duration, "how long clients make requests, each time")
	f.IntVar(&o.Clients, "clients", o.Clients, "number of clients (source addresses)")
	f.Float64Var(&o.Load, "load", o.Load, "legitimate requests per second, all clients together")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "timeout of a request, from the time it was due")
	f.IntVar(&o.ResponseSize, "response-size", o.ResponseSize, "bytes of each response")
}

// read parses rate and mix into the options.
func (x *floodFlags) read(o *trial.Options) (err error) {
	if o.Rate, err = load.ParseRate(x.rate); err != nil {
		return cli.UsageErrorf("--rate: %v", err)
	}
	if o.FloodMix, err = load.ParseFloodMix(x.mix); err != nil {
		return cli.UsageErrorf("--flood-options: %v", err)
	}
	return nil
}

// jsonFlag registers --json.
func jsonFlag(f *pflag.FlagSet, asJSON *bool) {
	f.BoolVar(asJSON, "json", false, "print one JSON object")
}

// summarized is a result with a summary for people.
type summarized interface{ Summary() string }

// printed is a result that prints itself.
type printed interface{ Print(io.Writer) error }

// output prints a result for people or for programs.
func output(w io.Writer, result any, asJSON bool) error {
	if asJSON {
		return cli.WriteJSON(w, result)
	}
	if p, ok := result.(printed); ok {
		return p.Print(w)
	}
	_, err := io.WriteString(w, result.(summarized).Summary())
	return err
}

// runBench runs one benchmark and prints its result.
func runBench[R printed](ctx context.Context, cmd *cobra.Command, opt bench.Options, asJSON bool, run func(context.Context, bench.Options) (R, error)) error {
	opt.Progress = progressTo(cmd.ErrOrStderr())
	res, err := run(ctx, opt)
	if err != nil {
		return err
	}
	return output(cmd.OutOrStdout(), res, asJSON)
}
