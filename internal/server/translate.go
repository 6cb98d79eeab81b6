package server

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
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

const housekeeping = time.Second

// node is one running instance that translates: the kernel shakes hands with its own
// numbers, whatever the listener and wherever it is (MPTCP, a guest behind this
// machine, a kernel without adoption). The packet path needs nobody but for keys.
type node struct {
	opt      host.Options
	log      *slog.Logger
	cfg      *config.Config
	secret   *keys.Secret
	plane    *plane.Server
	settings plane.Settings
	own      plane.ServerSettings
	numbers  *host.Numbers
	keys     keys.Loader
	modes    map[string]plane.XDPMode
	started  time.Time
	watch    refusals
}

func runTranslate(ctx, force context.Context, cfg *config.Config, opt host.Options) error {
	opt.Complete()
	if os.Geteuid() != 0 {
		return errors.New("tidegate run needs root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON); start it with sudo or from a service unit")
	}
	unlock, err := host.LockInstance(opt.StateDir, cfg.Instance)
	if err != nil {
		return err
	}
	defer unlock()
	n := &node{opt: opt, log: opt.Log, cfg: cfg, numbers: host.NewNumbers(), started: time.Now()}
	if err := n.start(); err != nil {
		return err
	}
	defer n.secret.Zero()
	defer n.plane.Close()
	if opt.Ready != nil {
		opt.Ready()
	}
	n.log.Info("protecting", "instance", cfg.Instance, "takeover", cfg.Server.Takeover, "interfaces", cfg.Interfaces,
		"services", len(cfg.Services), "edges", len(cfg.Tagged.Edges), "xdp", n.modes)
	n.loop(ctx)
	return n.stop(force)
}

// start loads everything and attaches. Nothing stays if it fails.
func (n *node) start() (err error) {
	if err := host.EnsureBPFFS(n.opt.BPFFS); err != nil {
		return err
	}
	if n.secret, err = keys.LoadSecret(n.cfg.SecretFile); err != nil {
		return err
	}
	slots := int(n.cfg.KeyHorizon/n.cfg.Epoch) + keys.PastEpochs + 4
	n.plane, err = plane.LoadServer(plane.ServerOptions{Options: plane.Options{Instance: n.cfg.Instance, KeySlots: slots},
		BPFFS: n.opt.BPFFS, Flows: n.cfg.Tagged.MaxConnections})
	if err != nil {
		return err
	}
	if err := n.attach(); err != nil {
		n.plane.Close()
		return err
	}
	if err := host.WriteState(n.opt.StateDir, host.State{Config: n.cfg, Numbers: n.numbers, Modes: n.modes, Started: n.started}); err != nil {
		return errors.Join(err, n.plane.Detach())
	}
	return nil
}

func (n *node) attach() (err error) {
	if err := n.fill(); err != nil {
		return err
	}
	n.modes, err = n.plane.Attach(plane.AttachOptions{BPFFS: n.opt.BPFFS, Instance: n.cfg.Instance,
		Interfaces: n.cfg.Interfaces, XDPMode: plane.XDPMode(n.cfg.XDPMode)})
	if err != nil {
		return err
	}
	// Where XDP comes after the packet's skb, it also meets what we put back in.
	for _, mode := range n.modes {
		if mode == plane.XDPGeneric {
			n.own.Generic = 1
		}
	}
	if n.own.Generic == 1 {
		for name, mode := range n.modes {
			if mode != plane.XDPGeneric {
				return errors.Join(fmt.Errorf("interface %s runs XDP in the driver and another does not; set xdp_mode: generic for all", name), n.plane.Detach())
			}
		}
	}
	return n.plane.SetServer(n.own)
}

