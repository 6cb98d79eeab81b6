// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// The figure of Lemon, "Resisting SYN flood DoS attacks with a SYN cache": how long
// connect() takes for each of 2,000 connections while the server is flooded, with a
// short and a long listen queue and with better defences.

// ConnectOptions are what the figure measures.
type ConnectOptions struct {
	Base        Options // rate of the flood, load, timeout, server, progress
	Connections int
	Curves      []string // names of ConnectCurves; none: all but the backlogs between the shortest and the longest
	Plane       string   // of the proxy's curves: PlaneXDP or PlaneDPDK
}

// DefaultConnectOptions take about two minutes.
func DefaultConnectOptions() ConnectOptions {
	base := DefaultOptions()
	base.Rate, base.Load, base.Timeout = 20000, 400, 10*time.Second
	return ConnectOptions{Base: base, Connections: 2000, Plane: rig.PlaneXDP}
}

// connectCurve is one defence of the figure.
type connectCurve struct {
	name, defence string
	backlog       int
}

// ConnectCurves returns the names of the curves that this version can draw.
func ConnectCurves() []string {
	var names []string
	for _, c := range connectCurves() {
		names = append(names, c.name)
	}
	return names
}

func connectCurves() []connectCurve {
	var list []connectCurve
	for _, backlog := range ConnectBacklogs() {
		list = append(list, connectCurve{BacklogCurve(backlog), defences.None, backlog})
	}
	list = append(list, connectCurve{"kernel cookies", defences.Kernel, 1024})
	for _, d := range []string{"proxy-cache", "proxy-cookie", defences.Host} {
		if slices.Contains(defences.WithBoxes(), d) {
			list = append(list, connectCurve{d, d, 1024})
		}
	}
	return list
}

// ConnectBacklogs are the listen queues of the paper's first figure.
func ConnectBacklogs() []int { return []int{128, 256, 512, 768, 1024} }

// BacklogCurve is the name of the curve of a listen queue without cookies.
func BacklogCurve(backlog int) string { return fmt.Sprintf("kernel, backlog %d", backlog) }

// wanted reports whether a curve is measured.
func (o *ConnectOptions) wanted(c connectCurve) bool {
	if len(o.Curves) > 0 {
		return slices.Contains(o.Curves, c.name)
	}
	return c.backlog == 128 || c.backlog == 1024
}

// ConnectCurve is the measurement of one curve.
type ConnectCurve struct {
	Name    string `json:"name"`
	Defence string `json:"defence"`
	Backlog int    `json:"backlog"`
	Plane   string `json:"plane,omitempty"` // of a proxy
	Error   string `json:"error,omitempty"` // why results are missing

	Connected int            `json:"connected"`
	Served    int            `json:"served"` // of these, those whose request was answered in time, too
	Errors    map[string]int `json:"errors,omitempty"`
	// Share of all connections that were established within half a second: the paper's figure.
	Within500 float64 `json:"within_500ms"`
	// Quantiles over all connections, in ms; null: that many were never established.
	P10 *float64 `json:"p10_ms"`
	P50 *float64 `json:"p50_ms"`
	P90 *float64 `json:"p90_ms"`
	P99 *float64 `json:"p99_ms"`
	// Times of the established connections, sorted, in ms.
	Times  []float64 `json:"times_ms"`
	SYNPPS float64   `json:"syn_pps"` // of the flood, as it arrived
}

// ConnectTimes is the one JSON object of `tidegate-lab connect-time --json`.
type ConnectTimes struct {
	Begun       time.Time      `json:"begun"`
	Seconds     float64        `json:"seconds"`
	Kernel      string         `json:"kernel"`
	CPU         string         `json:"cpu"`
	CPUs        int            `json:"cpus"`
	Rate        string         `json:"rate"`
	Load        float64        `json:"load_per_s"`
	TimeoutMs   float64        `json:"timeout_ms"`
	Connections int            `json:"connections"`
	Curves      []ConnectCurve `json:"curves"`
	NotOffered  []string       `json:"not_offered"`
}

