// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// OneClient is how many connections one client makes, one after the other, in a time: what a flood costs somebody who clicks. Of the
// Point in it, requests are the connections that ended in that time, and ok those that were served.
type OneClient struct {
	Point
	Seconds float64 `json:"seconds"`
	PauseMs float64 `json:"pause_ms"` // from the end of one connection to when the next is due
	// OfQuiet is its share of the connections without a flood; 1 without.
	OfQuiet float64 `json:"of_quiet"`
}

// oneClientPause is from the end of a connection to when the next is due.
const oneClientPause = 10 * time.Millisecond

// measureOneClient measures a single client without a flood and at each rate; at the generator's maximum, if there are none.
func (d *Defence) measureOneClient(ctx context.Context, o Options, s *stand) error {
	rates := o.Rates
	if len(rates) == 0 {
		rates = []load.Rate{load.RateMax}
	}
	for _, rate := range append([]load.Rate{0}, rates...) {
		one, err := s.oneClient(ctx, rate, o.OneClientFor)
		if err != nil {
			return fmt.Errorf("one client at %s SYN/s: %w", rate, err)
		}
		one.OfQuiet = 1
		if len(d.OneClient) > 0 {
			one.OfQuiet = load.Round3(float64(one.OK) / float64(max(1, d.OneClient[0].OK)))
		}
		d.OneClient = append(d.OneClient, one)
		if o.Done != nil {
			o.Done(d.Name+", one client", one.Point)
		}
	}
	return nil
}

func (s *stand) oneClient(ctx context.Context, rate load.Rate, during time.Duration) (o OneClient, err error) {
	o.Seconds, o.PauseMs = during.Seconds(), oneClientPause.Seconds()*1e3
	run := func(ctx context.Context, rate load.Rate, size int) (load.FloodStats, *load.ClientResult, error) {
		return s.flood.RunWithOneClient(ctx, rate, load.OneClient{For: during, Pause: oneClientPause, Head: head, Response: size})
	}
	o.Point, err = s.measure(ctx, rate, func(ctx context.Context, rate load.Rate) (gauges, gauges, load.FloodStats, *load.ClientResult, error) {
		return s.inFlood(ctx, rate, run)
	})
	return o, err
}

// printOneClients writes the table of single clients, if there are any.
func (r *Result) printOneClients(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	any := false
	for _, d := range r.Defences {
		for _, o := range d.OneClient {
			if !any {
				fmt.Fprintf(w, "\nONE CLIENT: connections, one after the other with pauses of %g ms, in %g s\n", o.PauseMs, o.Seconds)
				fmt.Fprintln(t, "DEFENCE\toffered\tprocessed\tlost before\tconnections\tfailed\tof quiet\tp50 ms\tp99 ms\tvictim's CPU\tcore to core ns\t")
				any = true
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%.0f %%\t%.3g\t%.3g\t%.0f %%\t%.0f, %.0f\t\n", d.Name, Rate(o.Offered), Rate(o.Processed), Rate(o.Lost),
				o.OK, o.Requests-o.OK, 100*o.OfQuiet, o.Latency.P50, o.Latency.P99, 100*o.VictimCPU, o.CoreToCore[0], o.CoreToCore[1])
		}
	}
	return t.Flush()
}

// requests is the usual load of measurement: many clients, evenly spaced requests.
func (s *stand) requests(ctx context.Context, rate load.Rate, size int) (load.FloodStats, *load.ClientResult, error) {
	return s.flood.RunWithClients(ctx, rate, load.Requests{Count: max(1, int(s.opts.Load*s.opts.Duration.Seconds())),
		Rate: s.opts.Load, Head: head, Response: size})
}

// responseLen makes one request over a socket, before the flood.
func (s *stand) responseLen(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return load.ResponseLen(ctx, s.top.Client, rig.ClientAddr(0, s.opts.IPv6), rig.ServiceAddr(s.opts.IPv6))
}
