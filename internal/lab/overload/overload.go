// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

// Served is the share of requests that a defence must serve for a rate to count.
const Served = 0.999

// Options are what to measure, and how closely.
type Options struct {
	Base     trial.Options // clients, load, timeout, duration
	Defences []string
	Rates    []load.Rate // measured in addition to those of the search
	Searches int         // number of searches; a capacity's spread comes from it
	// Queue is the number of places of the victim's receive queue, at least those of a veth's ring.
	Queue int
	// LevelsFor is how long each defence is measured without a flood, at half of its capacity and at the generator's
	// maximum, after the searches; 0: not at all.
	LevelsFor time.Duration
	// OneClientFor is how long a single client makes connections, one after the other, without a flood and at each of Rates; 0: not at all.
	OneClientFor time.Duration
	// KernelClients: clients are processes with sockets, not inside the flood.
	KernelClients bool
	// Done is called after each measurement.
	Done func(defence string, p Point)
}

// DefaultOptions take four minutes, including the build, on two processors.
func DefaultOptions() Options {
	base := trial.DefaultOptions()
	base.Load, base.Duration, base.Timeout, base.Urgent = 800, 1250*time.Millisecond, time.Second, true
	base.Clients, base.Alone = 200, true
	return Options{Base: base, Searches: 2, Queue: 4096,
		Defences: []string{defences.None, defences.Kernel, defences.Nft, defences.Host, defences.NftProxy, defences.ProxyPrefix + "cookie"}}
}

// maxQueue is the longest receive queue: the most descriptors that common NICs have.
const maxQueue = 8192

// Choose adds rates, if any are given, and validates all options.
func (o *Options) Choose(rates string) error {
	if rates != "" {
		for text := range strings.SplitSeq(rates, ",") {
			r, err := load.ParseRate(text)
			if err != nil {
				return fmt.Errorf("--rates: %w", err)
			}
			o.Rates = append(o.Rates, r)
		}
	}
	if len(o.Defences) == 0 {
		return errors.New("--defences: name at least one")
	}
	if o.Queue < load.VethRing || o.Queue > maxQueue {
		return fmt.Errorf("--queue %d: want %d, the ring of a veth, to %d", o.Queue, load.VethRing, maxQueue)
	}
	if o.Searches < 0 || o.Searches > 20 {
		return fmt.Errorf("--searches %d: want 0 to 20", o.Searches)
	}
	if o.OneClientFor < 0 || o.OneClientFor > time.Minute || o.OneClientFor > 0 && o.KernelClients {
		return fmt.Errorf("--one-client %s: want at most a minute, and not --kernel-clients", o.OneClientFor)
	}
	for _, d := range o.Defences {
		one := o.Base
		one.Defence = d
		if !strings.HasPrefix(d, defences.ProxyPrefix) {
			one.Plane = rig.PlaneXDP
		}
		if err := one.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Capacity is the highest offered rate at which a defence still served enough requests (Served), in SYNs
// per second, as found by several searches.
type Capacity struct {
	Median float64 `json:"median_pps"`
	Low    float64 `json:"low_pps"`
	High   float64 `json:"high_pps"`
	// AtLeast: it did so even at the generator's maximum.
	AtLeast bool `json:"at_least"`
	// Unsought: no search was made.
	Unsought bool `json:"unsought,omitempty"`
}

// Defence is the results of one defence.
type Defence struct {
	Name     string   `json:"defence"`
	Place    string   `json:"place"` // server, or box
	Plane    string   `json:"plane,omitempty"`
	Error    string   `json:"error,omitempty"` // why results are missing
	Capacity Capacity `json:"capacity"`
	Points   []Point  `json:"points"` // sorted by offered rate
	AtMax    *Point   `json:"at_max"` // at the generator's maximum
	AtTen    *Point   `json:"at_ten"` // at ten times the kernel's capacity
	Levels   *Levels  `json:"levels,omitempty"`
	// OneClient begins with the measurement without a flood.
	OneClient []OneClient `json:"one_client,omitempty"`
	SYNNs     float64     `json:"ns_a_syn"` // processor time per SYN under full load, minus the wire's
}

// Result is the one JSON object of `tidegate-lab overload --json`.
type Result struct {
	Begun    time.Time   `json:"begun"`
	Seconds  float64     `json:"seconds"`
	Kernel   string      `json:"kernel"`
	CPU      string      `json:"cpu"`
	CPUs     int         `json:"cpus"`
	Load     float64     `json:"load_per_s"`
	Timeout  float64     `json:"timeout_ms"`
	Clients  int         `json:"clients"`
	Queue    int         `json:"queue"` // places of the victim's receive queue, frames
	Server   string      `json:"server"`
	Pinning  rig.Pinning `json:"pinning"`
	Wire     Point       `json:"wire"`    // a program in the victim's place that drops everything
	Ceiling  []Point     `json:"ceiling"` // the same at lower rates: loss that no defence causes
	Defences []*Defence  `json:"defences"`
}

// Find returns one defence's part; nil if it was not measured.
func (r *Result) Find(name string) *Defence {
	i := slices.IndexFunc(r.Defences, func(d *Defence) bool { return d.Name == name && d.Error == "" })
	if i < 0 {
		return nil
	}
	return r.Defences[i]
}

// Factor is the ratio of two defences' capacities; 0 if one is unknown.
func (r *Result) Factor(of, over string) float64 {
	a, b := r.Find(of), r.Find(over)
	if a == nil || b == nil || b.Capacity.Median == 0 {
		return 0
	}
	return a.Capacity.Median / b.Capacity.Median
}

// Run measures all defences. If one fails, its result says why, and the run continues.
func Run(ctx context.Context, o Options) (*Result, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	begin := time.Now()
	r := &Result{Begun: begin.UTC().Truncate(time.Second), Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), CPUs: runtime.NumCPU(),
		Load: o.Base.Load, Timeout: o.Base.Timeout.Seconds() * 1e3, Clients: o.Base.Clients, Queue: o.Queue}
	if err := r.measureWire(ctx, o); err != nil {
		return nil, err
	}
	for _, name := range o.Defences {
		d := &Defence{Name: name, Place: "server", Points: []Point{}}
		if defences.InBox(name) {
			d.Place = "box"
		}
		r.Defences = append(r.Defences, d)
	}
	// The kernel first: the others are measured at ten times its capacity.
	order := slices.Clone(r.Defences)
	slices.SortStableFunc(order, func(a, b *Defence) int { return rank(a.Name) - rank(b.Name) })
	var errs []error
	for _, d := range order {
		err := r.measure(ctx, o, d)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			d.Error = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", d.Name, err))
		}
	}
	r.Seconds = load.Round3(time.Since(begin).Seconds())
	return r, errors.Join(errs...)
}