// fill writes settings, keys, edges and services before anything is attached.
func (n *node) fill() error {
	cookie, err := host.NetnsCookie()
	if err != nil {
		return err
	}
	n.settings = plane.Settings{EpochLenNs: uint64(n.cfg.Epoch), NetnsCookie: cookie, VerifyAheadNs: uint64(n.cfg.ClockSkew)}
	if n.own, err = n.plane.ServerSettings(); err != nil {
		return err
	}
	if n.own.Keys[0] == 0 { // else: the table of a process before goes with its keys
		raw := make([]byte, 8*len(n.own.Keys))
		_, _ = rand.Read(raw) // never fails (crypto/rand)
		for i := range n.own.Keys {
			n.own.Keys[i] = binary.LittleEndian.Uint64(raw[8*i:]) | 1
		}
	}
	n.own.Generic = 0
	n.own.IdleTicks = uint16(n.cfg.Tagged.IdleTime.Seconds()/plane.SplitTick) + 1
	n.own.ConfirmPortBe = plane.ConfirmPort>>8 | plane.ConfirmPort&0xff<<8
	n.own.Unverified = plane.UnverifiedDrop
	if n.cfg.Server.LastLine == config.LastLineReset {
		n.own.Unverified = plane.UnverifiedPass
	}
	if err := n.setEdges(); err != nil {
		return err
	}
	n.setClock()
	n.numbers.Assign(n.cfg.Services)
	return errors.Join(n.loadKeys(), n.plane.SetServer(n.own), n.plane.SetServices(n.targets(), &n.settings))
}

// setEdges tells where confirmations go; routes may change.
func (n *node) setEdges() error {
	for _, e := range n.cfg.Tagged.Edges {
		if err := n.plane.SetEdge(e.ID, e.V4, e.V6, wayTo(e.V4), wayTo(e.V6)); err != nil {
			return err
		}
	}
	return nil
}

// wayTo is the interface that the route to an address leads through; 0 if there is none.
func wayTo(a netip.Addr) int {
	if !a.IsValid() {
		return 0
	}
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 {
		return 0
	}
	return routes[0].LinkIndex
}

func (n *node) targets() []plane.Target {
	modes := map[config.Mode]uint8{config.ModeMonitor: plane.ModeMonitor, config.ModeAlways: plane.ModeAlways}
	var targets []plane.Target
	for _, svc := range n.cfg.Services {
		t := plane.Target{ID: n.numbers.ID(svc.Name), Prefixes: svc.Prefixes,
			Service: plane.Service{Wscale: config.SplitWScale, Sack: 1, Timestamps: 1, Ecn: 1, Mode: modes[svc.Mode]}}
		for _, r := range svc.Ports {
			t.Ports = append(t.Ports, [2]uint16{r.First, r.Last})
		}
		if !svc.WScale.Auto {
			t.Service.Wscale = uint8(svc.WScale.Value)
		}
		targets = append(targets, t)
	}
	return targets
}

func (n *node) setClock() { n.settings.WallMinusMonoNs = plane.WallMinusMonoNs(n.opt.Now()) }

// loadKeys loads the keys that are lacking, up to the horizon.
func (n *node) loadKeys() error {
	return n.keys.Load(n.opt.Now().Add(n.cfg.ClockSkew), n.cfg.Epoch, n.cfg.KeyHorizon, func(e uint64) error {
		return errors.Join(n.plane.PutKey(e, n.secret.EpochKey(e)), n.plane.PutTagKey(e, n.secret.TagKey(e)))
	})
}

// loop looks after clock and keys until ctx ends.
func (n *node) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.opt.Reload:
			if err := n.reload(); err != nil {
				n.log.Error("reload refused; the old configuration goes on", "error", err)
			}
		case <-tick.C:
			n.setClock()
			if err := errors.Join(n.loadKeys(), n.setEdges(), n.plane.SetSettings(&n.settings)); err != nil {
				n.log.Error("housekeeping", "error", err)
			}
			n.watchRefusals()
		}
	}
}

// refusals notices that nothing of the edges verifies.
type refusals struct {
	valid, forged uint64
	told          bool
}

