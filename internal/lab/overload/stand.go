// SPDX-License-Identifier: Apache-2.0

package overload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf/link"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

// stand is one victim, kept for many measurements: generator and clients on one processor,
// the whole victim on another, one port and one queue between them.
type stand struct {
	env   *trial.Env
	opts  trial.Options
	top   *rig.Topology
	flood *load.Flood
	srv   *rig.Process

	victim *rig.Poller // receives the frames of flood and clients
	behind *rig.Poller // with a box: the server's, which receives what the box forwards

	// most is the rate to ask for instead of full speed; 0: full speed. Only a paced flood has a queue beside the ring.
	most load.Rate

	kernelClients bool // clients are processes with sockets, on the generator's processor

	closers []func() error
}

// head is how long a flood runs before the first request.
const head = 300 * time.Millisecond

// newStand makes a stand with a running defence; an empty name means none.
func newStand(ctx context.Context, o trial.Options, queue int, kernelClients bool) (s *stand, err error) {
	bare := o.Defence == ""
	if bare {
		o.Defence = defences.None
	}
	s = &stand{opts: o, kernelClients: kernelClients}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.env, err = trial.NewEnv(o); err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.env.Close)
	if s.env.Pin.Flood == s.env.Pin.Server {
		return s, errors.New("overload needs two processors: one for flood and clients, one for the victim")
	}
	s.env.Pin.Client = s.env.Pin.Flood
	restore, err := s.env.Quiet(s.env.Pin.Server, o.Alone)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, restore)
	if err := s.build(); err != nil {
		return s, err
	}
	target := rig.ServiceAddr(o.IPv6)
	flood := load.FloodOptions{Target: target, Mix: o.FloodMix, CPU: s.env.Pin.Flood, Queue: queue}
	if !s.kernelClients {
		flood.Clients = &load.InFlood{Sources: o.Clients, Retries: o.Retries, Timeout: o.Timeout, Door: s.top.ClientNets}
	}
	if s.flood, err = load.NewFlood(s.top.AttackerPort, s.top.FloodPort, flood); err != nil {
		return s, err
	}
	s.closers = append(s.closers, s.flood.Close)
	if !s.kernelClients {
		if err := s.top.Door.Update(s.flood.Door()); err != nil {
			return s, fmt.Errorf("the clients' door: %w", err)
		}
	}
	if bare {
		return s, nil
	}
	s.srv, err = load.StartServer(ctx, s.top, s.env.Server, s.env.Dir, s.env.Self, s.env.Pin.Server, o.ResponseSize, o.Backlog)
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, func() error { s.srv.Stop(time.Second); return nil })
	if err := rig.Favour(s.srv.Cmd.Process.Pid); err != nil {
		return s, err
	}
	def, err := defences.New(s.env.Defence())
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, def.Stop)
	return s, def.Start(ctx, s.top)
}

// build makes the topology and assigns its ports to processors.
func (s *stand) build() (err error) {
	pin := s.env.Pin
	if defences.InBox(s.opts.Defence) {
		p, err := rig.NewOnePortProxy(s.env.Owner)
		if err != nil {
			return err
		}
		s.top = p.Topology
		s.closers = append(s.closers, p.Close)
		if err := p.ServerPort.EnableGRO(); err != nil { // its NAPI, whatever program is attached
			return err
		}
		if s.behind, err = p.ServerPort.PollOn(pin.Server, true); err != nil {
			return err
		}
	} else {
		if s.top, err = rig.NewOnePort(s.env.Owner); err != nil {
			return err
		}
		s.closers = append(s.closers, s.top.Close)
	}
	// What the victim sends to the flood's sources is received on its own processor, as a network card's driver frees what was
	// sent; a generator that received it would be what bounds an overload. Sockets must not receive there.
	if s.kernelClients {
		if _, err := s.top.AttackerPort.PollOn(pin.Flood, true); err != nil {
			return err
		}
	}
	if s.victim, err = s.top.FloodPort.PollOn(pin.Server, false); err != nil {
		return err
	}
	return s.top.AddClients(s.opts.Clients, s.opts.IPv6)
}

func (s *stand) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// dropAll attaches a program to the flood's port that drops everything.
func (s *stand) dropAll() (link.Link, error) {
	return s.top.FloodPort.AttachXDP(s.top.Programs.TgLabDrop)
}

// gauges are the counters whose differences make a measurement.
type gauges struct {
	arrived uint64
	victim  time.Duration
	waited  time.Duration // runnable, and not on its processor
	server  time.Duration
	// answered is how many SYN-ACKs to the flood's sources have arrived at their end; with clients that are processes, none is counted.
	answered uint64
}

func (s *stand) read() (g gauges, err error) {
	var errs [4]error
	g.arrived, errs[0] = s.top.FloodPort.RxPackets()
	g.victim, g.waited, errs[1] = s.victim.CPU()
	g.answered, errs[3] = s.flood.SYNACKs()
	if s.behind != nil {
		g.server, _, errs[2] = s.behind.CPU()
	}
	if s.srv != nil {
		g.server += processCPU(s.srv.Cmd.Process.Pid)
	}
	return g, errors.Join(errs[:]...)
}

// processCPU is the CPU time of a process, including system time; 0 if it has ended.
func processCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	ns, _ := strconv.ParseInt(first, 10, 64)
	return time.Duration(ns)
}

