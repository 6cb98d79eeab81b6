// SPDX-License-Identifier: Apache-2.0

package strategies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
	"tidegate/internal/plane"
)

// Tables I and II of Scholz et al., "Me Love (SYN-)Cookies" (sections II.D and III.B),
// measured: each strategy of the proxy between real clients
// and a real server, with every mark derived from a figure of the same run.

// Options are what to measure, and how much.
type Options struct {
	Strategies []string      // empty: all that this version has
	Bitmap     []string      // strategies that are measured once more with whitelist_v4: bitmap
	Frames     int           // of each forged flood
	Clients    int           // legitimate ones under the flood, each with its own address
	Rate       load.Rate     // of that flood
	Unanswered time.Duration // how long a SYN-ACK is left unanswered
	// SYNCost counts the instructions of a SYN; nil: not counted.
	SYNCost  func(context.Context) (SYNCost, error)
	Progress func(format string, args ...any)
	Exe      string // the tidegate binary; empty: the one that FindTidegate finds
}

// DefaultOptions take about a minute and a half.
func DefaultOptions() Options {
	return Options{Frames: 20000, Clients: 100, Rate: 50000, Unanswered: 2500 * time.Millisecond}
}

// SYNCost is the benchmark's result: BPF instructions of a SYN. Each call of a kernel function counts as one.
type SYNCost struct {
	SipHash  int // of 16 bytes
	Reflect  int // the plain reflection of the frame
	Strategy map[string]int
	Helpers  map[string]int // calls of kernel functions among them
}

// Forged is the result of a flood with random sources.
type Forged struct {
	Arrived  uint64  `json:"arrived"`
	Accepted uint64  `json:"accepted"` // sources whitelisted, connections begun or SYNs forwarded
	Share    float64 `json:"share"`
}

// Figures are the measurements of one strategy.
type Figures struct {
	Strategy string `json:"strategy"`

	MemoryPerSYN float64 `json:"memory_bytes_per_syn"` // growth of all its maps during a flood
	Instructions *int    `json:"instructions_per_syn"` // null: not counted
	Helpers      int     `json:"helpers_per_syn"`      // among them, calls of kernel functions

	FirstTried  int            `json:"first_connections"` // of clients never seen before
	FirstOK     int            `json:"first_connections_ok"`
	FirstErrors map[string]int `json:"first_connections_errors"` // as the application sees them

	OptionsAsked int      `json:"options_compared"` // at both ends, with and without the box
	OptionsLost  []string `json:"options_lost"`
	CoreLost     bool     `json:"options_core_lost"` // window scale, SACK or timestamps are lost

	AnswersUnasked     int  `json:"synacks_sent_again"` // while the first was unanswered
	AnswersRetransmits bool `json:"answers_retransmitted_syn"`

	Forged  map[string]Forged `json:"forged"` // by kind: syn, ack, rst
	Legit   int               `json:"legitimate_clients"`
	Refused int               `json:"legitimate_refused"` // after one retry of a reset connection

	Segments        int     `json:"segments"` // with data, of one connection, seen on both sides
	SegmentsChanged int     `json:"segments_changed"`
	EntriesOneSrc   int     `json:"entries_one_source"`   // for heldForEntries connections from one address
	EntriesManySrc  int     `json:"entries_many_sources"` // for as many from an address each
	KeyBytes        int     `json:"key_bytes"`
	EntryBytes      float64 `json:"entry_bytes"`
	LooksUpSYN      bool    `json:"looks_up_syn"`   // a known client's SYN is treated differently
	LooksUpOther    bool    `json:"looks_up_other"` // likewise an ACK or a RST
}

// Report is the one JSON object of `tidegate-lab strategies --json`.
type Report struct {
	Begun      time.Time  `json:"begun"`
	Seconds    float64    `json:"seconds"`
	Kernel     string     `json:"kernel"`
	CPU        string     `json:"cpu"`
	Rate       string     `json:"rate"`
	Frames     int        `json:"frames"`
	Unanswered float64    `json:"unanswered_s"`
	SipHash    int        `json:"siphash24_instructions"` // 0: not counted
	Reflect    int        `json:"reflect_instructions"`
	Figures    []Figures  `json:"figures"`
	TableI     []TableRow `json:"table_1"`
	TableII    []TableRow `json:"table_2"`
	Disagrees  []string   `json:"disagreements"` // with the tables as published
	NotOffered []string   `json:"not_offered"`   // published strategies that this version lacks
}

// BitmapSuffix follows a strategy's name where its whitelist is a bitmap: a column of Table II only.
const BitmapSuffix = ", bitmap"

