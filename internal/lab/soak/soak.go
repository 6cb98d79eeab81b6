// SPDX-License-Identifier: Apache-2.0

// Package soak floods a host at the highest rate of this machine for minutes, while the gate is reloaded, restarted,
// killed and given new secrets, and its keys rotate every second. Every request that is served without the flood must be served
// with it, and memory must not grow.
//
// changes.go is the list of what is done to the gate, memory.go the judgement of its memory.
//
// It must not know how results are plotted (package report).
package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

// Options of one run.
type Options struct {
	Base trial.Options // rate of the flood, load, clients, timeout, duration under the flood
	// Every is the time from one change to the next.
	Every time.Duration

	// spoil is called once, when the changes begin: a test has something go wrong that the run must notice.
	spoil func(*gate) error
}

// DefaultOptions take eleven minutes. A connection that is lost once at a full queue is tried again by its client's kernel
// within the timeout.
func DefaultOptions() Options {
	base := trial.DefaultOptions()
	base.Rate, base.Load, base.Duration, base.Timeout = load.RateMax, 200, 10*time.Minute, 10*time.Second
	return Options{Base: base, Every: 5 * time.Second}
}

// Validate checks all options.
func (o *Options) Validate() error {
	if o.Every < 100*time.Millisecond || o.Every > o.Base.Duration {
		return fmt.Errorf("--every %s: want 100ms to the duration, %s", o.Every, o.Base.Duration)
	}
	return o.Base.Validate()
}

// calm is how long the same load is served without the flood and without changes, before.
func (o *Options) calm() time.Duration { return max(time.Second, min(o.Base.Duration/10, time.Minute)) }

// Phase is the load of one part of a run.
type Phase struct {
	Seconds  float64        `json:"seconds"`
	Requests int            `json:"requests"`
	OK       int            `json:"ok"`
	Errors   map[string]int `json:"errors,omitempty"`
	Connect  load.Quantiles `json:"connect_ms"`
	Latency  load.Quantiles `json:"latency_ms"`
	LagMax   float64        `json:"client_start_lag_max_ms"`
}

// Result is the one JSON object of `tidegate-lab soak --json`.
type Result struct {
	Begun     time.Time      `json:"begun"`
	Kernel    string         `json:"kernel"`
	Rate      string         `json:"rate_asked"`
	SYNs      uint64         `json:"syn_sent"`
	SYNPPS    float64        `json:"syn_pps"`
	Cookies   uint64         `json:"cookies_sent"` // since the last daemon's maps were made
	Calm      Phase          `json:"calm"`         // without the flood
	Flooded   Phase          `json:"flooded"`
	Rotations uint64         `json:"key_rotations"`
	Changes   map[string]int `json:"changes"` // how often each was made
	Did       []Change       `json:"did"`
	Samples   []Sample       `json:"samples"`
	Memory    Memory         `json:"memory"`
	Pinning   rig.Pinning    `json:"pinning"`
	// Failures say what was not as it must be; none: the run has passed.
	Failures []string `json:"failures"`
}

// Passed reports whether everything was as it must be.
func (r *Result) Passed() bool { return len(r.Failures) == 0 }

// Run makes a topology, runs the soak in it, and always removes it again. An error means that there is no result.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	if o.Base.Progress == nil {
		o.Base.Progress = func(string, ...any) {}
	}
	r = &Result{Begun: time.Now().UTC().Truncate(time.Second), Kernel: rig.KernelRelease(), Rate: o.Base.Rate.String(), Changes: map[string]int{}, Failures: []string{}}
	env, err := trial.NewEnv(o.Base)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	r.Pinning = env.Pin
	t, err := rig.NewTopology(env.Owner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := t.AddClients(o.Base.Clients, o.Base.IPv6); err != nil {
		return nil, err
	}
	srv, err := load.StartServer(ctx, t, env.Server, env.Dir, env.Self, env.Pin.Server, o.Base.ResponseSize, o.Base.Backlog)
	if err != nil {
		return nil, err
	}
	defer srv.Stop(time.Second)
	g := newGate(env.Defence(), t)
	defer func() { err = errors.Join(err, g.Stop()) }()
	if err := g.start(ctx); err != nil {
		return nil, err
	}
	if err := r.unflooded(ctx, o, t); err != nil {
		return nil, err
	}
	if err := r.underFlood(ctx, o, env, t, g); err != nil {
		return nil, err
	}
	select {
	case <-srv.Exited:
		return nil, fmt.Errorf("web server exited during the run: %w", srv.Failure())
	default:
	}
	r.judge()
	return r, nil
}

// unflooded runs the load without flood and changes.
func (r *Result) unflooded(ctx context.Context, o Options, t *rig.Topology) (err error) {
	o.Base.Progress("without the flood: %s", o.calm())
	r.Calm, err = requests(ctx, o.Base, t, o.calm(), 0)
	return err
}

