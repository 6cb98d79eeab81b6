// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/dpdk"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/sourcelist"
)

// dpdkProxy is a proxy whose packet path is tidegate-dpdk. It ends with that
// program; connections that it translates do not outlive it.
type dpdkProxy struct {
	*proxy
	proc       *dpdk.Process
	control    *dpdk.Control
	counts     *dpdkCounts      // for the detector
	neighbours *dpdk.Neighbours // of a router on the kernel's interfaces; else nil
	refused    time.Time        // when it was last logged that the kernel does not ask for one
	atEnd      []func() error   // undoes what was done to interfaces
}

// runDPDK is Run for plane: dpdk; the instance is locked.
func runDPDK(ctx, force context.Context, b *proxy) (err error) {
	d := &dpdkProxy{proxy: b}
	if b.secret, err = instance.LoadSecrets(b.Cfg); err != nil {
		return err
	}
	defer b.secret.Zero()
	if err := d.start(ctx); err != nil {
		return err
	}
	if b.Opt.Ready != nil {
		b.Opt.Ready()
	}
	b.Log.Info("protecting", "instance", b.Cfg.Instance, "plane", "dpdk", "forwarding", b.Cfg.Proxy.Forwarding,
		"interfaces", b.Cfg.Interfaces, "services", len(b.Cfg.Services))
	watching, enough := context.WithCancel(ctx)
	defer enough()
	offender.Start(watching, func() ([]plane.Proven, error) { return dpdk.ReadProven(d.proc.Socket) }, b.Cfg, b.Opt.OnOffence, b.Log)
	err = d.loop(ctx)
	return errors.Join(err, d.stop(force))
}

func (d *dpdkProxy) start(ctx context.Context) (err error) {
	cfg := d.Cfg
	if len(cfg.Proxy.DPDK.Devices) == 0 {
		if cfg.Proxy.Forwarding == config.ForwardRouter && dpdk.KernelForwards() {
			return errors.New("this kernel forwards packets itself, and each would be forwarded twice; set net.ipv4.ip_forward=0 and net.ipv6.conf.all.forwarding=0 with sysctl")
		}
		for _, name := range cfg.Interfaces {
			stop, err := dpdk.StopMerging(name)
			if err != nil {
				return errors.Join(err, d.release())
			}
			d.atEnd = append(d.atEnd, stop)
		}
	}
	restore := func() error { return nil }
	if len(cfg.Proxy.DPDK.Devices) == 0 {
		if restore, err = dpdk.KeepNeighbours(cfg.Interfaces); err != nil {
			return err
		}
	}
	lists, err := instance.ReadLists(d.Opt.StateDir, cfg, d.Opt.Now())
	if err != nil {
		return errors.Join(err, d.release())
	}
	socket := dpdk.SocketPath(d.Opt.StateDir, cfg.Instance)
	if d.proc, err = dpdk.Start(ctx, cfg, dpdk.Prefix(cfg.Instance), socket, d.Log); err != nil {
		return err
	}
	if d.control, err = dpdk.Dial(socket); err == nil {
		err = restore()
	}
	if err != nil {
		return errors.Join(err, d.proc.Stop())
	}
	d.counts = newDPDKCounts(d.control)
	d.AssignServices()
	if err := errors.Join(d.watchNeighbours(), d.useLists(lists), d.apply(true), d.writeState()); err != nil {
		return errors.Join(err, d.control.Close(), d.proc.Stop())
	}
	return nil
}

func (d *dpdkProxy) release() (err error) {
	for _, f := range d.atEnd {
		err = errors.Join(err, f())
	}
	d.atEnd = nil
	return err
}

