// SPDX-License-Identifier: Apache-2.0

// Package adopt is the gate before this machine's own sockets, for the roles host and server:
// it supplies configuration, keys and the state of the listeners to the packet path, which lets
// the kernel make connections from cookies, and decides for which listeners. It must
// never see a packet.
package adopt

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
	"tidegate/internal/survey"
	"tidegate/internal/version"
)

const (
	// housekeeping is how often clock, keys and listeners are updated.
	housekeeping = time.Second
)

// gate is one running instance.
type gate struct {
	opt      instance.Options
	log      *slog.Logger
	cfg      *config.Config
	secret   *keys.Roll
	plane    *plane.Plane
	settings plane.Settings
	lists    instance.Lists
	services *serviceSet
	system   system
	local    []netip.Prefix // the machine's own addresses; nil: not queried
	untold   bool           // they have changed since the log named them
	own      own            // what SYNs to this machine are addressed to
	badSys   bool           // the last attempt to read the system's values failed
	line     finalCheck     // of a server
	keys     keys.Loader
	counts   instance.Recounts // of each source's connections
	modes    map[string]plane.XDPMode
	started  time.Time
	part     bool   // of a server that also translates: adopter.go
	common   Common // likewise
	bell     <-chan struct{}
	replies  *instance.Replies // nil: this gate answers no SYNs
	survey   *survey.Watcher   // of a host that chooses: what this machine does to packets; else nil
	reported []instance.Takeover
	left     map[netip.AddrPort]string // places whose SYNs are left to the kernel, and why
	unlooked map[string]int            // by service: ports for which rules were not looked up

	kernelAdopts bool   // the kernel has the function; else everything is translated
	trial        *trial // nil: no trial
}

// Run protects the services of the configuration until ctx ends. The packet path then
// stays in place, unless the cause is ErrOff: then it is drained and detached. When force is done, the
// drain is cut short.
func Run(ctx, force context.Context, opt instance.Options) error {
	cfg, unlock, err := instance.Begin(&opt)
	if err != nil {
		return err
	}
	defer unlock()
	g := &gate{opt: opt, log: opt.Log, cfg: cfg, started: time.Now()}
	if opt.Trial > 0 {
		if g.trial, g.cfg, err = beginTrial(&opt, cfg); err != nil {
			return err
		}
		cfg = g.cfg
	}
	if err := g.start(); err != nil {
		return err
	}
	defer g.secret.Zero()
	defer g.plane.Close()
	defer g.replies.Close()
	defer g.closeSurvey()
	if opt.Ready != nil {
		opt.Ready()
	}
	g.log.Info("protecting", "instance", cfg.Instance, "interfaces", cfg.Interfaces,
		"services", len(cfg.Services), "xdp", g.modes)
	offender.Start(ctx, g.plane.ReadProven, cfg, g.opt.OnOffence, g.log)
	if g.trial != nil {
		return g.runTrial(ctx, force)
	}
	g.loop(ctx)
	return g.stop(ctx, force)
}

