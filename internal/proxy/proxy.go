// Package proxy is the proxy role: it brings configuration and keys to the packet
// path of a router or bridge, and swaps the packet path's tables. It must never
// see a packet, nor walk a table.
package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/host"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
)

// housekeeping is how often clock and keys are looked after.
const housekeeping = time.Second

// How often the SYN cache is searched for SYN-ACKs that are due, and how many are
// sent each time: at most a thousand a second, whatever a flood keeps in it.
const (
	againEvery = 100 * time.Millisecond
	againMost  = 100
)

// box is one running instance.
type box struct {
	opt      host.Options
	log      *slog.Logger
	cfg      *config.Config
	secret   *keys.Secret
	plane    *plane.Proxy
	settings plane.Settings
	own      plane.ProxySettings
	numbers  *host.Numbers
	keys     keys.Loader
	modes    map[string]plane.XDPMode
	ports    host.Forwarding // the machine's settings that this process made
	local    []netip.Prefix  // this machine's own addresses
	watch    sides
	flows    flowAge
	started  time.Time
	again    *plane.Again
	caching  bool // some service has strategy cache
}

// Run protects the servers behind this box until ctx ends, then drains and takes
// everything off. When force is done, the drain is cut short.
func Run(ctx, force context.Context, opt host.Options) error {
	opt.Complete()
	cfg, err := config.Load(opt.ConfigPath)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("tidegate run needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON); start it with sudo or from a service unit")
	}
	unlock, err := host.LockInstance(opt.StateDir, cfg.Instance)
	if err != nil {
		return err
	}
	defer unlock()
	b := &box{opt: opt, log: opt.Log, cfg: cfg, numbers: host.NewNumbers(), started: time.Now(),
		flows: flowAge{swapped: time.Now()}}
	if cfg.Proxy.Plane == config.PlaneDPDK {
		return runDPDK(ctx, force, b)
	}
	if err := b.start(); err != nil {
		return err
	}
	defer b.secret.Zero()
	defer b.plane.Close()
	defer b.again.Close()
	if opt.Ready != nil {
		opt.Ready()
	}
	b.log.Info("protecting", "instance", cfg.Instance, "forwarding", cfg.Proxy.Forwarding,
		"interfaces", cfg.Interfaces, "services", len(cfg.Services), "xdp", b.modes)
	offender.Start(ctx, b.plane.Plane, cfg, b.log)
	b.loop(ctx)
	return b.stop(force)
}

// start loads everything and attaches. Nothing stays if it fails.
func (b *box) start() (err error) {
	if err := host.EnsureBPFFS(b.opt.BPFFS); err != nil {
		return err
	}
	if b.secret, err = keys.LoadSecret(b.cfg.SecretFile); err != nil {
		return err
	}
	slots := int(b.cfg.KeyHorizon/b.cfg.Epoch) + keys.PastEpochs + 3
	whiteBits := 0
	if b.cfg.Proxy.WhitelistV4 == config.WhitelistBitmap {
		whiteBits = b.cfg.Proxy.SourcePrefixV4
	}
	b.plane, err = plane.LoadProxy(plane.ProxyOptions{
		Options: plane.Options{Instance: b.cfg.Instance, KeySlots: slots},
		BPFFS:   b.opt.BPFFS, Flows: b.cfg.Proxy.MaxFlows, Sources: b.cfg.Proxy.MaxSources,
		Halves: b.cfg.Proxy.CacheEntries, WhiteBitsV4: whiteBits})
	if err != nil {
		return err
	}
	if err := b.fill(); err != nil {
		b.plane.Close()
		return err
	}
	if b.again, err = b.plane.NewAgain(); err != nil {
		b.plane.Close()
		return err
	}
	b.modes, err = b.plane.Attach(plane.AttachOptions{
		BPFFS: b.opt.BPFFS, Instance: b.cfg.Instance, Interfaces: b.cfg.Interfaces,
		XDPMode: plane.XDPMode(b.cfg.XDPMode)})
	if err != nil {
		b.plane.Close()
		return err
	}
	b.ports = host.Forwarding{Kind: b.cfg.Proxy.Forwarding, Interfaces: b.cfg.Interfaces, Log: b.log}
	if err := errors.Join(b.ports.Prepare(), b.writeState()); err != nil {
		return errors.Join(err, b.plane.Detach())
	}
	return nil
}

