// Package edge is the edge role: it brings configuration and keys to the packet path
// of a router or bridge before servers of role server, and turns the filter's
// generations. It must never see a packet, nor know of a single flow.
package edge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/host"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
)

// housekeeping is how often clock, keys and filter are looked after.
const housekeeping = time.Second

// box is one running instance.
type box struct {
	opt      host.Options
	log      *slog.Logger
	cfg      *config.Config
	secret   *keys.Roll
	plane    *plane.Edge
	settings plane.Settings
	own      plane.EdgeSettings
	numbers  *host.Numbers
	keys     keys.Loader
	modes    map[string]plane.XDPMode
	ports    host.Forwarding // the machine's settings that this process made
	local    []netip.Prefix  // this machine's own addresses
	filter   filter

	refusedSync, learned atomic.Uint64 // messages of peers; positions that they told
	started              time.Time
}

// Run answers and filters until ctx ends, then takes everything off.
func Run(ctx, _ context.Context, opt host.Options) error {
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
	b := &box{opt: opt, log: opt.Log, cfg: cfg, numbers: host.NewNumbers(), started: time.Now()}
	if err := b.start(); err != nil {
		return err
	}
	defer b.secret.Zero()
	defer b.plane.Close()
	if opt.Ready != nil {
		opt.Ready()
	}
	b.log.Info("protecting", "instance", cfg.Instance, "forwarding", cfg.Edge.Forwarding, "protocol", cfg.Edge.Protocol,
		"interfaces", cfg.Interfaces, "inside", cfg.Edge.Inside, "services", len(cfg.Services), "xdp", b.modes)
	offender.Start(ctx, b.plane.Plane, cfg, b.log)
	b.loop(ctx)
	return b.stop()
}

// start loads everything and attaches. Nothing stays if it fails.
func (b *box) start() (err error) {
	if err := host.EnsureBPFFS(b.opt.BPFFS); err != nil {
		return err
	}
	if b.secret, err = keys.LoadRoll(b.cfg.SecretFile, b.cfg.NextSecret.File, b.cfg.NextSecret.From, b.cfg.Epoch); err != nil {
		return err
	}
	slots := int(b.cfg.KeyHorizon/b.cfg.Epoch) + keys.PastEpochs + 4
	b.plane, err = plane.LoadEdge(plane.EdgeOptions{
		Options: plane.Options{Instance: b.cfg.Instance, KeySlots: slots},
		BPFFS:   b.opt.BPFFS, BloomBits: b.cfg.Edge.FilterBits, Smart: b.cfg.Edge.Layout == config.LayoutSmartcookie})
	if err != nil {
		return err
	}
	if err := b.fill(); err != nil {
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
	b.ports = host.Forwarding{Kind: b.cfg.Edge.Forwarding, Interfaces: b.cfg.Interfaces, Log: b.log}
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
	if b.cfg.WideEpochs() {
		b.settings.Wide = 1
	}
	b.setPolicy()
	if err := host.SetReport(b.cfg, &b.settings); err != nil {
		return err
	}
	b.setClock()
	b.own = b.plane.EdgeSettings()
	if !b.plane.Warm() {
		var raw [keys.EpochKeyLen]byte
		_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
		if len(b.cfg.Tagged.Peers) > 0 {
			raw = sharedBloomKey(b.secret.First())
		}
		b.own.BloomKey.K = bloomKey(raw)
		b.own.LearningUntilNs = uint64(plane.MonotonicNs() + b.cfg.Edge.Learning.Nanoseconds())
		b.log.Info("the filter is new: what it does not know goes to the servers for now", "for", b.cfg.Edge.Learning)
	}
	inside := func(name string) bool { return slices.Contains(b.cfg.Edge.Inside, name) }
	if err := errors.Join(b.loadKeys(), b.plane.SetEdgePorts(b.cfg.Interfaces, inside)); err != nil {
		return err
	}
	b.numbers.Assign(b.cfg.Services)
	b.filter.turned = time.Now()
	return b.writeServices()
}

func (b *box) setPolicy() {
	b.settings.StaleKeys = 0
	if b.cfg.OnStaleKeys == config.StaleKeysDrop {
		b.settings.StaleKeys = 1
	}
}

// writeServices makes the maps hold the configuration.
func (b *box) writeServices() error {
	e := &b.cfg.Edge
	b.own.Hops = uint8(e.Hops)
	b.own.UnknownCostNs = unknownCost(e.UnknownRate, onlineCPUs())
	var bridge [2]uint32
	if e.Forwarding == config.ForwardBridge {
		for i, name := range b.cfg.Interfaces {
			dev, err := netlink.LinkByName(name)
			if err != nil {
				return fmt.Errorf("interface %s: not found; see `ip link`", name)
			}
			bridge[i] = uint32(dev.Attrs().Index)
		}
	}
	targets, err := b.targets()
	if err != nil {
		return err
	}
	if b.local, err = host.OwnPrefixes(e.Forwarding); err != nil {
		return err
	}
	return errors.Join(b.plane.SetForwarding(bridge, e.FastPath == config.FastAll), b.plane.SetEdge(b.own), b.writeTagged(),
		b.plane.SetServices(plane.Except(targets, b.local), &b.settings))
}

// watchLocal writes the services anew if this box's own addresses, which are an exception
// from them, have changed.
func (b *box) watchLocal() error {
	now, err := host.OwnPrefixes(b.cfg.Edge.Forwarding)
	if err != nil || slices.Equal(now, b.local) {
		return err
	}
	return b.writeServices()
}

// loop looks after clock, keys and filter until ctx ends.
func (b *box) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	turn := time.NewTicker(b.turnEvery())
	defer turn.Stop()
	peers, err := b.startPeers(ctx)
	if err != nil {
		b.log.Error("edges cannot talk to each other; everything else goes on", "error", err)
	}
	var news <-chan time.Time
	if peers != nil {
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
		case <-b.opt.Reload:
			if err := b.reload(); err != nil {
				b.log.Error("reload refused; the old configuration goes on", "error", err)
				continue
			}
			turn.Reset(b.turnEvery())
		case <-turn.C:
			if err := b.turn(); err != nil {
				b.log.Error("turning the filter's generations", "error", err)
			}
		case <-tick.C:
			b.setClock()
			if err := errors.Join(b.loadKeys(), b.plane.SetSettings(&b.settings), b.watchLocal(), b.watchFilter(time.Now())); err != nil {
				b.log.Error("housekeeping", "error", err)
			}
		}
	}
}

