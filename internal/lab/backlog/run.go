// SPDX-License-Identifier: Apache-2.0

package backlog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/trial"
)

// Options are what to measure.
type Options struct {
	Base        trial.Options // clients, load, timeout, progress
	Connections int
	Backlogs    []int
	// Rates of the flood; RateMax is left out. Each backlog is measured at each.
	Rates []load.Rate
	// Share adds a rate: this part of what the shortest list can process; 0: none.
	Share float64
}

// Curve is one list under one flood.
type Curve struct {
	trial.ConnectCurve
	Rate     string  `json:"rate_asked"`
	Capacity float64 `json:"capacity_pps"` // SYNs a second that the process answered when offered as many as possible
	Stats    Stats   `json:"stats"`
}

// Entries is how many entries a SYN passed on the way to the one that it replaced.
func (c *Curve) Entries() float64 { return float64(c.Stats.Walked) / max(1, float64(c.Stats.Dropped)) }

// Share is the part of the process's time that it spent dropping entries at random.
func (c *Curve) Share() float64 {
	return float64(c.Stats.Dropped) * c.Stats.DropNs / max(1, float64(c.Stats.CPUNs))
}

// capacityFor is how long a list is offered as many SYNs as possible.
const capacityFor = time.Second

// Run measures every list at every rate.
func Run(ctx context.Context, o Options) (all []Curve, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_BPF): run it with sudo")
	}
	o.Base.Requests, o.Base.KeepConnect, o.Base.Urgent = o.Connections, true, true
	o.Base.Clients = min(o.Base.Clients, o.Connections)
	if o.Base.Progress == nil {
		o.Base.Progress = func(string, ...any) {}
	}
	capacity := map[int]float64{}
	for _, n := range o.Backlogs {
		one, err := o.once(ctx, n, load.RateMax)
		if err != nil {
			return nil, fmt.Errorf("backlog %d at full speed: %w", n, err)
		}
		capacity[n] = one.Capacity
		o.Base.Progress("list of backlog %d: at most %.0f SYN/s, %.0f entries and %.0f ns for a drop", n, one.Capacity, one.Entries(), one.Stats.DropNs)
	}
	rates := o.Rates
	if o.Share > 0 && len(o.Backlogs) > 0 {
		rates = append(rates[:len(rates):len(rates)], load.Rate(o.Share*capacity[o.Backlogs[0]]))
	}
	for _, rate := range rates {
		for _, n := range o.Backlogs {
			c, err := o.once(ctx, n, rate)
			if err != nil {
				return nil, fmt.Errorf("backlog %d at %s SYN/s: %w", n, rate, err)
			}
			c.Capacity = capacity[n]
			o.Base.Progress("list of backlog %d at %s SYN/s: %d of %d connected, %.1f %% within 500 ms", n, rate, c.Connected, o.Connections, 100*c.Within500)
			all = append(all, *c)
		}
	}
	return all, nil
}

// once runs one list in a topology of its own; at full speed without clients.
func (o Options) once(ctx context.Context, backlog int, rate load.Rate) (c *Curve, err error) {
	env, err := trial.NewEnv(o.Base)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	t, err := rig.NewTopology(env.Owner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if err := errors.Join(t.AddClients(o.Base.Clients, false), t.WithoutService()); err != nil {
		return nil, err
	}
	flood, err := load.NewFlood(t.AttackerPort, t.FloodPort, load.FloodOptions{Target: rig.ServiceAddr(false), CPU: env.Pin.Flood})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, flood.Close()) }()
	p, err := startServer(ctx, env, t, limitFor(backlog))
	if err != nil {
		return nil, err
	}
	defer p.end()
	c = &Curve{Rate: rate.String()}
	c.Name, c.Backlog = fmt.Sprintf("list with random drop, backlog %d", backlog), backlog
	if rate == load.RateMax {
		err = o.fullSpeed(ctx, flood)
	} else {
		err = o.clients(ctx, env, t, flood, rate, c)
	}
	if err != nil {
		return nil, err
	}
	if c.Stats, err = p.stop(ctx); err != nil {
		return nil, err
	}
	if rate == load.RateMax {
		c.Capacity = math.Round(float64(c.Stats.SYNs) / capacityFor.Seconds())
	}
	return c, nil
}

func (o Options) fullSpeed(ctx context.Context, flood *load.Flood) error {
	floodCtx, stop := context.WithTimeout(ctx, capacityFor)
	defer stop()
	if _, err := flood.Run(floodCtx, load.RateMax); err != nil {
		return err
	}
	return ctx.Err()
}

// clients measures how long connect() takes during a flood.
func (o Options) clients(ctx context.Context, env *trial.Env, t *rig.Topology, flood *load.Flood, rate load.Rate, c *Curve) error {
	cl, err := env.StartClient(ctx, t)
	if err != nil {
		return err
	}
	defer cl.Proc.Stop(0)
	floodCtx, stop := context.WithCancel(ctx)
	type flooded struct {
		load.FloodStats
		err error
	}
	done := make(chan flooded, 1)
	go func() {
		s, err := flood.Run(floodCtx, rate)
		done <- flooded{s, err}
	}()
	res, err := cl.Run(ctx, trial.FloodHead)
	stop()
	f := <-done
	if err := errors.Join(err, f.err); err != nil {
		return err
	}
	c.Fill(res.Times, o.Connections)
	c.Served, c.Errors = res.OK, res.Errors
	if s := f.Wall.Seconds(); s > 0 {
		c.SYNPPS = load.Round3(float64(f.Frames) / s)
	}
	return nil
}

// process is a running server.
type process struct {
	*rig.Process
	out  *os.File
	from *bufio.Reader
}

func startServer(ctx context.Context, env *trial.Env, t *rig.Topology, limit int) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	child, err := rig.StartProcess(t.Server, env.Pin.Server, nil, w, env.Self, serverChild, strconv.Itoa(limit))
	w.Close()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	p := &process{child, r, bufio.NewReader(r)}
	line, err := p.line(ctx)
	if err != nil || line != "ready\n" {
		p.end()
		return nil, fmt.Errorf("the process with the list is not ready: %w", errors.Join(err, p.Failure()))
	}
	return p, nil
}

func (p *process) line(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Cmd.Process.Kill() })
	defer stop()
	return p.from.ReadString('\n')
}

// stop asks for the stats.
func (p *process) stop(ctx context.Context) (s Stats, err error) {
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return s, err
	}
	line, err := p.line(ctx)
	if err != nil {
		return s, errors.Join(fmt.Errorf("the process with the list: %w", err), ctx.Err(), p.Wait(ctx))
	}
	return s, json.Unmarshal([]byte(line), &s)
}

func (p *process) end() {
	p.Stop(time.Second)
	p.out.Close()
}