// start loads everything and attaches it. If it fails, everything is as it was before.
func (g *gate) start() error {
	if err := instance.EnsureBPFFS(g.opt.BPFFS); err != nil {
		return err
	}
	cgroup, err := instance.CgroupRoot()
	if err != nil {
		return err
	}
	if g.system, err = readSystem(g.cfg.Interfaces); err != nil {
		return err
	}
	defer runtime.KeepAlive(plane.KernelTypes()) // read once for this and all programs
	if g.kernelAdopts = plane.KernelAdopts(); !g.kernelAdopts && !g.translates() {
		return errKernel
	}
	if g.system.syncookies == 0 && !g.translates() {
		return errSyncookies
	}
	if g.secret, err = instance.LoadSecrets(g.cfg); err != nil {
		return err
	}
	slots := keys.Slots(g.cfg.Epoch, g.cfg.KeyHorizon)
	behindEdge := g.cfg.Role == config.RoleServer
	if behindEdge {
		g.warnOptions()
	}
	flows := 0
	if g.translates() {
		flows = g.cfg.Tagged.MaxConnections
	}
	g.startSurvey()
	if g.plane, err = plane.Load(plane.Options{Instance: g.cfg.Instance, KeySlots: slots, Services: len(g.cfg.Services), NoXDP: !g.answers(), FarEnd: g.cfg.Role == config.RoleHost, Bonds: plane.HaveBonds(g.cfg.Interfaces), Flows: flows, BPFFS: g.opt.BPFFS, Common: g.common.Maps}); err != nil {
		g.closeSurvey()
		return err
	}
	instance.TellLost(g.log, g.plane.Lost)
	if err := g.attach(cgroup); err != nil {
		g.plane.Close()
		g.closeSurvey()
		return err
	}
	return nil
}

// attach installs what was loaded.
func (g *gate) attach(cgroup string) (err error) {
	if err := g.fill(); err != nil {
		return err
	}
	g.modes, err = g.plane.Attach(plane.AttachOptions{
		BPFFS: g.opt.BPFFS, Instance: g.cfg.Instance, Interfaces: g.cfg.Interfaces,
		XDPMode: plane.XDPMode(g.cfg.XDPMode), CgroupRoot: cgroup,
		Dispatcher: plane.DispatcherUse(g.cfg.Dispatcher), Priority: uint32(g.cfg.Priority), TCLast: g.cfg.TCOrder == config.TCLast})
	if err != nil {
		return err
	}
	g.bell = awaitBells(g.plane)
	if err := g.recount(time.Now(), true); err != nil {
		return err
	}
	if g.part {
		return nil
	}
	if err := instance.SettleFile(g.state(), instance.StatePath(g.opt.StateDir, g.cfg.Instance), g.log, g.plane); err != nil {
		return err
	}
	LetAdopterGo(g.opt, g.cfg.Instance, g.log)
	return nil
}

// fill writes settings, keys and services before anything is attached.
func (g *gate) fill() error {
	filterKeys, err := instance.RandomFilterKeys()
	if err != nil {
		return err
	}
	g.settings = plane.Settings{
		EpochLenNs:      uint64(g.cfg.Epoch),
		NetnsCookie:     g.system.netnsCookie,
		FilterKeepTicks: g.system.filterKeepTicks,
		FilterKeys:      filterKeys,
		VerifyAheadNs:   uint64(g.cfg.ClockSkew),
		HeldElsewhere:   instance.Flag(g.part),
	}
	if g.settings.Across, err = instance.RandomAcross(); err != nil {
		return err
	}
	if g.part {
		g.settings.FilterKeys = g.common.Keys
	}
	first, err := instance.ReadLists(g.opt.StateDir, g.cfg, g.opt.Now())
	if err != nil {
		return err
	}
	if err := g.useLists(first); err != nil {
		return err
	}
	g.setPolicy(g.cfg)
	if err := instance.SetReport(g.cfg, &g.settings); err != nil {
		return err
	}
	if err := g.setTranslating(); err != nil {
		return err
	}
	g.setClock()
	g.trial.begin(g.opt.Now(), g.opt.Trial)
	if err := g.loadKeys(); err != nil {
		return err
	}
	g.services = newServiceSet()
	if g.services.flowKey, err = instance.RandomFlowKey(); err != nil {
		return err
	}
	g.services.rmemSeen[g.system.tcpRmem[1]] = true
	g.services.assign(g.cfg.Services)
	if g.answers() && !g.part {
		g.services.automatic = instance.NewAutomatic(g.opt, g.cfg)
		g.services.automatic.Assign(g.cfg, g.services.ID)
	}
	g.watchListeners()
	g.watchLocal()
	g.watchReplies()
	if err := g.watchOwn(); err != nil {
		return err
	}
	return g.applyServices(g.cfg)
}

