// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// attackFlags are the segments of each attack.
var attackFlags = map[string][]TCPFlags{
	AttackSYN:   {FlagSYN},
	AttackACK:   {FlagACK},
	AttackRST:   {FlagRST},
	AttackMixed: {FlagSYN, FlagSYN | FlagACK, FlagACK, FlagRST, FlagFIN | FlagACK},
}

func (x *splitRun) newFloods() (set floodSet, err error) {
	return newFloodSet(x.s, x.opts.Attack, x.opts.IPv6, x.opts.FloodMix, x.env.Pin.Flood)
}

func newFloodSet(s *SplitTopology, attack string, ipv6 bool, mix FloodMix, cpu int) (set floodSet, err error) {
	for _, flags := range attackFlags[attack] {
		f, err := NewFlood(s.AttackerPort, s.FloodPort, FloodOptions{
			Target: serviceAddr(ipv6), Mix: mix, Flags: flags, CPU: cpu})
		if err != nil {
			return nil, errors.Join(err, set.Close())
		}
		set = append(set, f)
	}
	return set, nil
}

// calibrate measures what making and delivering one packet costs, against a drop
// where the front takes it.
func (x *splitRun) calibrate(ctx context.Context, set floodSet) (ns float64, err error) {
	if x.opts.Rate == 0 {
		return 0, nil
	}
	if x.s.Fabric == nil {
		drop, err := x.s.FloodPort.AttachXDP(x.s.objs.TgLabDrop)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, drop.Close(), x.s.FloodPort.EnableGRO()) }()
	} else {
		restore, err := x.s.DropAll()
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
	defer cancel()
	s, err := set.Run(ctx, x.opts.Rate)
	if err != nil || s.Frames == 0 {
		return 0, err
	}
	return float64(s.Busy.Nanoseconds()) / float64(s.Frames), nil
}

// measured is what one load yielded.
type splitMeasured struct {
	measured
	seen Seen
}

// load runs the clients; with floods, in the midst of them.
func (x *splitRun) load(ctx context.Context, set floodSet) (*splitMeasured, error) {
	cl, err := x.env.startClient(ctx, x.s.Topology)
	if err != nil {
		return nil, err
	}
	defer cl.proc.Stop(0)
	m := &splitMeasured{}
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
		head = floodHead
		wg.Go(func() { m.flood, floodErr = set.Run(floodCtx, x.opts.Rate) })
	}
	if set != nil {
		wg.Go(func() { m.synRecv = x.env.watch(floodCtx, x.s.Topology) })
		if x.opts.RouteFlap {
			wg.Go(func() { x.flap(floodCtx) })
		}
	}
	m.load, err = cl.run(ctx, head)
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
	m.arrived, m.answered = rx1-rx0, ans1-ans0
	m.seen = Seen{Attack: seen1.Attack - seen0.Attack, AttackSYN: seen1.AttackSYN - seen0.AttackSYN,
		Clients: seen1.Clients - seen0.Clients, Lost: seen1.Lost - seen0.Lost}
	return m, errors.Join(err1, err2, err3)
}

// loadOverEmpty is load with a program on the edges' ports that passes everything: on
// a veth, XDP itself takes segmentation offload away, whatever the program.
func (x *splitRun) loadOverEmpty(ctx context.Context) (m *splitMeasured, err error) {
	var ports []*Port
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
		l, err := p.AttachXDP(x.s.objs.TgLabPass)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, l.Close(), p.EnableGRO()) }()
	}
	return x.load(ctx, nil)
}

// flap moves all traffic from edge to edge until ctx ends.
func (x *splitRun) flap(ctx context.Context) {
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
