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

// Options are which defences, and how closely.
type Options struct {
	Base     trial.Options // clients, load, timeout, duration
	Defences []string
	Rates    []load.Rate // measured beside those of the search
	Searches int         // from which a capacity's spread comes
	// KernelClients are processes with sockets instead of clients inside the flood.
	KernelClients bool
	// Done is told of each measurement.
	Done func(defence string, p Point)
}

// DefaultOptions fit into four minutes, build included, on two processors.
func DefaultOptions() Options {
	base := trial.DefaultOptions()
	base.Load, base.Duration, base.Timeout, base.Urgent = 800, 1250*time.Millisecond, time.Second, true
	base.Clients = 200
	return Options{Base: base, Searches: 2,
		Defences: []string{defences.None, defences.Kernel, defences.Nft, defences.Host, defences.NftProxy, defences.ProxyPrefix + "cookie"}}
}

// Choose takes other rates, if any are given, and checks everything.
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
	if o.Searches < 0 || o.Searches > 20 {
		return fmt.Errorf("--searches %d: want 0 to 20", o.Searches)
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

// Capacity is the highest offered rate at which a defence served everybody, in SYNs a
// second, as several searches found it.
type Capacity struct {
	Median float64 `json:"median_pps"`
	Low    float64 `json:"low_pps"`
	High   float64 `json:"high_pps"`
	// AtLeast: it served everybody at all that the generator could send.
	AtLeast bool `json:"at_least"`
	// Unsought: no search was made.
	Unsought bool `json:"unsought,omitempty"`
}

// Defence is what was measured of one.
type Defence struct {
	Name     string   `json:"defence"`
	Place    string   `json:"place"` // server, or box
	Plane    string   `json:"plane,omitempty"`
	Error    string   `json:"error,omitempty"` // why there is nothing more
	Capacity Capacity `json:"capacity"`
	Points   []Point  `json:"points"`   // by offered rate
	AtMax    *Point   `json:"at_max"`   // at the generator's most
	AtTen    *Point   `json:"at_ten"`   // at ten times the kernel's capacity
	SYNNs    float64  `json:"ns_a_syn"` // processor time of a SYN under full load, less the wire's
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
	Server   string      `json:"server"`
	Pinning  rig.Pinning `json:"pinning"`
	Wire     Point       `json:"wire"`    // a program that drops everything in the victim's place
	Ceiling  []Point     `json:"ceiling"` // the same at lower rates: what is lost whatever the defence
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

// Factor is how many times one defence's capacity is another's; 0 if one is not known.
func (r *Result) Factor(of, over string) float64 {
	a, b := r.Find(of), r.Find(over)
	if a == nil || b == nil || b.Capacity.Median == 0 {
		return 0
	}
	return a.Capacity.Median / b.Capacity.Median
}

// Run measures all defences. One that fails says why in its place, and the others go on.
func Run(ctx context.Context, o Options) (*Result, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	begin := time.Now()
	r := &Result{Begun: begin.UTC().Truncate(time.Second), Kernel: rig.KernelRelease(), CPU: rig.CPUModel(), CPUs: runtime.NumCPU(),
		Load: o.Base.Load, Timeout: o.Base.Timeout.Seconds() * 1e3, Clients: o.Base.Clients}
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
	// The kernel first: the others are asked for ten times its capacity.
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
	s, err := newStand(ctx, one, o.KernelClients)
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

// ceilingRates are those at which the wire's own loss is measured when no others are asked for.
var ceilingRates = []load.Rate{500_000, 1_000_000, 2_000_000}

// measure finds one defence's capacity, and what it does beyond it.
func (r *Result) measure(ctx context.Context, o Options, d *Defence) (err error) {
	one := o.Base
	one.Defence = d.Name
	if !strings.HasPrefix(d.Name, defences.ProxyPrefix) {
		one.Plane = rig.PlaneXDP
	} else {
		d.Plane = one.Plane
	}
	s, err := newStand(ctx, one, o.KernelClients)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
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
	slices.SortFunc(d.Points, func(a, b Point) int { return int(a.Offered) - int(b.Offered) })
	return nil
}