// setClock tells the packet path what to add to its monotonic clock.
func (b *box) setClock() { b.settings.WallMinusMonoNs = plane.WallMinusMonoNs(b.opt.Now()) }

// loadKeys loads the keys that are lacking, up to the horizon.
func (b *box) loadKeys() error {
	return b.keys.Load(b.opt.Now().Add(b.cfg.ClockSkew), b.cfg.Epoch, b.cfg.KeyHorizon, b.putKeys)
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
	for what, same := range map[string]bool{
		"role":          next.Role == old.Role,
		"instance":      next.Instance == old.Instance,
		"interfaces":    slices.Equal(next.Interfaces, old.Interfaces),
		"inside":        slices.Equal(next.Edge.Inside, old.Edge.Inside),
		"secret_file":   next.SecretFile == old.SecretFile,
		"epoch":         next.Epoch == old.Epoch,
		"clock_skew":    next.ClockSkew == old.ClockSkew,
		"key_horizon":   next.KeyHorizon == old.KeyHorizon,
		"xdp_mode":      next.XDPMode == old.XDPMode,
		"forwarding":    next.Edge.Forwarding == old.Edge.Forwarding,
		"filter_bits":   next.Edge.FilterBits == old.Edge.FilterBits,
		"cookie_layout": next.Edge.Layout == old.Edge.Layout,
		"peers":         slices.Equal(next.Tagged.Peers, old.Tagged.Peers),
		"report_to":     next.ReportTo == old.ReportTo,
	} {
		if !same {
			return fmt.Errorf("%s changed: that takes a restart, `systemctl restart` or stop and start; no connection is lost", what)
		}
	}
	return nil
}

func (b *box) writeState() error {
	return host.WriteState(b.opt.StateDir, host.State{Config: b.cfg, Numbers: b.numbers, Modes: b.modes, Started: b.started})
}

// stop takes the edge off: SYNs go to the servers at once, and so does everything
// else. The servers know their connections; nothing has to be drained here.
func (b *box) stop() error {
	err := errors.Join(b.plane.Detach(), b.ports.Restore(), host.RemoveState(b.opt.StateDir, b.cfg.Instance))
	b.log.Info("stopped")
	return err
}
