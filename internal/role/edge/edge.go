// SPDX-License-Identifier: Apache-2.0

// Package edge is the edge role: it writes configuration and keys to the packet path
// of a router or bridge in front of servers of role server, and rotates the filter's
// generations. It must never see a packet or track a single flow.
package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
)

// housekeeping is how often clock, keys and filter are checked.
const housekeeping = time.Second

// edge is one running instance.
type edge struct {
	*instance.Instance
	secret *keys.Roll
	plane  *plane.Edge
	own    plane.EdgeSettings
	keys   keys.Loader
	filter filter
	learns learning

	refusedSync, learned atomic.Uint64 // messages of peers; positions learned from them
}

// Run answers and filters until ctx ends; see instance.End.
func Run(ctx, force context.Context, opt instance.Options) error {
	i, unlock, err := instance.Open(opt)
	if err != nil {
		return err
	}
	defer unlock()
	b, cfg := &edge{Instance: i}, i.Cfg
	if err := b.start(); err != nil {
		return err
	}
	defer b.secret.Zero()
	defer b.plane.Close()
	if opt.Ready != nil {
		opt.Ready()
	}
	b.Log.Info("protecting", "instance", cfg.Instance, "forwarding", cfg.Edge.Forwarding, "protocol", cfg.Edge.Protocol,
		"interfaces", cfg.Interfaces, "inside", cfg.Edge.Inside, "services", len(cfg.Services), "xdp", b.Modes)
	offender.Start(ctx, b.plane.Plane.ReadProven, cfg, b.Opt.OnOffence, b.Log)
	b.loop(ctx)
	return b.stop(ctx, force)
}

// start loads everything and attaches. If it fails, all is as it was before.
func (b *edge) start() (err error) {
	if err := instance.EnsureBPFFS(b.Opt.BPFFS); err != nil {
		return err
	}
	if b.secret, err = instance.LoadSecrets(b.Cfg); err != nil {
		return err
	}
	slots := keys.Slots(b.Cfg.Epoch, b.Cfg.KeyHorizon)
	b.plane, err = plane.LoadEdge(plane.EdgeOptions{
		Options: plane.Options{Instance: b.Cfg.Instance, KeySlots: slots, Services: len(b.Cfg.Services), Bonds: plane.HaveBonds(b.Cfg.Interfaces)},
		BPFFS:   b.Opt.BPFFS, BloomBits: b.Cfg.Edge.FilterBits, Smart: b.Cfg.Edge.Layout == config.LayoutSmartcookie})
	if err != nil {
		return err
	}
	return b.Install(b.path())
}

// path is what installing and reloading work on.
func (b *edge) path() instance.Path {
	return instance.Path{Plane: b.plane, Maps: b.plane.Plane, Fill: b.fill, Write: b.writeServices, State: b.state,
		Forwarding: func() config.Forwarding { return b.Cfg.Edge.Forwarding }}
}

// fill writes settings, keys and services before anything is attached.
func (b *edge) fill() error {
	if err := b.FillSettings(); err != nil {
		return err
	}
	if b.Cfg.FourEpochs() {
		b.Settings.FourEpochs = 1
	}
	b.own = b.plane.EdgeSettings()
	if !b.plane.Warm() {
		var raw [keys.EpochKeyLen]byte
		_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
		if len(b.Cfg.Tagged.Peers) > 0 {
			raw = sharedBloomKey(b.secret)
		}
		b.own.BloomKey.K = bloomKey(raw)
		b.learns.begin(0)
		b.Log.Info("the filter is new: unknown packets are forwarded to the servers while it learns", "for", b.Cfg.Edge.Learning)
	}
	if err := b.loadKeys(); err != nil {
		return err
	}
	b.AssignServices()
	b.filter.turned = time.Now()
	return b.writeServices()
}

// writeServices makes the maps hold the configuration.
func (b *edge) writeServices() error {
	e := &b.Cfg.Edge
	b.own.Hops = uint8(e.Hops)
	b.own.LearningUntilNs = b.learns.until(e.Learning, b.own.LearningUntilNs)
	b.own.UnknownCostNs = unknownCost(e.UnknownRate, instance.OnlineCPUs())
	bridge, err := b.BridgePorts(e.Forwarding)
	if err != nil {
		return err
	}
	ports := plane.EdgePorts{Interfaces: b.Cfg.Interfaces, Inside: func(name string) bool { return slices.Contains(e.Inside, name) },
		ChallengeAll: e.Challenge == config.ChallengeAll, Bridged: bridge[0] != 0, Tagged: e.Protocol == config.ProtocolTagged}
	if err := b.plane.SetEdgePorts(ports); err != nil {
		return err
	}
	targets, err := b.targets()
	if err != nil {
		return err
	}
	if targets, err = b.ExcludeLocal(targets, e.Forwarding); err != nil {
		return err
	}
	return errors.Join(b.plane.SetForwarding(bridge, e.FastPath == config.FastAll), b.plane.SetEdge(b.own), b.writeTagged(),
		b.plane.SetServices(targets, &b.Settings))
}

// loop maintains clock, keys and filter until ctx ends.
func (b *edge) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	turn := time.NewTicker(b.turnEvery())
	defer turn.Stop()
	peers, err := b.startPeers(ctx)
	if err != nil {
		b.Log.Error("edges cannot exchange filter updates; everything else continues", "error", err)
	}
	var news <-chan time.Time
	var updates <-chan []byte
	if peers != nil {
		updates = peers.in
		t := time.NewTicker(syncEvery)
		defer t.Stop()
		news = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
			peers.tell()
		case m := <-updates:
			peers.take(m)
		case <-b.Opt.Reload:
			err := b.reload()
			b.Opt.Reloaded(b.Log, b.Cfg, err)
			if err != nil {
				continue
			}
			turn.Reset(b.turnEvery())
		case <-turn.C:
			if err := b.turn(); err != nil {
				b.Log.Error("cannot rotate the filter's generations", "error", err)
			}
		case <-b.Automatic.Tick():
			if err := b.Automatic.Step(instance.InKernel(b.plane.Plane, &b.Settings)); err != nil {
				b.Log.Error("detector", "error", err)
			}
		case <-tick.C:
			b.SetClock()
			if err := errors.Join(b.loadKeys(), b.Housekeep(b.path()), b.watchFilter(time.Now())); err != nil {
				b.Log.Error("housekeeping", "error", err)
			}
		}
	}
}

// loadKeys loads the missing keys, up to the horizon.
func (b *edge) loadKeys() error {
	return b.keys.Load(b.Opt.Now().Add(b.Cfg.ClockSkew), b.Cfg.Epoch, b.Cfg.KeyHorizon, b.putKeys)
}

// reload applies a changed configuration, whole or not at all.
func (b *edge) reload() error { return b.ReloadPath(b.path(), b.secret, &b.keys, b.loadKeys) }

func (b *edge) state() instance.State {
	return instance.State{Config: b.Cfg, Numbers: b.Numbers, Modes: b.Modes, Started: b.Started, Promisc: b.Promiscuous(), Refused: b.plane.NativeRefused(), Lists: b.Lists.State()}
}

// stop leaves the edge in place, or takes it down: SYNs go to the servers at once, and so
// does everything else. The servers know their connections; nothing has to be drained here.
func (b *edge) stop(ctx, force context.Context) error {
	return instance.End(ctx, force, b.Opt, b.Cfg.Instance, b.Cfg.Drain, b.keys.Until(b.Cfg.Epoch), b.Log)
}
