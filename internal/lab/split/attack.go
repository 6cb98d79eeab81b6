// SPDX-License-Identifier: Apache-2.0

package split

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
	"tidegate/internal/lab/sampler"
	"tidegate/internal/lab/trial"
)

// attackFlags are the segments of each attack.
var attackFlags = map[string][]load.TCPFlags{
	AttackSYN:   {load.FlagSYN},
	AttackACK:   {load.FlagACK},
	AttackRST:   {load.FlagRST},
	AttackMixed: {load.FlagSYN, load.FlagSYN | load.FlagACK, load.FlagACK, load.FlagRST, load.FlagFIN | load.FlagACK},
}

func (x *run) newFloods() (set load.FloodSet, err error) {
	return newFloodSet(x.s, x.opts.Attack, x.opts.IPv6, x.opts.FloodMix, x.env.Pin.Flood)
}

func newFloodSet(s *rig.SplitTopology, attack string, ipv6 bool, mix load.FloodMix, cpu int) (set load.FloodSet, err error) {
	for _, flags := range attackFlags[attack] {
		f, err := load.NewFlood(s.AttackerPort, s.FloodPort, load.FloodOptions{
			Target: rig.ServiceAddr(ipv6), Mix: mix, Flags: flags, CPU: cpu})
		if err != nil {
			return nil, errors.Join(err, set.Close())
		}
		set = append(set, f)
	}
	return set, nil
}

// calibrate measures the cost of making and delivering one packet, against a drop
// at the front's port.
func (x *run) calibrate(ctx context.Context, set load.FloodSet) (c trial.Cost, err error) {
	if x.opts.Rate == 0 {
		return c, nil
	}
	if x.s.Fabric == nil {
		drop, err := x.s.FloodPort.AttachXDP(x.s.Programs.TgLabDrop)
		if err != nil {
			return c, err
		}
		defer func() { err = errors.Join(err, drop.Close(), x.s.FloodPort.EnableGRO()) }()
	} else {
		restore, err := x.s.DropAll()
		if err != nil {
			return c, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	return x.env.Calibrated(ctx, func(ctx context.Context) (load.FloodStats, error) { return set.Run(ctx, x.opts.Rate) })
}

// measured is the result of one load.
type measured struct {
	trial.Measured
	seen rig.Seen
}

// load runs the clients, with floods in the middle of them.
func (x *run) load(ctx context.Context, set load.FloodSet) (*measured, error) {
	cl, err := x.env.StartClient(ctx, x.s.Topology)
	if err != nil {
		return nil, err
	}
	defer cl.Proc.Stop(0)
	m := &measured{}
	rx0, err1 := x.s.FloodPort.RxPackets()
	ans0, err2 := x.s.Answers()
	seen0, err3 := x.s.Seen()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	floodCtx, stopFlood := context.WithCancel(ctx)
	defer stopFlood()
	var wg sync.WaitGroup
	defer wg.Wait()
	var floodErr error
	head := time.Duration(0)
	if set != nil && x.opts.Rate > 0 {
		head = trial.FloodHead
		wg.Go(func() {
			m.Instructions, floodErr = sampler.Instructions(x.env.Pin.Flood, func() (err error) {
				m.Flood, err = set.Run(floodCtx, x.opts.Rate)
				return err
			})
		})
	}
	if set != nil {
		wg.Go(func() { m.SynRecv = x.env.Watch(floodCtx, x.s.Topology) })
		if x.opts.RouteFlap {
			wg.Go(func() { x.flap(floodCtx) })
		}
	}
	m.Load, err = cl.Run(ctx, head)
	stopFlood()
	wg.Wait()
	if err := errors.Join(err, floodErr); err != nil {
		return nil, err
	}
	select {
	case <-x.srv.Exited:
		return nil, fmt.Errorf("web server ended: %w", x.srv.Failure())
	default:
	}
	rx1, err1 := x.s.FloodPort.RxPackets()
	ans1, err2 := x.s.Answers()
	seen1, err3 := x.s.Seen()
	m.Arrived, m.Answered = rx1-rx0, ans1-ans0
	m.seen = rig.Seen{Attack: seen1.Attack - seen0.Attack, AttackSYN: seen1.AttackSYN - seen0.AttackSYN,
		Clients: seen1.Clients - seen0.Clients, Lost: seen1.Lost - seen0.Lost}
	return m, errors.Join(err1, err2, err3)
}

// loadOverEmpty is load with a program on the edges' ports that passes everything: on
// veth, any XDP program disables segmentation offload.
func (x *run) loadOverEmpty(ctx context.Context) (m *measured, err error) {
	var ports []*rig.Port
	for _, e := range x.s.Edges {
		ports = append(ports, e.Inner)
		if e.Outer != nil {
			ports = append(ports, e.Outer)
		}
	}
	if x.s.Fabric == nil {
		ports = append(ports, x.s.FloodPort, x.s.LegitPort)
	}
	for _, p := range ports {
		l, err := p.AttachXDP(x.s.Programs.TgLabPass)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, l.Close(), p.EnableGRO()) }()
	}
	return x.load(ctx, nil)
}

// flap moves all traffic from edge to edge until ctx ends.
func (x *run) flap(ctx context.Context) {
	tick := time.NewTicker(FlapEvery)
	defer tick.Stop()
	for at := 0; ; at++ {
		if err := x.s.Through(at % len(x.s.Edges)); err != nil {
			x.env.Progress("route flap: %v", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