// watchRefusals says so when tags come and none is genuine: the secrets differ, or
// the clocks by more than an epoch.
func (n *node) watchRefusals() {
	var valid, forged uint64
	for _, svc := range n.cfg.Services {
		sum, err := plane.ReadCounters(n.plane.Map("tg_counters"), n.numbers.ID(svc.Name))
		if err != nil {
			return
		}
		valid += sum[schema.CounterTagValid]
		forged += sum[schema.CounterTagForged] + sum[schema.CounterTagStale]
	}
	before := n.watch
	n.watch = refusals{valid, forged, before.told && valid == before.valid}
	if forged > before.forged && valid == before.valid && !before.told {
		n.log.Error("the edges' tags do not verify and are dropped: give edges and servers the same secret_file and epoch, and set their clocks",
			"dropped", forged-before.forged)
		n.watch.told = true
	}
}

// reload applies changed services; everything else takes a restart, which loses
// nothing, because a new process takes links and table over.
func (n *node) reload() error {
	cfg, err := config.Load(n.opt.ConfigPath)
	if err != nil {
		return err
	}
	for what, same := range map[string]bool{
		"role": cfg.Role == n.cfg.Role, "instance": cfg.Instance == n.cfg.Instance,
		"takeover": cfg.Server.Takeover == n.cfg.Server.Takeover, "secret_file": cfg.SecretFile == n.cfg.SecretFile,
		"interfaces": slices.Equal(cfg.Interfaces, n.cfg.Interfaces), "epoch": cfg.Epoch == n.cfg.Epoch,
		"clock_skew": cfg.ClockSkew == n.cfg.ClockSkew, "key_horizon": cfg.KeyHorizon == n.cfg.KeyHorizon,
		"xdp_mode": cfg.XDPMode == n.cfg.XDPMode, "max_connections": cfg.Tagged.MaxConnections == n.cfg.Tagged.MaxConnections,
		"edges": slices.Equal(cfg.Tagged.Edges, n.cfg.Tagged.Edges), "idle_time": cfg.Tagged.IdleTime == n.cfg.Tagged.IdleTime,
		"last_line": cfg.Server.LastLine == n.cfg.Server.LastLine,
	} {
		if !same {
			return fmt.Errorf("%s cannot change while running; restart, which loses no connection", what)
		}
	}
	old := n.cfg
	removed := n.numbers.Assign(cfg.Services)
	n.cfg = cfg
	if err := n.plane.SetServices(n.targets(), &n.settings); err != nil {
		n.cfg = old
		n.numbers.Assign(old.Services)
		return errors.Join(err, n.plane.SetServices(n.targets(), &n.settings))
	}
	for _, id := range removed {
		if err := plane.ClearCounters(n.plane.Map("tg_counters"), id); err != nil {
			return err
		}
	}
	n.log.Info("reloaded", "services", len(cfg.Services))
	return host.WriteState(n.opt.StateDir, host.State{Config: n.cfg, Numbers: n.numbers, Modes: n.modes, Started: n.started})
}

// stop takes no new connection over, translates those that are for the drain time or
// until the last has ended, then takes everything off.
func (n *node) stop(force context.Context) error {
	targets := n.targets()
	for i := range targets {
		targets[i].Service.Mode = plane.ModeOff
	}
	err := n.plane.SetServices(targets, &n.settings)
	if n.cfg.Drain > 0 {
		n.log.Info("draining", "for", n.cfg.Drain)
		n.drain(force)
	}
	err = errors.Join(err, n.plane.Detach(), host.RemoveState(n.opt.StateDir, n.cfg.Instance))
	n.log.Info("stopped")
	return err
}

func (n *node) drain(force context.Context) {
	end := time.NewTimer(n.cfg.Drain)
	defer end.Stop()
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-force.Done():
			return
		case <-tick.C:
			if live, _, err := n.plane.Splits(); err == nil && live == 0 {
				return
			}
		}
	}
}
