// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidegate/internal/adopt"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
	"tidegate/internal/survey"
)

const housekeeping = time.Second

// node is one running instance that translates: the kernel does the handshake with its own
// sequence numbers, whatever the listener and wherever it is (MPTCP, a guest behind this
// machine, a kernel without adoption). The packet path needs the daemon only for keys.
type node struct {
	opt      instance.Options
	log      *slog.Logger
	cfg      *config.Config
	secret   *keys.Roll
	plane    *plane.Server
	settings plane.Settings
	own      plane.ServerSettings
	numbers  *instance.Numbers
	keys     keys.Loader
	modes    map[string]plane.XDPMode
	started  time.Time
	watch    refusals
	mtu      uint16            // the smallest of the interfaces
	flowKey  uint32            // of IPv6 flow labels
	replies  *instance.Replies // where our own answers to SYNs go
	lists    instance.Lists    // of sources
	counts   instance.Recounts // of each source's connections
	offers   adopt.OfferReader // for the fleet
	noOffers bool              // they could not be read, which is logged

	// takeover: auto (auto.go)
	adopter *adopt.Adopter
	survey  *survey.Watcher // of what this machine does to packets; nil: nothing is chosen
	facts   facts
	pieces  []piece
}

func runTranslate(ctx, force context.Context, cfg *config.Config, opt instance.Options) error {
	opt.Complete()
	if err := instance.CheckPrivileges(); err != nil {
		return err
	}
	unlock, err := instance.Lock(opt.StateDir, cfg.Instance)
	if err != nil {
		return err
	}
	defer unlock()
	n := &node{opt: opt, log: opt.Log, cfg: cfg, numbers: instance.NewNumbers(), started: time.Now()}
	if err := n.start(); err != nil {
		return err
	}
	defer n.secret.Zero()
	defer n.plane.Close()
	defer n.replies.Close()
	defer n.closeSurvey()
	if n.adopter != nil {
		defer n.adopter.Close()
	}
	if opt.Ready != nil {
		opt.Ready()
	}
	n.log.Info("protecting", "instance", cfg.Instance, "takeover", cfg.Server.Takeover, "interfaces", cfg.Interfaces,
		"services", len(cfg.Services), "edges", len(cfg.Tagged.Edges), "xdp", n.modes)
	n.loop(ctx)
	return n.stop(ctx, force)
}

// start loads everything and attaches. If it fails, all is as it was before.
func (n *node) start() (err error) {
	if err := instance.EnsureBPFFS(n.opt.BPFFS); err != nil {
		return err
	}
	if n.secret, err = instance.LoadSecrets(n.cfg); err != nil {
		return err
	}
	slots := keys.Slots(n.cfg.Epoch, n.cfg.KeyHorizon)
	n.plane, err = plane.LoadServer(plane.ServerOptions{Options: plane.Options{Instance: n.cfg.Instance, KeySlots: slots, Services: len(n.numbered(n.cfg.Services)), Bonds: plane.HaveBonds(n.cfg.Interfaces)},
		BPFFS: n.opt.BPFFS, Flows: n.cfg.Tagged.MaxConnections, Holds: n.cfg.SourceLimits.Concurrent > 0, Adopts: n.auto()})
	if err != nil {
		return err
	}
	if n.flowKey, err = instance.RandomFlowKey(); err != nil {
		n.plane.Close()
		return err
	}
	n.settings.FilterKeys, err = instance.RandomFilterKeys()
	if err == nil {
		n.settings.Across, err = instance.RandomAcross()
	}
	if err != nil {
		n.plane.Close()
		return err
	}
	instance.TellLost(n.log, n.plane.Lost)
	// Before the translating gate, which leaves ACKs to it.
	err = n.startAdopter()
	if err == nil {
		err = n.attach()
	}
	if err == nil {
		err = n.settle()
	}
	if err != nil {
		n.plane.Close()
		n.closeSurvey()
		if n.adopter != nil {
			n.adopter.Close()
		}
	}
	return err
}

// settle makes the start of both gates final.
func (n *node) settle() error {
	gates := []instance.Attached{n.plane}
	if n.adopter != nil {
		gates = append(gates, n.adopter)
	}
	if err := instance.Settle(n.opt, n.state(), n.log, gates...); err != nil {
		return err
	}
	if n.adopter == nil {
		adopt.LetAdopterGo(n.opt, n.cfg.Instance, n.log)
	}
	return nil
}

func (n *node) state() instance.State {
	s := instance.State{Config: n.cfg, Numbers: n.numbers, Modes: n.modes, Started: n.started, Takeovers: choices(n.pieces), Unrouted: n.replies.Unknown(), Refused: n.plane.NativeRefused(), Lists: n.lists.State()}
	if n.adopter != nil {
		s.Adopter = n.adopter.IDs
	}
	return s
}

func (n *node) writeState() error { return instance.WriteState(n.opt.StateDir, n.state()) }

