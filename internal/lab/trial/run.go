// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/sampler"
)

// Options of one experiment: one defence under one flood.
type Options struct {
	Defence  string
	Plane    string    // of a proxy: PlaneXDP or PlaneDPDK
	Rate     load.Rate // flood, SYNs per second
	FloodMix load.FloodMix
	IPv6     bool // the service is attacked and used over IPv6

	Clients      int           // source addresses
	Load         float64       // legitimate requests per second, all clients together
	Duration     time.Duration // of the legitimate load
	Requests     int           // total instead of Load times Duration; 0: unset
	Timeout      time.Duration // of one request
	ClientCloses bool
	NoTimestamps bool // clients without TCP timestamps
	Retries      int  // for a request that was reset before it got an answer
	Ports        int  // local ports a client may use; 0: the system's default

	Urgent      bool // the clients run before other processes on their processor
	Alone       bool // other processes are kept off the server's processor (rig.Workplace.Quiet); only package overload does so
	Backlog     int  // of the server's listen(); 0: the default
	KeepConnect bool // the result holds every connection's connect time

	Server       string // auto, nginx or builtin
	ResponseSize int

	// Progress is called with one line at a time; nil: none.
	Progress func(format string, args ...any)
	// Exe is the tidegate binary; empty: the one that FindTidegate finds.
	Exe string
}

// DefaultOptions are those of `tidegate-lab flood` without flags.
func DefaultOptions() Options {
	return Options{
		Defence: defences.Host, Plane: rig.PlaneXDP, Rate: 50000, Clients: 50, Load: 500,
		Duration: 10 * time.Second, Timeout: 3 * time.Second,
		Server: load.ServerAuto, ResponseSize: 1024,
	}
}

// Validate checks all options; an error names the option, its value, and valid values.
func (o *Options) Validate() error {
	ok := slices.Contains(defences.WithBoxes(), o.Defence)
	switch {
	case !ok:
		return fmt.Errorf("--defence %q: want one of %s", o.Defence, strings.Join(defences.WithBoxes(), ", "))
	case o.Plane != rig.PlaneXDP && o.Plane != rig.PlaneDPDK:
		return fmt.Errorf("--plane %q: want xdp or dpdk", o.Plane)
	case o.Plane == rig.PlaneDPDK && !strings.HasPrefix(o.Defence, defences.ProxyPrefix):
		return fmt.Errorf("--plane dpdk: is for --defence proxy-STRATEGY; %s has one plane", o.Defence)
	case o.Clients < 1 || o.Clients > rig.MaxClients:
		return fmt.Errorf("--clients %d: want 1 to %d", o.Clients, rig.MaxClients)
	case !(o.Load > 0 && o.Load <= 1e5):
		return fmt.Errorf("--load %g: want more than 0 and at most 100000 requests per second", o.Load)
	case o.Duration <= 0 || o.Duration > time.Hour:
		return fmt.Errorf("--duration %s: want more than 0 and at most 1h", o.Duration)
	case o.Timeout < 10*time.Millisecond || o.Timeout > time.Minute:
		return fmt.Errorf("--timeout %s: want 10ms to 1m", o.Timeout)
	case o.Requests < 0:
		return fmt.Errorf("--requests %d: want a positive number", o.Requests)
	case o.Retries < 0 || o.Retries > 10:
		return fmt.Errorf("--retries %d: want 0 to 10", o.Retries)
	case o.Ports < 0 || o.Ports > 60000:
		return fmt.Errorf("--ports %d: want 1 to 60000", o.Ports)
	case o.ResponseSize < 0 || o.ResponseSize > 64<<20:
		return fmt.Errorf("--response-size %d: want 0 to 64 MiB", o.ResponseSize)
	case o.IPv6 && !rig.HaveIPv6():
		return errors.New("--ipv6: this kernel has no IPv6")
	}
	_, err := load.ChooseServer(o.Server)
	return err
}

// ErrDisturbed voids an experiment in which the clients' own process
// stalled: the delay was this machine's, not the server's.
var ErrDisturbed = errors.New("disturbed by other work on this machine; run it again when the machine is idle")

// CheckDisturbed rejects a load that began requests later than half their timeout.
func CheckDisturbed(l load.ClientResult, timeout time.Duration, cpu int) error {
	lag := time.Duration(l.LagMax * float64(time.Millisecond))
	if lag <= timeout/2 {
		return nil
	}
	return fmt.Errorf("the clients' process got no CPU time for %s (CPU %d): %w", lag.Round(time.Millisecond), cpu, ErrDisturbed)
}