// apply sends the program keys and, if the services have changed, everything else.
func (d *dpdkProxy) apply(all bool, more ...string) error {
	cfg := d.Cfg
	slots := 1
	for slots < keys.Slots(cfg.Epoch, cfg.KeyHorizon) {
		slots *= 2
	}
	var lines []string
	loaded := d.keys // the keys after the program has accepted them
	if loaded.Last() == 0 {
		lines = append(lines, fmt.Sprintf("key-slots %d", slots), fmt.Sprintf("epoch-length %d", cfg.Epoch.Nanoseconds()),
			fmt.Sprintf("verify-ahead %d", cfg.ClockSkew.Nanoseconds()))
	}
	err := loaded.Load(time.Now().Add(cfg.ClockSkew), cfg.Epoch, cfg.KeyHorizon, func(n uint64) error {
		key := d.secret.EpochKey(n)
		lines = append(lines, fmt.Sprintf("key %d %x", n, key))
		return nil
	})
	if err != nil {
		return err
	}
	targets, how := []plane.Target(nil), map[uint32]dpdk.How(nil)
	if all {
		if targets, how, err = d.dpdkServices(); err != nil {
			return err
		}
		services, err := d.configLines(targets, how)
		if err != nil {
			return err
		}
		lines = append(lines, services...)
	}
	if lines = append(lines, more...); len(lines) == 0 {
		return nil
	}
	if err := d.control.Apply(lines); err != nil {
		return err
	}
	if all {
		d.counts.sent(targets, how)
	}
	d.keys = loaded
	return nil
}

// serviceLines is everything but the keys.
func (d *dpdkProxy) serviceLines() ([]string, error) {
	targets, how, err := d.dpdkServices()
	if err != nil {
		return nil, err
	}
	return d.configLines(targets, how)
}

// dpdkServices are the services, and how each is protected.
func (d *dpdkProxy) dpdkServices() ([]plane.Target, map[uint32]dpdk.How, error) {
	cfg := d.Cfg
	targets, err := d.dpdkTargets()
	if err != nil {
		return nil, nil, err
	}
	how := map[uint32]dpdk.How{}
	for _, svc := range cfg.Services {
		s := proxyService(&svc, schema.StrategyNumber(string(svc.Strategy)))
		h := dpdk.How{Strategy: int(s.Strategy), FirstData: int(s.FirstData), Fixed: int(s.Fixed)}
		if svc.FirstData == config.FirstDataStore {
			h.FirstData = dpdk.FirstDataStore
		}
		how[d.Numbers.ID(svc.Name)] = h
	}
	return targets, how, nil
}

// configLines is everything but the keys, with these services.
func (d *dpdkProxy) configLines(targets []plane.Target, how map[uint32]dpdk.How) ([]string, error) {
	cfg := d.Cfg
	s := plane.Settings{FilterKeys: [10]uint64{1}} // tidegate-dpdk makes its own
	instance.SetSourceLimits(&cfg.SourceLimits, &s)
	if err := instance.SetReport(cfg, &s); err != nil {
		return nil, err
	}
	lines := append(dpdk.ServiceLines(targets, how), dpdk.LimitsLine(&s), dpdk.RememberLine(&s), "stale-keys "+string(cfg.OnStaleKeys),
		"forwarding "+string(cfg.Proxy.Forwarding),
		fmt.Sprintf("white-v4-mask %08x", ^uint32(0)<<(32-cfg.Proxy.SourcePrefixV4)), fmt.Sprintf("white-v6-mask %016x", ^uint64(0)<<(64-cfg.Proxy.SourcePrefixV6)))
	if cfg.Proxy.Forwarding == config.ForwardBridge {
		return lines, nil
	}
	routes, err := d.routes()
	if err != nil {
		return nil, err
	}
	lines = append(lines, dpdk.RouteLines(routes)...)
	if len(cfg.Proxy.DPDK.Devices) == 0 {
		links, err := dpdk.KernelLinks(cfg.Interfaces)
		if err != nil {
			return nil, err
		}
		lines = append(lines, dpdk.LinkLines(links)...)
	}
	for _, a := range cfg.Proxy.DPDK.Addresses {
		lines = append(lines, dpdk.AddressLine(a.Addr, slices.Index(cfg.Interfaces, a.Interface)))
	}
	return lines, nil
}