func (n *node) attach() (err error) {
	if err := n.fill(); err != nil {
		return err
	}
	cgroup, err := n.cgroup(n.cfg)
	if err != nil {
		return err
	}
	n.modes, err = n.plane.Attach(plane.AttachOptions{BPFFS: n.opt.BPFFS, Instance: n.cfg.Instance,
		Interfaces: n.cfg.Interfaces, CgroupRoot: cgroup, XDPMode: plane.XDPMode(n.cfg.XDPMode),
		Dispatcher: plane.DispatcherUse(n.cfg.Dispatcher), Priority: uint32(n.cfg.Priority), TCLast: n.cfg.TCOrder == config.TCLast})
	if err != nil {
		return err
	}
	// Where XDP runs on the packet's skb, it also meets the packets we reinject.
	for _, mode := range n.modes {
		if mode == plane.XDPGeneric {
			n.own.Generic = 1
		}
	}
	if n.own.Generic == 1 {
		for name, mode := range n.modes {
			if mode != plane.XDPGeneric {
				return fmt.Errorf("interface %s runs XDP in the driver and another does not; set xdp_mode: generic for all", name)
			}
		}
	}
	return errors.Join(n.plane.SetServer(n.own), n.recount(time.Now(), true))
}

// fill writes settings, keys, edges and services before anything is attached.
func (n *node) fill() error {
	cookie, err := instance.NetnsCookie()
	if err != nil {
		return err
	}
	n.settings = plane.Settings{FilterKeys: n.settings.FilterKeys, Across: n.settings.Across, Translates: 1, EpochLenNs: uint64(n.cfg.Epoch),
		NetnsCookie: cookie, VerifyAheadNs: uint64(n.cfg.ClockSkew), Smart: adopt.SmartFlag(n.cfg)}
	if n.own, err = n.plane.ServerSettings(); err != nil {
		return err
	}
	if n.own.Keys[0] == 0 { // else: the table of an earlier process goes with its keys
		raw := make([]byte, 8*len(n.own.Keys))
		_, _ = rand.Read(raw) // never fails (crypto/rand)
		for i := range n.own.Keys {
			n.own.Keys[i] = binary.LittleEndian.Uint64(raw[8*i:]) | 1
		}
	}
	n.own.Generic = 0
	n.own.IdleTicks = uint16(n.cfg.Tagged.IdleTime.Seconds()/plane.SplitTick) + 1
	n.own.SourceFloor = n.cfg.Tagged.SourceFloor()
	n.own.ConfirmPortBe = plane.ConfirmPort>>8 | plane.ConfirmPort&0xff<<8
	n.own.Unverified = plane.UnverifiedDrop
	if n.cfg.Server.UnmatchedACK == config.UnmatchedReset {
		n.own.Unverified = plane.UnverifiedPass
	}
	if err := errors.Join(n.setEdges(), n.setOwn()); err != nil {
		return err
	}
	if n.replies == nil {
		n.replies = instance.NewReplies(n.log)
	}
	n.replies.Tell(n.plane.Plane, n.cfg.Interfaces)
	n.setClock()
	instance.SetSynackLimit(n.cfg, &n.settings)
	instance.SetSourceLimits(&n.cfg.SourceLimits, &n.settings)
	if err := instance.SetReport(n.cfg, &n.settings); err != nil {
		return err
	}
	n.settings.StaleKeys = 0
	if n.cfg.OnStaleKeys == config.StaleKeysDrop {
		n.settings.StaleKeys = 1
	}
	n.settings.Smart, n.settings.FourEpochs = 0, 0
	if n.cfg.FourEpochs() {
		n.settings.FourEpochs = 1
	}
	if n.cfg.Server.Layout == config.LayoutSmartcookie {
		n.settings.Smart = 1
	}
	n.assign(n.cfg.Services)
	n.own.Adopt = 0
	if n.adopter != nil {
		n.own.Adopt = 1
	}
	lists, err := instance.ReadLists(n.opt.StateDir, n.cfg, n.opt.Now())
	if err != nil {
		return err
	}
	return errors.Join(n.loadKeys(), n.plane.SetServer(n.own), n.plane.SetServices(n.targets(), &n.settings), n.useLists(lists))
}

func (n *node) useLists(next instance.Lists) error {
	return n.lists.Use(next, n.plane.Plane, &n.settings, n.log)
}

// expireLists removes entries of the lists that have expired.
func (n *node) expireLists() error {
	changed, err := n.lists.Expire(n.opt.Now(), n.useLists)
	if err != nil || !changed {
		return err
	}
	return n.writeState()
}

func (n *node) setClock() { n.settings.WallMinusMonoNs = plane.WallMinusMonoNs(n.opt.Now()) }