// Env is what the parts of one experiment share.
type Env struct {
	*rig.Workplace
	opts   Options
	Server string
}

const (
	// FloodHead is how long the flood runs before the first request: long
	// enough to fill a SYN queue at 1,000 SYN/s.
	FloodHead = time.Second
	// sampleEvery is how often half-open connections are counted.
	sampleEvery = 250 * time.Millisecond
)

// Run makes a topology, runs one experiment in it, and always removes it
// again.
func Run(ctx context.Context, opts Options) (res *Result, err error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	env, err := NewEnv(opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	t, err := env.topology()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return env.experiment(ctx, t)
}

// topology makes the topology that the defence needs.
func (env *Env) topology() (*rig.Topology, error) {
	if !defences.InBox(env.opts.Defence) {
		return rig.NewTopology(env.Owner)
	}
	p, err := rig.NewProxyTopology("", false)
	if err != nil {
		return nil, err
	}
	return p.Topology, nil
}

// Defence describes the experiment to its defence.
func (env *Env) Defence() defences.Env {
	return defences.Env{Workplace: env.Workplace, Name: env.opts.Defence, Plane: env.opts.Plane, IPv6: env.opts.IPv6}
}

// NewEnv chooses the web server and makes the folder of an experiment, which Close removes. Options are taken as valid.
func NewEnv(opts Options) (*Env, error) {
	server, err := load.ChooseServer(opts.Server)
	if err != nil {
		return nil, err
	}
	w, err := rig.NewWorkplace(opts.Exe, opts.Progress)
	if err != nil {
		return nil, err
	}
	return &Env{Workplace: w, opts: opts, Server: server}, nil
}

// experiment runs the phases: calibrate, serve, defend, flood, load, count.
func (env *Env) experiment(ctx context.Context, t *rig.Topology) (_ *Result, err error) {
	o := env.opts
	target := rig.ServiceAddr(o.IPv6)
	if err := t.Server.SetBacklog(o.Backlog); err != nil {
		return nil, err
	}
	if err := t.AddClients(o.Clients, o.IPv6); err != nil {
		return nil, err
	}
	flood, err := load.NewFlood(t.AttackerPort, t.FloodPort, load.FloodOptions{Target: target, Mix: o.FloodMix, CPU: env.Pin.Flood})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, flood.Close()) }()
	own, err := env.calibrate(ctx, t, flood, o.Rate)
	if err != nil {
		return nil, err
	}
	srv, err := load.StartServer(ctx, t, env.Server, env.Dir, env.Self, env.Pin.Server, o.ResponseSize, o.Backlog)
	if err != nil {
		return nil, err
	}
	defer srv.Stop(time.Second)
	def, err := defences.New(env.Defence())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, def.Stop()) }()
	if err := def.Start(ctx, t); err != nil {
		return nil, err
	}
	m, err := env.attack(ctx, t, flood, srv, def)
	if err != nil {
		return nil, err
	}
	if err := CheckDisturbed(m.Load, o.Timeout, env.Pin.Client); err != nil {
		return nil, err
	}
	cookies, err := def.Cookies(ctx, t)
	if err != nil {
		return nil, err
	}
	return env.Result(m, cookies, own), nil
}

// Cost is that of making and delivering one SYN, which is not the defence's.
type Cost struct{ Ns, Instructions float64 }

// Calibrated measures it with a flood whose frames are dropped on arrival.
func (env *Env) Calibrated(ctx context.Context, flood func(context.Context) (load.FloodStats, error)) (c Cost, err error) {
	ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
	defer cancel()
	var s load.FloodStats
	n, err := sampler.Instructions(env.Pin.Flood, func() (err error) {
		s, err = flood(ctx)
		return err
	})
	if err != nil || s.Frames == 0 {
		return c, err
	}
	return Cost{float64(s.Busy.Nanoseconds()) / float64(s.Frames), float64(n) / float64(s.Frames)}, nil
}

// calibrate measures at the same rate and against an XDP drop at the far end.
func (env *Env) calibrate(ctx context.Context, t *rig.Topology, f *load.Flood, rate load.Rate) (c Cost, err error) {
	if rate == 0 {
		return c, nil
	}
	drop, err := t.FloodPort.AttachXDP(t.Programs.TgLabDrop)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, drop.Close(), t.FloodPort.EnableGRO()) }()
	return env.Calibrated(ctx, func(ctx context.Context) (load.FloodStats, error) { return f.Run(ctx, rate) })
}