// fill writes settings, keys and services before anything is attached.
func (b *box) fill() error {
	cookie, err := host.NetnsCookie()
	if err != nil {
		return err
	}
	b.settings = plane.Settings{EpochLenNs: uint64(b.cfg.Epoch), NetnsCookie: cookie,
		VerifyAheadNs: uint64(b.cfg.ClockSkew)}
	b.setPolicy()
	if err := host.SetReport(b.cfg, &b.settings); err != nil {
		return err
	}
	b.setClock()
	if b.own = b.plane.ProxySettings(); b.own.Salt == 0 { // else: the presence bits go with it
		var salt [8]byte
		_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
		b.own.Salt = binary.LittleEndian.Uint64(salt[:]) | 1
	}
	if key := &b.own.CacheKey; key.K0 == 0 { // else: the SYN cache goes with it
		var random [16]byte
		_, _ = rand.Read(random[:])
		key.K0, key.K1 = binary.LittleEndian.Uint64(random[:])|1, binary.LittleEndian.Uint64(random[8:])
	}
	if err := errors.Join(b.loadKeys(), b.plane.SetPorts(b.cfg.Interfaces)); err != nil {
		return err
	}
	b.numbers.Assign(b.cfg.Services)
	return b.writeServices()
}

func (b *box) setPolicy() {
	b.settings.StaleKeys = 0
	if b.cfg.OnStaleKeys == config.StaleKeysDrop {
		b.settings.StaleKeys = 1
	}
}

// writeServices makes the maps hold the configuration: strategies before the
// services that follow them.
func (b *box) writeServices() error {
	p := &b.cfg.Proxy
	b.own.WhiteV4Mask, b.own.WhiteV6Mask = prefixMask4(p.SourcePrefixV4), prefixMask(p.SourcePrefixV6)
	b.own.ForwardAll, b.own.Bridge = 0, [2]uint32{}
	if p.FastPath == config.FastAll {
		b.own.ForwardAll = 1
	}
	if p.Forwarding == config.ForwardBridge {
		for i, name := range b.cfg.Interfaces {
			dev, err := netlink.LinkByName(name)
			if err != nil {
				return fmt.Errorf("interface %s: not found; see `ip link`", name)
			}
			b.own.Bridge[i] = uint32(dev.Attrs().Index)
		}
	}
	b.caching = false
	for _, svc := range b.cfg.Services {
		strategy := slices.Index(config.Strategies(), svc.Strategy)
		b.caching = b.caching || svc.Strategy == config.StrategyCache
		if svc.Strategy.Translates() {
			b.own.Flows = 1 // for good: flows live on when their service changes
		}
		if err := b.plane.SetStrategy(b.numbers.ID(svc.Name), proxyService(&svc, uint8(strategy))); err != nil {
			return err
		}
	}
	if err := b.plane.SetProxy(b.own); err != nil {
		return err
	}
	targets, err := b.targets()
	if err != nil {
		return err
	}
	if b.local, err = host.OwnPrefixes(b.cfg.Proxy.Forwarding); err != nil {
		return err
	}
	return b.plane.SetServices(plane.Except(targets, b.local), &b.settings)
}

// watchLocal writes the services anew if this box's own addresses, which are an exception
// from them, have changed.
func (b *box) watchLocal() error {
	now, err := host.OwnPrefixes(b.cfg.Proxy.Forwarding)
	if err != nil || slices.Equal(now, b.local) {
		return err
	}
	return b.writeServices()
}

// loop looks after clock and keys, and swaps, until ctx ends.
func (b *box) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	swap := time.NewTicker(b.cfg.Proxy.SwapPeriod)
	defer swap.Stop()
	again := time.NewTicker(againEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.opt.Reload:
			if err := b.reload(); err != nil {
				b.log.Error("reload refused; the old configuration goes on", "error", err)
				continue
			}
			swap.Reset(b.cfg.Proxy.SwapPeriod)
		case <-swap.C:
			if err := b.swapTables(); err != nil {
				b.log.Error("swapping the tables", "error", err)
			}
		case <-again.C:
			if !b.caching {
				continue
			}
			if _, err := b.again.Send(againMost); err != nil {
				b.log.Error("sending SYN-ACKs again", "error", err)
			}
		case <-tick.C:
			b.setClock()
			if err := errors.Join(b.loadKeys(), b.plane.SetSettings(&b.settings)); err != nil {
				b.log.Error("housekeeping", "error", err)
			}
			if err := b.watchLocal(); err != nil {
				b.log.Error("looking for this machine's addresses", "error", err)
			}
			b.watchSides()
			b.plane.SweepSources(housekeeping, b.cfg.Proxy.SwapPeriod)
		}
	}
}