// underFlood runs the load under flood and changes.
func (r *Result) underFlood(ctx context.Context, o Options, env *trial.Env, t *rig.Topology, g *gate) (err error) {
	flood, err := load.NewFlood(t.AttackerPort, t.FloodPort, load.FloodOptions{Target: rig.ServiceAddr(o.Base.IPv6), Mix: o.Base.FloodMix, CPU: env.Pin.Flood})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, flood.Close()) }()
	before, err := g.status(ctx)
	if err != nil {
		return err
	}
	rx0, err := t.FloodPort.RxPackets()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	var wg sync.WaitGroup
	var floodErr, loadErr error
	begin, instance := time.Now(), g.Instance
	if o.Base.Rate > 0 {
		wg.Go(func() { _, floodErr = flood.Run(working, o.Base.Rate) })
	}
	wg.Go(func() { r.Samples = watch(working, instance, &g.pid, begin, o.Base.Progress) })
	wg.Go(func() {
		defer stopWork() // whatever happens: the others wait for the last request
		r.Flooded, loadErr = requests(ctx, o.Base, t, o.Base.Duration, trial.FloodHead)
	})
	r.change(working, o, g, begin)
	wg.Wait()
	if err := errors.Join(loadErr, floodErr, ctx.Err()); err != nil {
		return err
	}
	rx1, err := t.FloodPort.RxPackets()
	if err != nil {
		return err
	}
	r.SYNs = rx1 - rx0
	r.SYNPPS = load.Round3(float64(r.SYNs) / time.Since(begin).Seconds())
	// The instance is asked even if a change has failed: that must not hide what else went wrong.
	after, err := g.status(ctx)
	if err != nil {
		r.fail("the gate's status at the end: %v", err)
		return nil
	}
	r.Rotations = after.Epoch - before.Epoch
	for _, s := range after.Services {
		r.Cookies += s.Counters["cookie_sent"]
	}
	return nil
}

// change makes one change after the other until ctx ends or one fails.
func (r *Result) change(ctx context.Context, o Options, g *gate, begin time.Time) {
	if o.spoil != nil {
		if err := o.spoil(g); err != nil {
			r.fail("spoiling: %v", err)
		}
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// All at least once. Later the daemon is restarted in the first third only, so that the last one lives long enough for its memory to grow.
		list := changes
		if i >= len(changes) && time.Since(begin) > o.Base.Duration/3 {
			list = lasting()
		}
		c := list[i%len(list)]
		err := within(ctx, func(ctx context.Context) error { return c.make(g, ctx) })
		if ctx.Err() != nil {
			return // the run has ended in the midst of it
		}
		r.Did = append(r.Did, Change{At: load.Round3(time.Since(begin).Seconds()), What: c.name})
		if err != nil {
			r.fail("%s after %s: %v", c.name, time.Since(begin).Round(time.Second), err)
			return
		}
		r.Changes[c.name]++
		o.Base.Progress("%4.0f s: %s", time.Since(begin).Seconds(), c.name)
	}
}

// requests runs the load for some time.
func requests(ctx context.Context, o trial.Options, t *rig.Topology, d, head time.Duration) (p Phase, err error) {
	o.Duration = d
	env, err := trial.NewEnv(o)
	if err != nil {
		return p, err
	}
	// Its folder is that of the whole run, which removes it.
	cl, err := env.StartClient(ctx, t)
	if err != nil {
		return p, err
	}
	defer cl.Proc.Stop(0)
	l, err := cl.Run(ctx, head)
	if err != nil {
		return p, err
	}
	if err := trial.CheckDisturbed(l, o.Timeout, env.Pin.Client); err != nil {
		return p, err
	}
	return Phase{Seconds: l.Elapsed, Requests: l.Requests, OK: l.OK, Errors: l.Errors, Connect: l.Connect, Latency: l.Latency, LagMax: l.LagMax}, nil
}

func (r *Result) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// judge says what was not as it must be.
func (r *Result) judge() {
	for _, p := range []struct {
		when string
		Phase
	}{{"without the flood", r.Calm}, {"under the flood", r.Flooded}} {
		if p.OK != p.Requests || p.Requests == 0 {
			r.fail("%s %d of %d requests were served: %v", p.when, p.OK, p.Requests, p.Errors)
		}
	}
	if r.Rate != "0" && r.SYNs == 0 {
		r.fail("no SYN of the flood arrived")
	}
	if len(r.Changes) == 0 {
		r.fail("no change was made; a run must last longer than its first one")
	}
	var grew []string
	r.Memory, grew = judgeMemory(r.Samples)
	r.Failures = append(r.Failures, grew...)
}

// Summary returns the result as text.
func (r *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "flood      %d SYNs, %.0f a second (requested: %s)\n", r.SYNs, r.SYNPPS, r.Rate)
	for _, p := range []struct {
		name string
		Phase
	}{{"calm", r.Calm}, {"flooded", r.Flooded}} {
		fmt.Fprintf(&b, "%-10s %d of %d requests served in %.0f s; connect p50 %g ms, p99 %g, p99.9 %g\n", p.name, p.OK, p.Requests, p.Seconds, p.Connect.P50, p.Connect.P99, p.Connect.P999)
	}
	var names []string
	for n, times := range r.Changes {
		names = append(names, fmt.Sprintf("%s %d", n, times))
	}
	sort.Strings(names)
	fmt.Fprintf(&b, "changes    %s; %d key rotations\n", strings.Join(names, ", "), r.Rotations)
	fmt.Fprintf(&b, "memory     %s\n", r.Memory)
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "FAILED     %s\n", f)
	}
	return b.String()
}