func rank(name string) int {
	if name == defences.Kernel {
		return 0
	}
	return 1
}

func (r *Result) measureWire(ctx context.Context, o Options) (err error) {
	one := o.Base
	one.Defence = ""
	s, err := newStand(ctx, one, o.Queue, o.KernelClients)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r.Server, r.Pinning = s.env.Server, s.env.Pin
	if r.Wire, err = s.wire(ctx, load.RateMax); err != nil {
		return err
	}
	if o.Done != nil {
		o.Done("wire", r.Wire)
	}
	rates := o.Rates
	if len(rates) == 0 {
		rates = ceilingRates
	}
	for _, rate := range rates {
		if float64(rate) > r.Wire.Offered || rate == load.RateMax {
			continue
		}
		p, err := s.wire(ctx, rate)
		if err != nil {
			return err
		}
		r.Ceiling = append(r.Ceiling, p)
	}
	return nil
}

// ceilingRates are the rates at which the wire's own loss is measured by default.
var ceilingRates = []load.Rate{500_000, 1_000_000, 2_000_000}

// measure finds one defence's capacity, and measures it beyond that.
func (r *Result) measure(ctx context.Context, o Options, d *Defence) (err error) {
	one := o.Base
	one.Defence = d.Name
	if !strings.HasPrefix(d.Name, defences.ProxyPrefix) {
		one.Plane = rig.PlaneXDP
	} else {
		d.Plane = one.Plane
	}
	s, err := newStand(ctx, one, o.Queue, o.KernelClients)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if o.Queue > load.VethRing {
		s.most = load.Rate(r.Wire.Processed)
	}
	at := func(rate load.Rate) (Point, error) {
		p, err := s.at(ctx, rate)
		if err != nil {
			return p, fmt.Errorf("at %s SYN/s: %w", rate, err)
		}
		d.Points = append(d.Points, p)
		if o.Done != nil {
			o.Done(d.Name, p)
		}
		return p, nil
	}
	most, err := at(load.RateMax)
	if err != nil {
		return err
	}
	d.AtMax = &most
	d.SYNNs = max(0, load.Round3(most.FrameNs-r.Wire.FrameNs))
	for _, rate := range append([]load.Rate{0}, o.Rates...) {
		if _, err := at(rate); err != nil {
			return err
		}
	}
	d.Capacity.Unsought = true
	if o.Searches > 0 {
		if d.Capacity, err = search(at, most, o.Searches); err != nil {
			return err
		}
	}
	if kernel := r.Find(defences.Kernel); kernel != nil && kernel.Capacity.Median > 0 {
		ten, err := at(load.Rate(10 * kernel.Capacity.Median))
		if err != nil {
			return err
		}
		d.AtTen = &ten
	}
	if o.LevelsFor > 0 {
		if err := d.measureLevels(ctx, o, s); err != nil {
			return err
		}
	}
	if o.OneClientFor > 0 {
		if err := d.measureOneClient(ctx, o, s); err != nil {
			return err
		}
	}
	slices.SortFunc(d.Points, func(a, b Point) int { return int(a.Offered) - int(b.Offered) })
	return nil
}
