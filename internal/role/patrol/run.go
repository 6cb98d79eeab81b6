// SPDX-License-Identifier: Apache-2.0

package patrol

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/ifp"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
	"tidegate/internal/upstream"
)

// sweepEvery is how often slots of expired filters are freed. Packets check
// expiry by themselves.
const sweepEvery = 5 * time.Second

// patrol is one running patrol.
type patrol struct {
	opt     instance.Options
	cfg     *config.Config
	log     *slog.Logger
	plane   *plane.Patrol
	filters *Filters
	control *Control
}

// Run patrols until ctx ends. Programs, filters and marks stay in force after it:
// the packet path needs no daemon, and filters expire by themselves. Off removes
// them.
func Run(ctx, _ context.Context, opt instance.Options) error {
	cfg, unlock, err := instance.Begin(&opt)
	if err != nil {
		return err
	}
	defer unlock()
	b := &patrol{opt: opt, cfg: cfg, log: opt.Log}
	if err := b.start(); err != nil {
		return err
	}
	defer b.plane.Close()
	if opt.Ready != nil {
		opt.Ready()
	}
	b.log.Info("patrolling", "instance", cfg.Instance, "ports", len(cfg.Patrol.Ports),
		"filters", b.filters.table.Len(), "restored", b.plane.TookOver)
	wait := instance.KeepUpstream(ctx, opt.StateDir, cfg, true, b.log, b.state)
	b.loop(ctx)
	wait()
	if b.control != nil {
		b.control.Close()
	}
	b.log.Info("stopped; filters stay in force until they expire, or until `tidegate off -c FILE`")
	return nil
}

func (b *patrol) start() (err error) {
	p := b.cfg.Patrol
	if err := instance.EnsureBPFFS(b.opt.BPFFS); err != nil {
		return err
	}
	b.plane, err = plane.LoadPatrol(plane.PatrolOptions{Instance: b.cfg.Instance, BPFFS: b.opt.BPFFS, Bonds: plane.HaveBonds(b.cfg.Interfaces),
		Buckets: BucketsFor(p.MaxFilters), Codepoint: p.Codepoint})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.plane.Close()
		}
	}()
	if b.filters, err = NewFilters(b.plane, p.Codepoint, p.Plain); err != nil {
		return err
	}
	if err := b.fill(p); err != nil {
		return err
	}
	var queues []string
	for _, port := range p.Ports {
		if port.QueueBits != 0 {
			queues = append(queues, port.Interface)
		}
	}
	if _, err := b.plane.AttachPatrol(plane.AttachOptions{BPFFS: b.opt.BPFFS, Instance: b.cfg.Instance,
		Interfaces: b.cfg.Interfaces, XDPMode: plane.XDPMode(b.cfg.XDPMode),
		Dispatcher: plane.DispatcherUse(b.cfg.Dispatcher), Priority: uint32(b.cfg.Priority)}, queues); err != nil {
		return err
	}
	for _, port := range p.Ports {
		if port.QueueBits != 0 {
			if err := installQueues(port.Interface, port.QueueBits); err != nil {
				return err
			}
		}
	}
	return b.listen(p)
}

// fill writes sources, exceptions and ports before anything is attached.
func (b *patrol) fill(p *config.Patrol) error {
	sources, err := readSources(p)
	if err != nil {
		return err
	}
	b.filters.settings.InternalTs = 0
	if !p.Check {
		b.filters.settings.InternalTs = 1
	}
	if err := b.filters.SetSources(sources); err != nil {
		return err
	}
	b.filters.table.DropExceptions()
	for _, e := range p.Exceptions {
		for _, direction := range []ifp.Direction{ifp.FromCustomer, ifp.ToCustomer} {
			if err := b.filters.table.Except(ifp.Key{Src: e.Src, Dst: e.Dst, Direction: direction}); err != nil {
				return err
			}
		}
	}
	index := map[string]int{}
	for _, name := range b.cfg.Interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		index[name] = dev.Attrs().Index
	}
	for i, port := range p.Ports {
		e := plane.PatrolPort{Direction: uint8(ifp.FromCustomer)}
		if port.Side == config.SideUpstream {
			e.Direction = uint8(ifp.ToCustomer)
			e.Mark = schema.MarkNumber(string(port.Neighbour))
		}
		if p.Forwarding == config.ForwardBridge {
			e.Peer = uint32(index[p.Ports[1-i].Interface])
		}
		if err := b.plane.SetPort(index[port.Interface], e); err != nil {
			return fmt.Errorf("interface %s: %w", port.Interface, err)
		}
	}
	return nil
}