// Validate checks all options; an error names the option, its value, and valid values.
func (o *ConnectOptions) Validate() error {
	if o.Connections < 10 || o.Connections > 100_000 {
		return fmt.Errorf("--connections %d: want 10 to 100000", o.Connections)
	}
	for _, c := range o.Curves {
		if !slices.Contains(ConnectCurves(), c) {
			return fmt.Errorf("--curve %q: want some of %s", c, strings.Join(ConnectCurves(), "; "))
		}
	}
	if o.Plane != rig.PlaneXDP && o.Plane != rig.PlaneDPDK {
		return fmt.Errorf("--plane %q: want xdp or dpdk", o.Plane)
	}
	return o.Base.Validate()
}

// RunConnectTimes measures all curves, one after the other. If one fails, its result says
// why, and the run continues.
func RunConnectTimes(ctx context.Context, o ConnectOptions) (*ConnectTimes, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	begin := time.Now()
	t := &ConnectTimes{Begun: begin.UTC().Truncate(time.Second), Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), CPUs: runtime.NumCPU(),
		Rate: o.Base.Rate.String(), Load: o.Base.Load, TimeoutMs: o.Base.Timeout.Seconds() * 1e3, Connections: o.Connections, NotOffered: []string{}}
	var errs []error
	for _, c := range connectCurves() {
		if !o.wanted(c) {
			continue
		}
		if o.Base.Progress != nil {
			o.Base.Progress("%s", c.name)
		}
		curve, err := runConnectCurve(ctx, o, c)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
		t.Curves = append(t.Curves, curve)
	}
	if !slices.Contains(defences.WithBoxes(), "proxy-cache") {
		t.NotOffered = append(t.NotOffered, "proxy-cache")
	}
	t.Seconds = load.Round3(time.Since(begin).Seconds())
	return t, errors.Join(errs...)
}

func runConnectCurve(ctx context.Context, o ConnectOptions, c connectCurve) (ConnectCurve, error) {
	one := o.Base
	one.Defence, one.Backlog, one.Requests, one.KeepConnect = c.defence, c.backlog, o.Connections, true
	curve := ConnectCurve{Name: c.name, Defence: c.defence, Backlog: c.backlog, Times: []float64{}}
	if strings.HasPrefix(c.defence, defences.ProxyPrefix) {
		one.Plane, curve.Plane = o.Plane, o.Plane
	}
	res, err := Run(ctx, one)
	if errors.Is(err, ErrDisturbed) { // retried once; then reported
		res, err = Run(ctx, one)
	}
	if err != nil {
		curve.Error = err.Error()
		return curve, err
	}
	curve.Fill(res.connectTimes, o.Connections)
	curve.Served, curve.Errors, curve.SYNPPS = res.OK, res.Errors, res.SYNPPS
	return curve, nil
}

// Fill computes the figures from the times, in ms, of the established connections.
func (c *ConnectCurve) Fill(times []float64, all int) {
	slices.Sort(times)
	c.Times, c.Connected = times, len(times)
	if c.Times == nil {
		c.Times = []float64{}
	}
	within, _ := slices.BinarySearch(times, math.Nextafter(500, 501))
	c.Within500 = float64(within) / float64(all)
	quantile := func(q float64) *float64 {
		if i := int(math.Ceil(q*float64(all))) - 1; i < len(times) {
			return &times[max(i, 0)]
		}
		return nil
	}
	c.P10, c.P50, c.P90, c.P99 = quantile(0.1), quantile(0.5), quantile(0.9), quantile(0.99)
}

// Print writes the figure as a table.
func (t *ConnectTimes) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d connections, %g a second, under %s SYN/s; given up after %g ms (Linux %s)\n\n", t.Connections, t.Load, t.Rate, t.TimeoutMs, t.Kernel)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "DEFENCE\tconnected\tserved\twithin 500 ms\tp10 ms\tp50\tp90\tp99\t")
	for _, c := range t.Curves {
		if c.Error != "" {
			fmt.Fprintf(tw, "%s\tfailed: %s\t\n", c.Name, c.Error)
			continue
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.1f %%\t%s\t%s\t%s\t%s\t\n", c.Name, c.Connected, c.Served, 100*c.Within500,
			orNever(c.P10), orNever(c.P50), orNever(c.P90), orNever(c.P99))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range t.NotOffered {
		fmt.Fprintf(w, "%s: not in this version\n", n)
	}
	return nil
}

func orNever(ms *float64) string {
	if ms == nil {
		return "never"
	}
	return fmt.Sprintf("%.3g", *ms)
}