func (g *gate) setPolicy(cfg *config.Config) {
	instance.SetSynackLimit(cfg, &g.settings)
	instance.SetSourceLimits(&cfg.SourceLimits, &g.settings)
	g.settings.Lists = instance.Flag(g.lists.There())
	g.settings.StaleKeys = 0
	if cfg.OnStaleKeys == config.StaleKeysDrop {
		g.settings.StaleKeys = 1
	}
	g.settings.BehindEdge = instance.Flag(cfg.Role == config.RoleServer)
	g.settings.FinalCheck = instance.Flag(cfg.Server.UnmatchedACK == config.UnmatchedDrop)
	g.settings.FourEpochs = instance.Flag(cfg.FourEpochs())
	g.settings.Smart = SmartFlag(cfg)
	g.settings.HalfOpenCostNs = 0
	if cfg.Server.HalfOpenRate > 0 {
		g.settings.HalfOpenCostNs = uint64(time.Second) / uint64(cfg.Server.HalfOpenRate)
	}
}

// answers reports whether SYNs are answered here: at a server, those that no edge has answered, if `without_edge` is `answer`.
func (g *gate) answers() bool {
	return g.cfg.Role != config.RoleServer || g.cfg.Server.WithoutEdge == config.WithoutEdgeAnswer
}

// warnOptions: an edge cannot know what this machine's sysctls refuse.
func (g *gate) warnOptions() {
	for name, on := range map[string]bool{"tcp_window_scaling": g.system.windowScaling, "tcp_sack": g.system.sack,
		"tcp_timestamps": g.system.timestamps} {
		if !on {
			g.log.Warn("the kernel will not adopt connections for which edges have agreed on this option: set the sysctl to 1, or remove the option from the edges' `offers` (wscale)",
				"sysctl", "net.ipv4."+name+"=0")
		}
	}
}

// loop updates clock, keys and listeners until ctx ends.
func (g *gate) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.opt.Reload:
			err := g.reload()
			g.opt.Reloaded(g.log, g.cfg, err)
		case <-tick.C:
			if err := g.housekeep(); err != nil {
				g.log.Error("housekeeping", "error", err)
			}
			if g.trial != nil && g.trial.look(g) {
				return
			}
		case <-g.services.automatic.Tick():
			if err := g.services.automatic.Step(instance.InKernel(g.plane, &g.settings)); err != nil {
				g.log.Error("detector", "error", err)
			}
		case <-g.replies.Changed():
			g.watchReplies()
			if g.gatewaysChanged() {
				if err := g.watchOwn(); err != nil {
					g.log.Error("housekeeping", "error", err)
				}
			}
		case <-g.surveyed(): // the change may be one of addresses
			if err := errors.Join(g.watchOwn(), g.look()); err != nil {
				g.log.Error("cannot read listeners", "error", err)
			}
		case <-g.bell:
			if err := g.look(); err != nil {
				g.log.Error("cannot read listeners", "error", err)
			}
		}
	}
}

// errSyncookies: cookie_v4_check and cookie_v6_check check the sysctl first.
var errSyncookies = errors.New("net.ipv4.tcp_syncookies is 0: the kernel would refuse every connection made from a cookie; set it to 1 with `sysctl -w net.ipv4.tcp_syncookies=1`, or `takeover: auto`")

// errKernel: nothing could be adopted, and `takeover: adopt` does nothing else.
var errKernel = errors.New("this kernel cannot adopt connections (it lacks bpf_sk_assign_tcp_reqsk, Linux 6.9): set `takeover: auto`, which translates them, or run a newer kernel")