// dpdkTargets are the services; an interface that is DPDK's own has no MTU to ask for.
func (d *dpdkProxy) dpdkTargets() ([]plane.Target, error) {
	if d.onKernel() {
		return d.targets()
	}
	instance, cfg := *d.Instance, *d.Cfg
	cfg.Interfaces = nil
	instance.Cfg = &cfg
	targets, err := (&proxy{Instance: &instance}).targets()
	for i := range targets {
		s := &targets[i].Service
		s.MssV4, s.MssV6 = min(s.MssV4, 1460), min(s.MssV6, 1440)
	}
	return targets, err
}

// useLists gives the program lists, by a file that it reads at once.
func (d *dpdkProxy) useLists(next instance.Lists) error {
	return d.Lists.UseBy(next, func(table *sourcelist.Table) error {
		if table == nil {
			return d.control.Apply([]string{dpdk.NoLists})
		}
		return d.control.ApplyLists(filepath.Join(d.Opt.StateDir, d.Cfg.Instance+".dpdk-lists"), table)
	}, d.Log)
}

func (d *dpdkProxy) tell(lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return d.control.Apply(lines)
}

// onKernel says whether the ports are interfaces of the kernel.
func (d *dpdkProxy) onKernel() bool { return len(d.Cfg.Proxy.DPDK.Devices) == 0 }

func (d *dpdkProxy) routes() (routes []dpdk.Route, err error) {
	if !d.onKernel() {
		routes = dpdk.LocalRoutes()
	} else if routes, err = dpdk.KernelRoutes(d.Cfg.Interfaces); err != nil {
		return nil, err
	}
	for _, r := range d.Cfg.Proxy.DPDK.Routes {
		routes = append(routes, dpdk.Route{Prefix: r.Prefix, Port: slices.Index(d.Cfg.Interfaces, r.Interface), MAC: r.MAC})
	}
	return routes, nil
}

// loop maintains keys and routes, and swaps, until ctx
// ends or the program does.
func (d *dpdkProxy) loop(ctx context.Context) error {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	swap := time.NewTicker(d.Cfg.Proxy.SwapPeriod)
	defer swap.Stop()
	var sent []string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.proc.Exited():
			return d.proc.Failure()
		case <-d.Opt.Reload:
			err := d.reload()
			d.Opt.Reloaded(d.Log, d.Cfg, err)
			if err != nil {
				continue
			}
			swap.Reset(d.Cfg.Proxy.SwapPeriod)
		case u, open := <-d.neighbourUpdates():
			if err := d.takeNeighbours(u, open); err != nil {
				d.Log.Error("neighbours", "error", err)
			}
		case u := <-d.control.Unresolved:
			d.ask(u)
		case <-swap.C:
			if err := d.swapTables(); err != nil {
				d.Log.Error("cannot swap the tables", "error", err)
			}
		case <-d.Automatic.Tick():
			if err := d.Automatic.Step(d.counts); err != nil {
				d.Log.Error("detector", "error", err)
			}
		case now := <-tick.C:
			lines, err := d.serviceLines() // routes may have changed
			changed := err == nil && !slices.Equal(slices.Sorted(slices.Values(lines)), sent)
			if changed {
				sent = slices.Sorted(slices.Values(lines))
			}
			if err := errors.Join(err, d.apply(changed)); err != nil {
				d.Log.Error("housekeeping", "error", err)
			}
			if err := d.expireLists(); err != nil {
				d.Log.Error("housekeeping", "error", err)
			}
			if d.neighbours != nil {
				if err := d.neighbours.Tick(now); err != nil {
					d.Log.Error("housekeeping", "error", err)
				}
			}
			if err := d.swapEarly(); err != nil {
				d.Log.Error("cannot swap the flow tables early", "error", err)
			}
			d.watchSides()
		}
	}
}

// expireLists removes entries of the lists that have expired.
func (d *dpdkProxy) expireLists() error {
	changed, err := d.Lists.Expire(d.Opt.Now(), d.useLists)
	if err != nil || !changed {
		return err
	}
	return d.writeState()
}