// loadKeys loads the missing keys, up to the horizon.
func (n *node) loadKeys() error {
	return n.keys.Load(n.opt.Now().Add(n.cfg.ClockSkew), n.cfg.Epoch, n.cfg.KeyHorizon, func(e uint64) error {
		return errors.Join(n.plane.PutKey(e, adopt.CookieKey(n.cfg, n.secret, e)), n.plane.PutTagKeys(e, n.secret.TagKey(e), n.secret.ConfirmKey(e)))
	})
}

// loop maintains clock and keys until ctx ends.
func (n *node) loop(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.opt.Reload:
			err := n.reload()
			n.opt.Reloaded(n.log, n.cfg, err)
		case <-tick.C:
			n.setClock()
			if err := errors.Join(n.loadKeys(), n.setEdges(), n.plane.SetSettings(&n.settings), n.expireLists(), n.recount(time.Now(), false), instance.Rejoin(n.log, n.plane), n.plane.FollowMembers()); err != nil {
				n.log.Error("housekeeping", "error", err)
			}
			if err := n.watchListeners(); err != nil {
				n.log.Error("cannot read listeners", "error", err)
			}
			n.watchRefusals()
			n.watchReplies()
			n.offer()
		case <-n.replies.Changed():
			n.watchReplies()
		case <-n.surveyed():
			if err := n.watchListeners(); err != nil {
				n.log.Error("cannot read listeners", "error", err)
			}
		case <-n.bell():
			if err := n.watchListeners(); err != nil {
				n.log.Error("cannot read listeners", "error", err)
			}
		}
	}
}

// offer says what the kernel offers for services that have listeners here, if there is a fleet that asks.
func (n *node) offer() {
	if len(n.cfg.Fleet.Servers) == 0 {
		return
	}
	offers, err := n.offers.Read(n.cfg)
	if err != nil {
		if !n.noOffers {
			n.log.Error("what the kernel offers cannot be read; the fleet knows what it was told before", "error", err)
		}
		n.noOffers = true
		return
	}
	n.noOffers = false
	n.opt.Offered.Set(offers)
}

// watchReplies updates where our own answers to SYNs go.
func (n *node) watchReplies() {
	if n.replies.Tell(n.plane.Plane, n.cfg.Interfaces) {
		if err := n.writeState(); err != nil {
			n.log.Error("writing the state file", "error", err)
		}
	}
}

// prepareSecrets prepares the secrets of a reload, in both gates.
func (n *node) prepareSecrets(cfg *config.Config) (commit, drop func(), err error) {
	ours, dropOurs, err := instance.PrepareSecrets(n.secret, &n.keys, cfg, n.opt.Now())
	if err != nil || n.adopter == nil {
		return ours, dropOurs, err
	}
	adopters, dropAdopters, err := n.adopter.PrepareSecrets(cfg)
	if err != nil {
		dropOurs()
		return nil, nil, err
	}
	return func() { ours(); adopters() }, func() { dropOurs(); dropAdopters() }, nil
}

// reload applies changed services and secrets; any other change takes a new process, which
// takes over links and table.
func (n *node) reload() error {
	cfg, err := n.opt.Load()
	if err != nil {
		return err
	}
	if err := config.CheckReload(n.cfg, cfg, ""); err != nil {
		return err
	}
	commit, drop, err := n.prepareSecrets(cfg)
	if err != nil {
		return err
	}
	lists, err := instance.ReadLists(n.opt.StateDir, cfg, n.opt.Now())
	if err != nil {
		drop()
		return err
	}
	if err := n.hold(cfg); err != nil {
		drop()
		return err
	}
	old, before := n.cfg, n.pieces
	removed := n.assign(cfg.Services)
	n.cfg = cfg
	instance.SetSourceLimits(&cfg.SourceLimits, &n.settings)
	if err := errors.Join(instance.SetReport(cfg, &n.settings), n.apply(cfg.Services)); err != nil {
		n.cfg, n.pieces = old, before
		instance.SetSourceLimits(&old.SourceLimits, &n.settings)
		err = errors.Join(err, instance.SetReport(old, &n.settings))
		n.assign(old.Services)
		drop()
		return errors.Join(err, n.apply(old.Services))
	}
	commit()
	if err := errors.Join(n.useLists(lists), n.recount(time.Now(), old.SourceLimits != cfg.SourceLimits), n.loadKeys()); err != nil {
		return err
	}
	for _, id := range removed {
		if err := plane.ClearCounters(n.plane.Map("tg_counters"), id); err != nil {
			return err
		}
	}
	if err := n.writeState(); err != nil { // before anybody hears of it
		return err
	}
	n.log.Info("reloaded", "services", len(cfg.Services))
	return nil
}

// stop leaves the gate in place, or takes it down: no new connection is taken over, and
// translated ones go on until the last has ended, or for the drain time.
func (n *node) stop(ctx, force context.Context) error {
	return instance.End(ctx, force, n.opt, n.cfg.Instance, n.cfg.Drain, n.keys.Until(n.cfg.Epoch), n.log)
}
