// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Stand is a lab held open for measurements: one topology in which programs and
// defences are put in the flood's way in turn.
type Rig struct {
	*Topology
	env *runEnv
}

// NewStand makes the topology. Close it in the end.
func NewRig(opts Options) (*Rig, error) {
	env, err := newRunEnv(opts)
	if err != nil {
		return nil, err
	}
	t, err := newTopology(env.Owner)
	if err != nil {
		return nil, errors.Join(err, env.Close())
	}
	return &Rig{t, env}, nil
}

// NewProxyStand makes one with a box between clients and server.
func NewProxyRig(opts Options) (*Rig, *ProxyTopology, error) {
	env, err := newRunEnv(opts)
	if err != nil {
		return nil, nil, err
	}
	p, err := NewProxyTopology("", false)
	if err != nil {
		return nil, nil, errors.Join(err, env.Close())
	}
	return &Rig{p.Topology, env}, p, nil
}

// Close takes the topology down.
func (r *Rig) Close() error { return errors.Join(r.Topology.Close(), r.env.Close()) }

// FloodCPU is the processor that makes the flood and, in its softirq, bears it.
func (r *Rig) FloodCPU() int { return r.env.Pin.Flood }

// NewFlood loads a generator aimed at the service.
func (r *Rig) NewFlood(ipv6 bool, mix FloodMix) (*Flood, error) {
	return NewFlood(r.AttackerPort, r.FloodPort, FloodOptions{
		Target: serviceAddr(ipv6), Mix: mix, CPU: r.env.Pin.Flood})
}

// AttachXDP puts a program in the flood's way; its link can change it later.
func (r *Rig) AttachXDP(p *Port, prog *ebpf.Program) (link.Link, error) { return p.AttachXDP(prog) }

// Defend starts the web server and one defence, as `lab flood` does.
func (r *Rig) Defend(ctx context.Context, name string) (stop func() error, err error) {
	srv, err := startServer(ctx, r.Topology, r.env.server, r.env.Dir, r.env.Self, r.env.Pin.Server, r.env.opts.ResponseSize, r.env.opts.Backlog)
	if err != nil {
		return nil, err
	}
	of := r.env.defence()
	of.Name = name
	def, err := newDefence(of)
	if err == nil {
		err = def.start(ctx, r.Topology)
	}
	if err != nil {
		srv.Stop(time.Second)
		return nil, err
	}
	return func() error {
		err := def.stop()
		srv.Stop(time.Second)
		return err
	}, nil
}