func (g *gate) housekeep() error {
	g.setClock()
	g.watchReplies()
	errs := []error{g.recount(time.Now(), false), g.loadKeys(), g.watchOwn(), g.expireLists()}
	g.watchFinalCheck(time.Now())
	if g.plane.PartsMended() {
		g.log.Warn("somebody has emptied the map tg_parts, so that no ACK was verified and SYNs went to the kernel; it is filled again", "counter", "pass_unverifiable")
	}
	errs = append(errs, instance.Rejoin(g.log, g.plane), g.plane.FollowMembers(), g.followFarEnd())
	return errors.Join(append(errs, g.look())...)
}

// followFarEnd looks after interfaces whose far end has lost its XDP program, or has one again.
func (g *gate) followFarEnd() error {
	turned, err := g.plane.FollowFarEnd()
	for name, mode := range turned {
		g.modes[name] = mode
		if mode == plane.XDPGeneric {
			g.log.Warn("the far end of this veth has no XDP program that answers sent by native XDP would reach: generic XDP from now on, until it has one", "interface", name)
		} else {
			g.log.Info("the far end of this veth runs an XDP program again: native XDP from now on", "interface", name)
		}
	}
	if len(turned) == 0 {
		return err
	}
	return errors.Join(err, g.writeState())
}

func (g *gate) useLists(next instance.Lists) error {
	return g.lists.Use(next, g.plane, &g.settings, g.log)
}

// expireLists removes entries of the lists that have expired.
func (g *gate) expireLists() error {
	changed, err := g.lists.Expire(g.opt.Now(), g.useLists)
	if err != nil || !changed {
		return err
	}
	return g.writeState()
}

// look reads the current state of the machine, and updates the packet path accordingly.
func (g *gate) look() error {
	// Call all of them: an error in one must not skip another.
	local := g.watchLocal()
	changes := []bool{g.watchSystem(), g.watchListeners(), local}
	defer g.tellTakeovers()
	var err error
	if local { // a service must not protect an address before the packet path knows it as the machine's own
		err = g.watchOwn()
	}
	if slices.Contains(changes, true) {
		return errors.Join(err, g.applyServices(g.cfg))
	}
	return g.plane.SetSettings(&g.settings)
}

// applyServices updates the packet path to the configuration and the listeners and
// addresses known now.
func (g *gate) applyServices(cfg *config.Config) error {
	err := g.plane.SetServices(g.services.targets(cfg, g.system, g.local), &g.settings)
	if err == nil {
		g.tellLocal()
	}
	if cfg.Role == config.RoleServer && !g.part { // beside a gate that translates, that one says it
		g.opt.Offered.Set(g.services.offers(cfg, g.system))
	}
	return err
}

// stop leaves the gate in place, or detaches it: see End.
func (g *gate) stop(ctx, force context.Context) error {
	return instance.End(ctx, force, g.opt, g.cfg.Instance, g.cfg.Drain, g.keys.Until(g.cfg.Epoch), g.log)
}

// writeState replaces the state file in one step.
func (g *gate) writeState() error {
	return g.state().Write(instance.StatePath(g.opt.StateDir, g.cfg.Instance))
}

func (g *gate) state() *instance.StateFile {
	s := instance.StateFile{Role: g.cfg.Role, Version: version.Version, PID: os.Getpid(), Started: g.started,
		Interfaces: g.cfg.Interfaces, XDP: g.modes, EpochNs: int64(g.cfg.Epoch),
		KeyHorizon: int64(g.cfg.KeyHorizon), DrainNs: int64(g.cfg.Drain), Unrouted: g.replies.Unknown(), Refused: g.plane.NativeRefused()}
	s.Takeovers, s.Lists = g.takeovers(), g.lists.State()
	if l := g.cfg.SourceLimits; l.On() {
		s.SourceLimits = &l
	}
	for _, svc := range g.cfg.Services {
		s.Services = append(s.Services, instance.StateService{ID: g.services.ID(svc.Name), Name: svc.Name, Mode: string(svc.Mode),
			Prefixes: svc.Prefixes, Ports: svc.Ports})
	}
	return &s
}
