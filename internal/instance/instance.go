// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// Instance is a running instance of a role between clients and servers, edge or
// proxy: its lock, the settings common to all packet paths, the services laid out, and
// reloads. It must never know what a role does with a packet.
type Instance struct {
	Opt        Options
	Log        *slog.Logger
	Cfg        *config.Config
	Settings   plane.Settings
	Numbers    *Numbers
	Modes      map[string]plane.XDPMode
	Started    time.Time
	Automatic  *Automatic     // decides for services in mode auto; nil: there are none
	Lists      Lists          // of sources
	forwarding Forwarding     // the machine's settings that this process made
	local      []netip.Prefix // this machine's own addresses
	flowKey    uint32         // of IPv6 flow labels; 0: not chosen yet
}

// Begin reads the configuration, checks this process's rights and locks the instance; unlock releases it.
func Begin(opt *Options) (cfg *config.Config, unlock func(), err error) {
	opt.Complete()
	if cfg, err = opt.First(); err != nil {
		return nil, nil, err
	}
	if err := CheckPrivileges(); err != nil {
		return nil, nil, err
	}
	if unlock, err = Lock(opt.StateDir, cfg.Instance); err != nil {
		return nil, nil, err
	}
	return cfg, unlock, nil
}

// Open is Begin for the roles that keep their state in an Instance.
func Open(opt Options) (b *Instance, unlock func(), err error) {
	cfg, unlock, err := Begin(&opt)
	if err != nil {
		return nil, nil, err
	}
	return &Instance{Opt: opt, Log: opt.Log, Cfg: cfg, Numbers: NewNumbers(), Started: time.Now()}, unlock, nil
}

// FillSettings makes the settings from the configuration and this machine.
func (b *Instance) FillSettings() error {
	cookie, err := NetnsCookie()
	if err != nil {
		return err
	}
	b.Settings = plane.Settings{EpochLenNs: uint64(b.Cfg.Epoch), NetnsCookie: cookie, VerifyAheadNs: uint64(b.Cfg.ClockSkew)}
	b.setPolicy()
	b.SetClock()
	if b.Settings.FilterKeys, err = RandomFilterKeys(); err != nil {
		return err
	}
	return SetReport(b.Cfg, &b.Settings)
}

// SetClock sets what the packet path adds to its monotonic clock.
func (b *Instance) SetClock() { b.Settings.WallMinusMonoNs = plane.WallMinusMonoNs(b.Opt.Now()) }

func (b *Instance) setPolicy() {
	SetSynackLimit(b.Cfg, &b.Settings)
	SetSourceLimits(&b.Cfg.SourceLimits, &b.Settings)
	b.Settings.Lists = Flag(b.Lists.There())
	b.Settings.StaleKeys = 0
	if b.Cfg.OnStaleKeys == config.StaleKeysDrop {
		b.Settings.StaleKeys = 1
	}
}

// AttachOptions are what attaching the packet path needs to know.
func (b *Instance) AttachOptions() plane.AttachOptions {
	return plane.AttachOptions{BPFFS: b.Opt.BPFFS, Instance: b.Cfg.Instance, Interfaces: b.Cfg.Interfaces,
		XDPMode:    plane.XDPMode(b.Cfg.XDPMode),
		Dispatcher: plane.DispatcherUse(b.Cfg.Dispatcher), Priority: uint32(b.Cfg.Priority), TCLast: b.Cfg.TCOrder == config.TCLast}
}

// ConfigureForwarding changes the machine's settings to what this kind of forwarding needs; taking the
// instance down (TakeDown) reverts that.
func (b *Instance) ConfigureForwarding(kind config.Forwarding) error {
	b.forwarding = Forwarding{Kind: kind, Interfaces: b.Cfg.Interfaces, Log: b.Log,
		Promisc: PromiscuousBy(b.Opt.StateDir, b.Cfg.Instance)}
	return b.forwarding.Prepare()
}

// UndoForwarding reverts what ConfigureForwarding has changed, but nothing of an earlier process.
func (b *Instance) UndoForwarding() error { return b.forwarding.Undo() }

// Promiscuous are the interfaces that ConfigureForwarding has made so, for the state file.
func (b *Instance) Promiscuous() []string { return b.forwarding.Promisc }

// BridgePorts are the two interfaces' numbers if the box is a bridge, else zeros.
func (b *Instance) BridgePorts(kind config.Forwarding) (ports [2]uint32, err error) {
	if kind != config.ForwardBridge {
		return ports, nil
	}
	for i, name := range b.Cfg.Interfaces {
		dev, err := interfaceNamed(name)
		if err != nil {
			return ports, err
		}
		ports[i] = uint32(dev.Attrs().Index)
	}
	return ports, nil
}

func interfaceNamed(name string) (netlink.Link, error) {
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
	}
	return dev, nil
}