// readSources joins the configuration's sources and those of its file.
func readSources(p *config.Patrol) ([]netip.Prefix, error) {
	list := slices.Clone(p.Sources)
	if p.SourcesFile == "" {
		return list, nil
	}
	f, err := os.Open(p.SourcesFile)
	if err != nil {
		return nil, fmt.Errorf("sources_file: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %q is not a prefix; write one a line, like 192.0.2.0/24", p.SourcesFile, n, text)
		}
		list = append(list, prefix.Masked())
	}
	return list, lines.Err()
}

// listen serves the border managers, if there are any.
func (b *patrol) listen(p *config.Patrol) error {
	if !p.Listen.IsValid() {
		return nil
	}
	id, err := upstream.LoadIdentity(p.Identity)
	if err != nil {
		return err
	}
	var managers []ed25519.PublicKey
	for _, text := range p.Managers {
		k, err := upstream.ParseKey(text)
		if err != nil {
			return err
		}
		managers = append(managers, k)
	}
	config, err := id.TLS(managers...)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(p.Listen))
	if err != nil {
		return fmt.Errorf("listen for border managers: %w", err)
	}
	b.control = ServeControl(b.filters.table, l, config, b.log)
	return nil
}

// state is what `tidegate status` shows beside the counters in the maps.
func (b *patrol) state(s *instance.Upstream) {
	s.Ports = b.cfg.Interfaces
	if b.cfg.Patrol.Listen.IsValid() {
		s.Listen = b.cfg.Patrol.Listen.String()
	}
	s.Figures["filters"], s.Figures["filters_max"] = uint64(b.filters.table.Len()), uint64(b.filters.table.Capacity())
	places := b.filters.table.Places()
	s.Figures["places_refused"], s.Figures["places_given_up"], s.Figures["filters_given_up"] = places.Refused, places.GivenUp, places.FiltersGivenUp
	s.Figures["filters_displaced"] = b.filters.table.Displaced()
}

func (b *patrol) loop(ctx context.Context) {
	sweep, second := time.NewTicker(sweepEvery), time.NewTicker(time.Second)
	defer sweep.Stop()
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.opt.Reload:
			err := b.reload()
			b.opt.Reloaded(b.log, b.cfg, err)
		case <-second.C:
			if err := b.plane.FollowMembers(); err != nil {
				b.log.Error("bonds", "error", err)
			}
		case <-sweep.C:
			if n := b.filters.table.Sweep(nowS()); n > 0 {
				b.log.Info("expired filters removed", "filters", n, "left", b.filters.table.Len())
			}
		}
	}
}

// reload applies changed sources, exceptions and ports.
func (b *patrol) reload() error {
	cfg, err := b.opt.Load()
	if err != nil {
		return err
	}
	if err := checkReload(b.cfg, cfg); err != nil {
		return err
	}
	if err := b.fill(cfg.Patrol); err != nil {
		return errors.Join(err, b.fill(b.cfg.Patrol))
	}
	b.cfg = cfg
	b.log.Info("reloaded", "sources", len(cfg.Patrol.Sources))
	return nil
}

// checkReload refuses, by name, changes that fill does not apply.
func checkReload(old, next *config.Config) error {
	if err := config.CheckReload(old, next, "no filter"); err != nil {
		return err
	}
	ports := func(c *config.Config) (list []string) {
		for _, port := range c.Patrol.Ports {
			list = append(list, fmt.Sprint(port.Interface, port.QueueBits))
		}
		return list
	}
	if !slices.Equal(ports(old), ports(next)) {
		return errors.New("ports (interface, queue) changed: it takes effect at the next restart, which loses no filter; nothing of this reload was applied")
	}
	return nil
}

// Off takes an instance off: programs, filters, queues.
func Off(opt instance.Options) error {
	opt.Complete()
	cfg, err := opt.Load()
	if err != nil {
		return err
	}
	if cfg.Patrol == nil {
		return fmt.Errorf("%s is of role %s, which is no patrol", opt.ConfigPath, cfg.Role)
	}
	unlock, err := instance.Lock(opt.StateDir, cfg.Instance)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, port := range cfg.Patrol.Ports {
		if port.QueueBits != 0 {
			errs = append(errs, removeQueues(port.Interface))
		}
	}
	if err := instance.RemoveState(opt.StateDir, cfg.Instance); !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, plane.DetachPinned(opt.BPFFS, cfg.Instance))...)
}
