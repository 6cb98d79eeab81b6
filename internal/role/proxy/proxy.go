// SPDX-License-Identifier: Apache-2.0

// Package proxy is the proxy role: it writes configuration and keys to the packet
// path of a router or bridge, and swaps the packet path's tables. It must never
// see a packet, nor walk a table.
package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

// housekeeping is how often clock and keys are checked.
const housekeeping = time.Second

// How often the SYN cache is searched for SYN-ACKs that are due, and how many are
// sent each time: at most a thousand a second, whatever a flood keeps in it.
const (
	retransmitEvery = 100 * time.Millisecond
	retransmitMost  = 100
)

// proxy is one running instance.
type proxy struct {
	*instance.Instance
	secret      *keys.Roll
	plane       *plane.Proxy
	own         plane.ProxySettings
	keys        keys.Loader
	watch       sides
	flows       flowAge
	retransmits *plane.Retransmitter
	caching     bool // some service has strategy cache
}

// Run protects the servers behind this proxy until ctx ends; see instance.End. When force is
// done, a drain is cut short.
func Run(ctx, force context.Context, opt instance.Options) error {
	i, unlock, err := instance.Open(opt)
	if err != nil {
		return err
	}
	defer unlock()
	b, cfg := &proxy{Instance: i, flows: flowAge{swapped: time.Now()}}, i.Cfg
	if cfg.Plane == config.PlaneDPDK {
		return runDPDK(ctx, force, b)
	}
	if err := b.start(); err != nil {
		return err
	}
	defer b.secret.Zero()
	defer b.plane.Close()
	defer b.closeRetransmitter()
	if opt.Ready != nil {
		opt.Ready()
	}
	b.Log.Info("protecting", "instance", cfg.Instance, "forwarding", cfg.Proxy.Forwarding,
		"interfaces", cfg.Interfaces, "services", len(cfg.Services), "xdp", b.Modes)
	offender.Start(ctx, b.plane.Plane.ReadProven, cfg, b.Opt.OnOffence, b.Log)
	b.loop(ctx)
	return b.stop(ctx, force)
}

// start loads everything and attaches. If it fails, all is as it was before.
func (b *proxy) start() (err error) {
	if err := instance.EnsureBPFFS(b.Opt.BPFFS); err != nil {
		return err
	}
	if b.secret, err = instance.LoadSecrets(b.Cfg); err != nil {
		return err
	}
	slots := keys.Slots(b.Cfg.Epoch, b.Cfg.KeyHorizon)
	whiteBits := 0
	if b.Cfg.Proxy.WhitelistV4 == config.WhitelistBitmap {
		whiteBits = b.Cfg.Proxy.SourcePrefixV4
	}
	b.plane, err = plane.LoadProxy(plane.ProxyOptions{
		Options: plane.Options{Instance: b.Cfg.Instance, KeySlots: slots, Services: len(b.Cfg.Services), Bonds: plane.HaveBonds(b.Cfg.Interfaces)},
		BPFFS:   b.Opt.BPFFS, Flows: b.Cfg.Proxy.MaxFlows, Sources: b.Cfg.Proxy.MaxSources,
		Halves: b.Cfg.Proxy.CacheEntries, WhiteBitsV4: whiteBits})
	if err != nil {
		return err
	}
	if err := b.Install(b.path()); err != nil {
		return err
	}
	if err := b.plane.AllowTwins(b.Modes); err != nil {
		b.Log.Warn("new connections take longer: two packets are made of a server's SYN-ACK at TC", "error", err)
	}
	return nil
}

// path is what installing and reloading work on.
func (b *proxy) path() instance.Path {
	return instance.Path{Plane: b.plane, Maps: b.plane.Plane, Fill: b.fill, Write: b.writeServices, State: b.state,
		Forwarding: func() config.Forwarding { return b.Cfg.Proxy.Forwarding }}
}

// fill writes settings, keys and services before anything is attached.
func (b *proxy) fill() error {
	if err := b.FillSettings(); err != nil {
		return err
	}
	b.own = b.plane.ProxySettings()
	if key := &b.own.ChallengeKey; key.K0 == 0 { // else: the presence bits go with the salt
		var random [24]byte
		_, _ = rand.Read(random[:]) // never fails (crypto/rand)
		key.K0, key.K1 = binary.LittleEndian.Uint64(random[:])|1, binary.LittleEndian.Uint64(random[8:])
		b.own.PresenceSalt = binary.LittleEndian.Uint64(random[16:])
	}
	if key := &b.own.CacheKey; key.K0 == 0 { // else: the SYN cache goes with it
		var random [16]byte
		_, _ = rand.Read(random[:])
		key.K0, key.K1 = binary.LittleEndian.Uint64(random[:])|1, binary.LittleEndian.Uint64(random[8:])
	}
	if b.own.AskKey.K0 == 0 {
		var random [32]byte
		_, _ = rand.Read(random[:])
		ask, share := &b.own.AskKey, &b.own.ShareKey
		ask.K0, ask.K1 = binary.LittleEndian.Uint64(random[:])|1, binary.LittleEndian.Uint64(random[8:])
		share.K0, share.K1 = binary.LittleEndian.Uint64(random[16:]), binary.LittleEndian.Uint64(random[24:])
	}
	if err := errors.Join(b.loadKeys(), b.plane.SetPorts(b.Cfg.Interfaces)); err != nil {
		return err
	}
	b.AssignServices()
	return b.writeServices()
}