// Targets lays the services out for the packet path. base is the content of a SYN-ACK for
// each where the configuration says `auto`; its MSS is computed here from the interfaces'
// smallest MTU, minus room, the bytes of each segment that a role needs.
func (b *Instance) Targets(base plane.Service, room uint16) ([]plane.Target, error) {
	if b.flowKey == 0 {
		var err error
		if b.flowKey, err = RandomFlowKey(); err != nil {
			return nil, err
		}
	}
	mtu := 65535
	for _, name := range b.Cfg.Interfaces {
		dev, err := interfaceNamed(name)
		if err != nil {
			return nil, err
		}
		mtu = min(mtu, max(dev.Attrs().MTU, 576))
	}
	base.MssV4, base.MssV6 = uint16(mtu-40)-room, uint16(mtu-60)-room
	modes := map[config.Mode]uint8{config.ModeMonitor: plane.ModeMonitor, config.ModeAlways: plane.ModeAlways, config.ModeAuto: plane.ModeAuto}
	targets := make([]plane.Target, 0, len(b.Cfg.Services))
	for _, svc := range b.Cfg.Services {
		t := plane.Target{ID: b.Numbers.ID(svc.Name), Prefixes: svc.Prefixes, Service: base}
		for _, r := range svc.Ports {
			t.Ports = append(t.Ports, [2]uint16{r.First, r.Last})
		}
		t.Service.Mode = modes[svc.Mode]
		if svc.Strategy != config.StrategyCache { // what it sends again has no label
			t.Service.FlowKey = b.flowKey
		}
		b.Automatic.Apply(svc.Name, &t.Service, "")
		t.Service.SignedCostUs = SignedCost(&svc, b.cpus())
		offer(&t.Service, svc.Offer, room)
		if !svc.MSS.Auto {
			t.Service.MssV4, t.Service.MssV6 = uint16(svc.MSS.Value), uint16(svc.MSS.Value)
		}
		if !svc.WScale.Auto {
			t.Service.Wscale = uint8(svc.WScale.Value)
		}
		if !svc.Window.Auto {
			t.Service.Window = uint16(svc.Window.Value)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// cpus is the number of processors that share an allowance.
func (b *Instance) cpus() int {
	if b.Cfg.Plane == config.PlaneDPDK {
		return CountCPUs(b.Cfg.Proxy.DPDK.Cores)
	}
	return OnlineCPUs()
}

// ExcludeLocal returns the targets without this machine's own addresses, which a router answers
// for itself; it looks them up now, and LocalAddrsChanged reports changes.
func (b *Instance) ExcludeLocal(targets []plane.Target, kind config.Forwarding) (_ []plane.Target, err error) {
	if b.local, err = OwnPrefixes(kind); err != nil {
		return nil, err
	}
	return plane.Except(targets, b.local), nil
}

// LocalAddrsChanged reports whether this machine's addresses have changed since ExcludeLocal.
func (b *Instance) LocalAddrsChanged(kind config.Forwarding) (bool, error) {
	now, err := OwnPrefixes(kind)
	return err == nil && !slices.Equal(now, b.local), err
}

// Reloading is a role's part of a reload.
type Reloading struct {
	Restart string // what any restart of this plane loses; empty: nothing
	Secret  *keys.Roll
	Keys    *keys.Loader
	Write   func(removed []uint32) error // updates the packet path to Cfg and forgets the services of these numbers
	Lists   func(Lists) error            // gives it the lists of Cfg; nil: it has none
	Load    func() error                 // loads the missing keys
	State   func() error                 // saves what `tidegate status` reads, before anybody hears of the reload
}

// Reload applies a changed configuration, completely or not at all.
func (b *Instance) Reload(r Reloading) error {
	next, err := b.Opt.Load()
	if err != nil {
		return err
	}
	old := b.Cfg
	if err := config.CheckReload(old, next, r.Restart); err != nil {
		return err
	}
	if err := SetReport(next, &b.Settings); err != nil {
		return err
	}
	commit, drop, err := PrepareSecrets(r.Secret, r.Keys, next, b.Opt.Now())
	if err != nil {
		return err
	}
	lists, err := ReadLists(b.Opt.StateDir, next, b.Opt.Now())
	if err != nil {
		drop()
		return err
	}
	removed := b.Numbers.Assign(next.Services)
	b.Cfg = next
	b.setPolicy()
	if err := r.Write(removed); err != nil {
		drop()
		b.Cfg = old
		err = errors.Join(err, SetReport(old, &b.Settings))
		b.setPolicy()
		b.Numbers.Assign(old.Services)
		return errors.Join(err, r.Write(nil))
	}
	commit()
	if r.Lists != nil {
		if err := r.Lists(lists); err != nil {
			return err
		}
	}
	if err := errors.Join(r.Load(), r.State()); err != nil {
		return err
	}
	b.Log.Info("reloaded", "services", len(next.Services))
	return nil
}