// Run measures all strategies, one after the other.
func Run(ctx context.Context, o Options) (*Report, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if len(o.Strategies) == 0 {
		for _, s := range config.Strategies() {
			o.Strategies = append(o.Strategies, string(s))
		}
	}
	begin := time.Now()
	r := &Report{Begun: begin.UTC().Truncate(time.Second), Kernel: rig.KernelRelease(), CPU: rig.CPUModel(),
		Rate: o.Rate.String(), Frames: o.Frames, Unanswered: o.Unanswered.Seconds()}
	var cost SYNCost
	if o.SYNCost != nil {
		var err error
		if cost, err = o.SYNCost(ctx); err != nil {
			return nil, err
		}
		r.SipHash, r.Reflect = cost.SipHash, cost.Reflect
	}
	list := slices.Clone(o.Strategies)
	for _, s := range o.Bitmap {
		list = append(list, s+BitmapSuffix)
	}
	for i, s := range list {
		o.Progress("strategy %s (%d of %d)", s, i+1, len(list))
		f, err := measure(ctx, o, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		if n, there := cost.Strategy[s]; there {
			f.Instructions, f.Helpers = &n, cost.Helpers[s]
		}
		r.Figures = append(r.Figures, *f)
	}
	r.Seconds = load.Round3(time.Since(begin).Seconds())
	r.judge()
	return r, nil
}

// run is one strategy under measurement.
type run struct {
	ctx  context.Context
	o    Options
	env  *trial.Env
	p    *rig.ProxyTopology
	def  *defences.Proxy
	fig  *Figures
	next int // next unused client address
}

func measure(ctx context.Context, o Options, strategy string) (_ *Figures, err error) {
	opts := trial.DefaultOptions()
	plain, bitmap := strings.CutSuffix(strategy, BitmapSuffix)
	opts.Defence, opts.Exe, opts.Progress = defences.ProxyPrefix+plain, o.Exe, o.Progress
	env, err := trial.NewEnv(opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	p, err := rig.NewProxyTopology("", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	r := &run{ctx: ctx, o: o, env: env, p: p, next: 1, fig: &Figures{Strategy: strategy,
		FirstErrors: map[string]int{}, Forged: map[string]Forged{}, OptionsLost: []string{}}}
	if err := p.AddClients(firstTries+2*heldForEntries+8+o.Clients, false); err != nil {
		return nil, err
	}
	stop, err := serveAgreed(p.Server)
	if err != nil {
		return nil, err
	}
	defer stop()
	direct, err := r.agreedAll()
	if err != nil {
		return nil, fmt.Errorf("without a box's defence: %w", err)
	}
	def := env.Defence()
	def.Bitmap = bitmap
	r.def = defences.NewProxy(def).(*defences.Proxy)
	defer func() { err = errors.Join(err, r.def.Stop()) }()
	if err := r.def.Start(ctx, p.Topology); err != nil {
		return nil, err
	}
	for _, part := range []func() error{
		r.measureFirst, r.measureRetransmits,
		func() error { return r.measureOptions(direct) },
		r.measureSegments, r.measureEntries, r.measureLookups,
		r.measureForged, r.measureLegit,
	} {
		if err := errors.Join(part(), ctx.Err()); err != nil {
			return nil, err
		}
	}
	return r.fig, nil
}

// fresh returns the number of an unused client address.
func (r *run) fresh() int {
	r.next++
	return r.next - 1
}

// measureForged sends floods with random sources and counts how many get through.
func (r *run) measureForged() error {
	for _, kind := range []struct {
		name  string
		flags load.TCPFlags
	}{{"syn", load.FlagSYN}, {"ack", load.FlagACK}, {"rst", load.FlagRST}} {
		f, err := load.NewFlood(r.p.AttackerPort, r.p.FloodPort, load.FloodOptions{Target: rig.ServiceAddr(false), Flags: kind.flags, CPU: r.env.Pin.Flood})
		if err != nil {
			return err
		}
		err = r.forged(f, kind.name)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s flood: %w", strings.ToUpper(kind.name), err)
		}
	}
	return nil
}

func (r *run) forged(f *load.Flood, kind string) error {
	before, err := r.def.Counters(r.ctx)
	if err != nil {
		return err
	}
	mount := rig.BpfMounts()[0]
	bytes0, err := plane.Footprint(mount, r.def.Instance)
	if err != nil {
		return err
	}
	rx0, err := r.p.FloodPort.RxPackets()
	if err != nil {
		return err
	}
	if _, err := f.Burst(r.o.Frames); err != nil {
		return err
	}
	rx1, err := r.p.FloodPort.RxPackets()
	if err != nil {
		return err
	}
	bytes1, err := plane.Footprint(mount, r.def.Instance)
	if err != nil {
		return err
	}
	after, err := r.def.Counters(r.ctx)
	if err != nil {
		return err
	}
	got := Forged{Arrived: rx1 - rx0}
	for _, name := range []string{"white_added", "white_full", "flow_opened", "forward_white"} {
		got.Accepted += after[name] - before[name]
	}
	if got.Arrived == 0 {
		return errors.New("no frame arrived")
	}
	got.Share = float64(got.Accepted) / float64(got.Arrived)
	r.fig.Forged[kind] = got
	if kind == "syn" {
		r.fig.MemoryPerSYN = load.Round3(max(0, float64(bytes1)-float64(bytes0)) / float64(got.Arrived))
	}
	return nil
}

// measureLegit runs legitimate clients during the flood.
func (r *run) measureLegit() error {
	f, err := load.NewFlood(r.p.AttackerPort, r.p.FloodPort, load.FloodOptions{Target: rig.ServiceAddr(false), CPU: r.env.Pin.Flood})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.ctx)
	flooded := make(chan error, 1)
	go func() {
		_, err := f.Run(ctx, r.o.Rate)
		flooded <- err
	}()
	for range r.o.Clients {
		r.fig.Legit++
		if _, err := r.agreedRetry(r.fresh(), 0); err != nil {
			r.fig.Refused++
		}
	}
	stop()
	return errors.Join(<-flooded, f.Close())
}