// setClock tells the packet path what to add to its monotonic clock.
func (b *box) setClock() { b.settings.WallMinusMonoNs = plane.WallMinusMonoNs(time.Now()) }

// loadKeys loads the keys that are lacking, up to the horizon.
func (b *box) loadKeys() error {
	return b.keys.Load(time.Now(), b.cfg.Epoch, b.cfg.KeyHorizon, func(n uint64) error {
		return b.plane.PutKey(n, b.secret.EpochKey(n))
	})
}

// reload applies a changed configuration, whole or not at all.
func (b *box) reload() error {
	cfg, err := config.Load(b.opt.ConfigPath)
	if err != nil {
		return err
	}
	if err := sameBox(b.cfg, cfg); err != nil {
		return err
	}
	old := b.cfg
	removed := b.numbers.Assign(cfg.Services)
	b.cfg = cfg
	b.setPolicy()
	if err := b.writeServices(); err != nil {
		b.cfg = old
		b.setPolicy()
		b.numbers.Assign(old.Services)
		return errors.Join(err, b.writeServices())
	}
	for _, id := range removed {
		if err := plane.ClearCounters(b.plane.Map("tg_counters"), id); err != nil {
			return err
		}
	}
	b.log.Info("reloaded", "services", len(cfg.Services))
	return b.writeState()
}

// sameBox refuses a reload of what the packet path was attached and sized with.
func sameBox(old, next *config.Config) error {
	what := ""
	switch {
	case next.Role != old.Role:
		what = "role"
	case next.Instance != old.Instance:
		what = "instance"
	case !slices.Equal(next.Interfaces, old.Interfaces):
		what = "interfaces"
	case next.SecretFile != old.SecretFile:
		what = "secret_file"
	case next.Epoch != old.Epoch:
		what = "epoch"
	case next.KeyHorizon != old.KeyHorizon:
		what = "key_horizon"
	case next.XDPMode != old.XDPMode:
		what = "xdp_mode"
	case next.ReportTo != old.ReportTo:
		what = "report_to"
	case next.Proxy.Forwarding != old.Proxy.Forwarding:
		what = "forwarding"
	case next.Proxy.MaxFlows != old.Proxy.MaxFlows:
		what = "max_flows"
	case next.Proxy.MaxSources != old.Proxy.MaxSources:
		what = "max_sources"
	case next.Proxy.WhitelistV4 != old.Proxy.WhitelistV4:
		what = "whitelist_v4"
	case next.Proxy.SourcePrefixV4 != old.Proxy.SourcePrefixV4:
		what = "source_prefix_v4"
	case next.Proxy.CacheEntries != old.Proxy.CacheEntries:
		what = "cache_entries"
	default:
		return nil
	}
	return fmt.Errorf("%s cannot change while running; restart, which loses no connection", what)
}

func (b *box) writeState() error {
	return host.WriteState(b.opt.StateDir, host.State{Config: b.cfg, Numbers: b.numbers,
		Modes: b.modes, Started: b.started, OneSided: b.watch.told})
}

// stop lets SYNs go to the servers at once, translates what is translated for the
// drain time, then takes everything off.
func (b *box) stop(force context.Context) error {
	targets, err := b.targets()
	if err == nil {
		for i := range targets {
			targets[i].Service.Mode = plane.ModeOff
		}
		err = b.plane.SetServices(targets, &b.settings)
	}
	if b.cfg.Drain > 0 {
		b.log.Info("draining", "for", b.cfg.Drain)
		t := time.NewTimer(b.cfg.Drain)
		defer t.Stop()
		select {
		case <-t.C:
		case <-force.Done():
		}
	}
	err = errors.Join(err, b.plane.Detach(), b.ports.Restore(),
		host.RemoveState(b.opt.StateDir, b.cfg.Instance))
	b.log.Info("stopped")
	return err
}