// wire measures the port alone for a short time, at full speed or at a rate.
func (s *stand) wire(ctx context.Context, rate load.Rate) (p Point, err error) {
	drop, err := s.dropAll()
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, drop.Close()) }()
	warmCtx, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := s.flood.RunEven(warmCtx, 10_000); err != nil {
		return p, err
	}
	if err := s.victim.Reserve(s.env.Pin.Server); err != nil {
		return p, err
	}
	before, err := s.read()
	if err != nil {
		return p, err
	}
	floodCtx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	stats, err := s.flood.RunEven(floodCtx, rate)
	if err != nil {
		return p, err
	}
	after, err := s.read()
	p.Asked = rate.String()
	p.fill(before, after, stats)
	return p, errors.Join(err, ctx.Err())
}

// at measures one rate, and repeats the measurement if other work on this machine
// disturbed it. Clients that are late each time, on the flood's processor, are part
// of the result, which shows it (Point.LagMax).
func (s *stand) at(ctx context.Context, rate load.Rate) (p Point, err error) {
	for try := 1; ; try++ {
		p, err = s.once(ctx, rate)
		repeat := errors.Is(err, trial.ErrDisturbed) || err == nil && (p.Moved || p.Success < Served && p.Disturbed())
		if errors.Is(err, trial.ErrDisturbed) && try == 3 {
			return p, nil
		}
		if try == 3 || !repeat {
			return p, err
		}
	}
}

func (s *stand) once(ctx context.Context, rate load.Rate) (p Point, err error) {
	if s.kernelClients {
		return s.measure(ctx, rate, s.beside)
	}
	return s.measure(ctx, rate, func(ctx context.Context, rate load.Rate) (gauges, gauges, load.FloodStats, *load.ClientResult, error) {
		return s.inFlood(ctx, rate, s.requests)
	})
}

// measure makes a point of one run.
func (s *stand) measure(ctx context.Context, rate load.Rate, run func(context.Context, load.Rate) (before, after gauges, stats load.FloodStats, res *load.ClientResult, err error)) (p Point, err error) {
	p.Asked = rate.String()
	if rate == load.RateMax && s.most > 0 {
		rate = s.most
	}
	if p.CoreToCore[0], err = s.coreToCore(); err != nil {
		return p, err
	}
	before, after, stats, res, err := run(ctx, rate)
	if err != nil {
		return p, err
	}
	if p.CoreToCore[1], err = s.coreToCore(); err != nil {
		return p, err
	}
	p.Requests, p.OK, p.Errors, p.Connect, p.Latency = res.Requests, res.OK, res.Errors, res.Connect, res.Latency
	p.LagMax = res.LagMax
	p.Success = float64(res.OK) / float64(max(1, res.Requests))
	p.fill(before, after, stats)
	on, err := s.victim.LastCPU()
	if err != nil {
		return p, err
	}
	p.Moved = on != s.env.Pin.Server
	return p, trial.CheckDisturbed(*res, s.opts.Timeout, s.env.Pin.Client)
}

// coreToCore is in nanoseconds.
func (s *stand) coreToCore() (float64, error) {
	d, err := rig.CoreToCore(s.env.Pin.Flood, s.env.Pin.Server)
	return float64(d.Nanoseconds()), err
}

// patience is how long a service may take to recover after a flood.
const patience = 30 * time.Second

// inFlood measures with the clients inside the flood; run is told the length of the response.
func (s *stand) inFlood(ctx context.Context, rate load.Rate, run func(context.Context, load.Rate, int) (load.FloodStats, *load.ClientResult, error)) (before, after gauges, stats load.FloodStats, res *load.ClientResult, err error) {
	size, err := s.responseLen(ctx)
	if err != nil {
		return before, after, stats, nil, err
	}
	if err := s.victim.Reserve(s.env.Pin.Server); err != nil { // it has just received on its processor
		return before, after, stats, nil, err
	}
	if before, err = s.read(); err != nil {
		return before, after, stats, nil, err
	}
	if stats, res, err = run(ctx, rate, size); err != nil {
		return before, after, stats, nil, err
	}
	after, err = s.read()
	return before, after, stats, res, err
}

// clientFrames is about how many frames a client with sockets sends per request: SYN, ACK, request, ACK, FIN, ACK.
const clientFrames = 6

// beside measures with clients that are processes, as a comparison for those inside the flood.
func (s *stand) beside(ctx context.Context, rate load.Rate) (before, after gauges, stats load.FloodStats, res *load.ClientResult, err error) {
	cl, err := s.env.StartClient(ctx, s.top)
	if err != nil {
		return before, after, stats, nil, fmt.Errorf("measurement without a flood: %w", err)
	}
	defer cl.Proc.Stop(0)
	if err := s.victim.Reserve(s.env.Pin.Server); err != nil {
		return before, after, stats, nil, err
	}
	if before, err = s.read(); err != nil {
		return before, after, stats, nil, err
	}
	floodCtx, stop := context.WithCancel(ctx)
	defer stop()
	var floodErr error
	var wg sync.WaitGroup
	if rate > 0 {
		wg.Go(func() { stats, floodErr = s.flood.RunEven(floodCtx, rate) })
	}
	begin := time.Now()
	all, err := cl.Run(ctx, head)
	after, readErr := s.read()
	stop()
	wg.Wait()
	if stats.Wall == 0 {
		stats.Wall = time.Since(begin)
	}
	stats.ClientFrames = uint64(clientFrames * all.Requests)
	return before, after, stats, &all, errors.Join(err, readErr, floodErr)
}
