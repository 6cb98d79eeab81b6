// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/lab/defences"
	"tidegate/internal/lab/load"
	"tidegate/internal/lab/rig"
)

// Stand is a lab kept for several measurements: one topology in which programs and
// defences are started in turn.
type Stand struct {
	*rig.Topology
	env *Env
}

// NewStand makes the topology. The caller closes it.
func NewStand(opts Options) (*Stand, error) {
	env, err := NewEnv(opts)
	if err != nil {
		return nil, err
	}
	t, err := rig.NewTopology(env.Owner)
	if err != nil {
		return nil, errors.Join(err, env.Close())
	}
	return &Stand{t, env}, nil
}

// NewProxyStand makes a stand with a box between clients and server.
func NewProxyStand(opts Options) (*Stand, *rig.ProxyTopology, error) {
	env, err := NewEnv(opts)
	if err != nil {
		return nil, nil, err
	}
	p, err := rig.NewProxyTopology("", false)
	if err != nil {
		return nil, nil, errors.Join(err, env.Close())
	}
	return &Stand{p.Topology, env}, p, nil
}

// Close removes the topology.
func (r *Stand) Close() error { return errors.Join(r.Topology.Close(), r.env.Close()) }

// FloodCPU is the processor that sends the flood and, in its softirq, receives it.
func (r *Stand) FloodCPU() int { return r.env.Pin.Flood }

// NewFlood loads a generator aimed at the service.
func (r *Stand) NewFlood(ipv6 bool, mix load.FloodMix) (*load.Flood, error) {
	return load.NewFlood(r.AttackerPort, r.FloodPort, load.FloodOptions{
		Target: rig.ServiceAddr(ipv6), Mix: mix, CPU: r.env.Pin.Flood})
}

// AttachXDP attaches a program to a port; its link can change it later.
func (r *Stand) AttachXDP(p *rig.Port, prog *ebpf.Program) (link.Link, error) {
	return p.AttachXDP(prog)
}

// Defend starts the web server and one defence, as `tidegate-lab flood` does.
func (r *Stand) Defend(ctx context.Context, name string) (stop func() error, err error) {
	srv, err := load.StartServer(ctx, r.Topology, r.env.Server, r.env.Dir, r.env.Self, r.env.Pin.Server, r.env.opts.ResponseSize, r.env.opts.Backlog)
	if err != nil {
		return nil, err
	}
	of := r.env.Defence()
	of.Name = name
	def, err := defences.New(of)
	if err == nil {
		err = def.Start(ctx, r.Topology)
	}
	if err != nil {
		srv.Stop(time.Second)
		return nil, err
	}
	return func() error {
		err := def.Stop()
		srv.Stop(time.Second)
		return err
	}, nil
}