// watchSides is proxy.watchSides with the program's counters.
func (d *dpdkProxy) watchSides() {
	now := time.Now()
	if now.Sub(d.watch.since) < sidesEvery {
		return
	}
	var opened, answered uint64
	for _, svc := range d.Cfg.Services {
		c, err := dpdk.Counters(d.proc.Prefix, d.Numbers.ID(svc.Name))
		if err != nil {
			return // it has just ended, or answers another client
		}
		opened += c[schema.CounterFlowOpened.String()]
		answered += c[schema.CounterFlowReady.String()] + c[schema.CounterFlowRefused.String()] + c[schema.CounterFlowOlder.String()]
	}
	if d.seeSides(now, opened, answered) {
		if err := d.writeState(); err != nil {
			d.Log.Error("state file", "error", err)
		}
	}
}

// flowsOpened is proxy.flowsOpened with the program's counters.
func (d *dpdkProxy) flowsOpened() (opened uint64, err error) {
	for _, svc := range d.Cfg.Services {
		c, err := dpdk.Counters(d.proc.Prefix, d.Numbers.ID(svc.Name))
		if err != nil {
			return 0, err
		}
		opened += c[schema.CounterFlowOpened.String()]
	}
	return opened, nil
}

// swapEarly is proxy.swapEarly for the program: all cores' tables rotate when one core's is full.
func (d *dpdkProxy) swapEarly() error {
	state, err := dpdk.ReadState(d.proc.Prefix)
	if err != nil || state.Full == 0 {
		return err
	}
	opened, err := d.flowsOpened()
	if err != nil || !d.flows.early(true, opened, time.Now(), &d.Cfg.Proxy) {
		return err
	}
	d.Log.Warn("a flow table is full: idle connections are forgotten early", "flows", state.Flows, "max_flows", d.Cfg.Proxy.MaxFlows)
	return d.control.Apply([]string{"swap flows"})
}

// swapTables is proxy.swapTables for the program.
func (d *dpdkProxy) swapTables() error {
	opened, err := d.flowsOpened()
	if err != nil {
		return err
	}
	lines := []string{"swap sources"}
	if d.flows.due(opened, time.Now(), &d.Cfg.Proxy) {
		lines = append(lines, "swap flows")
	}
	return d.control.Apply(lines)
}

// reload applies a changed configuration, whole or not at all.
func (d *dpdkProxy) reload() error {
	return d.Reload(instance.Reloading{Restart: "translated connections, which end with tidegate-dpdk",
		Secret: d.secret, Keys: &d.keys, Load: func() error { return d.apply(false) }, Lists: d.useLists, State: d.writeState,
		Write: func(removed []uint32) error {
			d.Automatic.Assign(d.Cfg, d.Numbers.ID)
			var forget []string
			for _, id := range removed {
				forget = append(forget, fmt.Sprintf("forget %d", id))
			}
			return d.apply(true, forget...)
		}})
}

func (d *dpdkProxy) writeState() error {
	return instance.WriteState(d.Opt.StateDir, instance.State{Config: d.Cfg, Numbers: d.Numbers, Started: d.Started,
		OneSided: d.watch.warned, DPDK: d.proc.Prefix, LastKey: d.keys.Last(), Lists: d.Lists.State()})
}

// stop lets SYNs go to the servers at once, keeps translating existing connections for the
// drain time, then ends the program.
func (d *dpdkProxy) stop(force context.Context) error {
	var errs []error
	select {
	case <-d.proc.Exited():
	default:
		for i := range d.Cfg.Services {
			d.Cfg.Services[i].Mode = config.ModeOff
		}
		d.Automatic.Assign(d.Cfg, d.Numbers.ID)
		errs = append(errs, d.apply(true))
		if d.Cfg.Drain > 0 {
			d.Log.Info("draining", "for", d.Cfg.Drain)
			select {
			case <-time.After(d.Cfg.Drain):
			case <-force.Done():
			case <-d.proc.Exited():
			}
		}
	}
	if d.neighbours != nil {
		d.neighbours.Close()
	}
	errs = append(errs, d.control.Close(), d.proc.Stop(), d.release())
	if err := instance.RemoveState(d.Opt.StateDir, d.Cfg.Instance); !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	d.Log.Info("stopped")
	return errors.Join(errs...)
}