// writeServices makes the maps hold the configuration: strategies before the
// services that use them.
func (b *proxy) writeServices() (err error) {
	p := &b.Cfg.Proxy
	b.own.WhiteV4Mask, b.own.WhiteV6Mask = prefixMask4(p.SourcePrefixV4), prefixMask(p.SourcePrefixV6)
	b.own.ForwardAll = 0
	if p.FastPath == config.FastAll {
		b.own.ForwardAll = 1
	}
	if b.own.Bridge, err = b.BridgePorts(p.Forwarding); err != nil {
		return err
	}
	b.caching = false
	for _, svc := range b.Cfg.Services {
		strategy := schema.StrategyNumber(string(svc.Strategy))
		if svc.Strategy == config.StrategyCache {
			if err := b.openRetransmitter(); err != nil {
				return fmt.Errorf("service %s: strategy cache: %w", svc.Name, err)
			}
			b.caching = true
		}
		if svc.Strategy.Translates() {
			b.own.Flows = 1 // permanently: flows outlive a change of their service
		}
		if err := b.plane.SetStrategy(b.Numbers.ID(svc.Name), proxyService(&svc, strategy)); err != nil {
			return err
		}
	}
	targets, err := b.targets()
	if err != nil {
		return err
	}
	b.own.Plain = plain(b.own.Flows, targets)
	if err := b.plane.SetProxy(b.own); err != nil {
		return err
	}
	if targets, err = b.ExcludeLocal(targets, p.Forwarding); err != nil {
		return err
	}
	return errors.Join(b.plane.SetServices(targets, &b.Settings), b.plane.ForgetNear())
}

// loop maintains clock and keys, and swaps, until ctx ends.
func (b *proxy) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	swap := time.NewTicker(b.Cfg.Proxy.SwapPeriod)
	defer swap.Stop()
	due := time.NewTicker(retransmitEvery)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.Opt.Reload:
			err := b.reload()
			b.Opt.Reloaded(b.Log, b.Cfg, err)
			if err != nil {
				continue
			}
			swap.Reset(b.Cfg.Proxy.SwapPeriod)
		case <-swap.C:
			if err := b.swapTables(); err != nil {
				b.Log.Error("cannot swap the tables", "error", err)
			}
		case <-due.C:
			if !b.caching {
				continue
			}
			if _, err := b.retransmits.Send(retransmitMost); err != nil {
				b.Log.Error("cannot retransmit SYN-ACKs", "error", err)
			}
		case <-b.Automatic.Tick():
			if err := b.Automatic.Step(instance.InKernel(b.plane.Plane, &b.Settings)); err != nil {
				b.Log.Error("detector", "error", err)
			}
		case <-tick.C:
			b.SetClock()
			if err := errors.Join(b.loadKeys(), b.Housekeep(b.path())); err != nil {
				b.Log.Error("housekeeping", "error", err)
			}
			b.watchSides()
			if err := b.swapEarly(); err != nil {
				b.Log.Error("cannot swap the flow tables early", "error", err)
			}
			if err := b.plane.WatchNear(time.Now()); err != nil {
				b.Log.Error("copies of connections", "error", err)
			}
			b.plane.SweepSources(housekeeping, b.Cfg.Proxy.SwapPeriod)
		}
	}
}

// loadKeys loads the missing keys, up to the horizon.
func (b *proxy) loadKeys() error {
	return b.keys.Load(b.Opt.Now().Add(b.Cfg.ClockSkew), b.Cfg.Epoch, b.Cfg.KeyHorizon, func(n uint64) error {
		return b.plane.PutKey(n, b.secret.EpochKey(n))
	})
}

// openRetransmitter opens the retransmitter, which only the SYN cache needs, with CAP_NET_RAW.
func (b *proxy) openRetransmitter() (err error) {
	if b.retransmits == nil {
		b.retransmits, err = b.plane.NewRetransmitter()
	}
	return err
}

func (b *proxy) closeRetransmitter() {
	if b.retransmits != nil {
		b.retransmits.Close()
	}
}

// reload applies a changed configuration, whole or not at all.
func (b *proxy) reload() error {
	was := b.Cfg.SourceLimits
	if err := b.ReloadPath(b.path(), b.secret, &b.keys, b.loadKeys); err != nil {
		return err
	}
	if !was.CountsLike(&b.Cfg.SourceLimits) {
		return b.plane.ForgetHeld()
	}
	return nil
}

func (b *proxy) state() instance.State {
	return instance.State{Config: b.Cfg, Numbers: b.Numbers,
		Modes: b.Modes, Started: b.Started, Promisc: b.Promiscuous(), OneSided: b.watch.warned, Refused: b.plane.NativeRefused(), Lists: b.Lists.State()}
}

// stop leaves the proxy in place, or takes it down: SYNs go to the servers at once, and
// existing connections are translated for the drain time.
func (b *proxy) stop(ctx, force context.Context) error {
	return instance.End(ctx, force, b.Opt, b.Cfg.Instance, b.Cfg.Drain, b.keys.Until(b.Cfg.Epoch), b.Log)
}
