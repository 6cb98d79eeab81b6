// SPDX-License-Identifier: Apache-2.0

package p4

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/p4/simpleswitch"
)

// What happens to unknown packets; p4/v1model/types.p4.
const (
	unknownNone = iota
	unknownMeter
	unknownAll
)

// Of core/bloom.h.
const (
	bloomGenerations = 4
	bloomBits        = 20
	bloomWords       = 1 << (bloomBits - 5)
)

// clockSlack is how far the two clocks may seem to have drifted before the epochs
// are laid out again; a call to the switch takes about a tenth of it.
const clockSlack = 5 * time.Millisecond

// Options are what a controller needs besides its configuration.
type Options struct {
	Log *slog.Logger
	Now func() time.Time // the clock; time.Now if nil

	Salt *uint64 // for tests: of challenges without a cookie; drawn if nil
}

// Secret is what keys are derived from: a keys.Secret, or a keys.Roll of two.
type Secret interface {
	SmartKey(epoch uint64) [keys.SmartKeyLen]byte
	TagKey(epoch uint64) [keys.EpochKeyLen]byte
	ConfirmKey(epoch uint64) [keys.EpochKeyLen]byte
}

// Controller keeps one switch's tables.
type Controller struct {
	cfg    *Config
	names  names
	secret Secret
	sw     *simpleswitch.Client
	log    *slog.Logger
	now    func() time.Time

	zero       time.Time        // the wall clock when the switch's was zero
	epochs     map[uint64]*span // entries by epoch
	tagKeys    map[tagKey]int32 // likewise
	bloomKey   [8]byte
	salt       [8]byte
	generation uint8
	rotated    time.Time
	learnUntil time.Time
	ports      map[string]int
	table      *entries // the table that digests fill; nil without
	macs       *macs
	digests    *digests // nil if the program sends none

	adopted         bool // an earlier controller has left the switch protecting
	adoptedLearning bool // and it was learning flows
}

// NewController connects to the switch and configures it. Where an earlier
// controller was killed, it takes over what that one left (adopt.go). The caller keeps
// the secret and zeroes it.
func NewController(ctx context.Context, cfg *Config, secret Secret, opt Options) (*Controller, error) {
	c := &Controller{cfg: cfg, names: namesOf(cfg.Program), secret: secret, log: opt.Log, now: opt.Now,
		epochs: map[uint64]*span{}, tagKeys: map[tagKey]int32{}}
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.sw, err = simpleswitch.Dial(ctx, cfg.Thrift); err != nil {
		return nil, err
	}
	c.macs = newMACs(c)
	if cfg.Program != ProgramEdge {
		c.table = newEntries(c)
	}
	err = c.begin(opt)
	if err == nil && cfg.Notifications != "" {
		c.digests, err = listen(ctx, c)
	}
	if err == nil {
		err = c.setGate()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// begin takes over or clears what an earlier controller configured, and configures everything;
// the gate is opened last.
func (c *Controller) begin(opt Options) error {
	if _, err := rand.Read(c.bloomKey[:]); err != nil {
		return err
	}
	if _, err := rand.Read(c.salt[:]); err != nil {
		return err
	}
	steps := []func() error{c.readGate, c.takeOver, c.layPorts, c.macs.lay, c.layServices, c.readClock, c.loadEpochs, c.setAllowance,
		func() error {
			if opt.Salt != nil {
				binary.BigEndian.PutUint64(c.salt[:], *opt.Salt)
			}
			return c.setStrategy()
		}, c.setTagged}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	c.rotated = c.now()
	if !c.adopted || c.adoptedLearning {
		c.learnUntil = c.rotated.Add(time.Duration(*c.cfg.Learn))
	}
	return nil
}

// takeOver continues where an earlier controller ended, or starts over.
func (c *Controller) takeOver() error {
	if !c.adopted {
		return c.forgetAll()
	}
	err := errors.Join(c.adoptEpochs(), c.adoptTagKeys())
	if err == nil && c.table != nil {
		err = c.table.adopt()
	}
	if err == nil {
		c.log.Info("took over a switch that an earlier controller left protecting", "epochs", len(c.epochs), "entries", c.Entries())
	}
	return err
}

// MACs returns what was learned about addresses.
func (c *Controller) MACs() MACFigures { return c.macs.figures() }

// Adopted reports whether the switch was taken over from an earlier controller.
func (c *Controller) Adopted() bool { return c.adopted }

// Open makes the switch forward everything, as without a configuration.
func (c *Controller) Open() error { return c.sw.SetDefault(c.names.in(tableGate), "NoAction") }

// Close ends the connections; the switch works until its keys expire.
func (c *Controller) Close() error {
	var err error
	if c.digests != nil {
		err = c.digests.close()
	}
	return errors.Join(err, c.sw.Close())
}

func (c *Controller) port(name string) (int, error) {
	n, ok := c.ports[name]
	if !ok {
		return 0, fmt.Errorf("the switch has no interface %s; start simple_switch with -i NUMBER@%s", name, name)
	}
	return n, nil
}

func (c *Controller) layPorts() error {
	byNumber, err := c.sw.Ports()
	if err != nil {
		return err
	}
	c.ports = map[string]int{}
	var all []int
	for n, name := range byNumber {
		c.ports[name] = n
		all = append(all, n)
	}
	slices.Sort(all)
	for _, name := range c.cfg.Interfaces {
		if _, err := c.port(name); err != nil {
			return err
		}
	}
	for _, n := range all {
		if name := byNumber[n]; len(c.cfg.Interfaces) > 0 && !slices.Contains(c.cfg.Interfaces, name) {
			c.log.Warn("a port of the switch is not in interfaces; the program judges its packets as those of clients", "port", name)
		}
	}
	var inside, rewritten []row
	for _, name := range c.cfg.Inside {
		n, err := c.port(name)
		if err != nil {
			return err
		}
		inside = append(inside, row{[]any{simpleswitch.Exact(u16(uint16(n)))}, c.names.in(actionInside), nil})
	}
	for name, macs := range c.cfg.PortMACs {
		src, errSrc := net.ParseMAC(macs.Src)
		dst, errDst := net.ParseMAC(macs.Dst)
		n, err := c.port(name)
		if err = errors.Join(err, errSrc, errDst); err != nil {
			return err
		}
		rewritten = append(rewritten, row{[]any{simpleswitch.Exact(u16(uint16(n)))}, c.names.egress + actionMACs, [][]byte{src, dst}})
	}
	return errors.Join(c.layRows(c.names.in(tableInside), inside, nil), c.layRows(c.names.egress+tablePortMAC, rewritten, nil),
		c.sw.SetMulticastGroup(floodGroup, all))
}

// modes are the numbers of enum tg_mode.
var modes = map[config.Mode]uint8{config.ModeOff: 0, config.ModeMonitor: 1, config.ModeAlways: 2}

func (c *Controller) layServices() error {
	var v4, v6 []row
	for _, s := range c.cfg.Services {
		params := [][]byte{u8(s.ID), u8(modes[s.Mode]), u16(s.MSSv4), u16(s.MSSv6), u16(s.Window), u8(*s.WScale)}
		for _, prefix := range s.Prefixes {
			to := &v4
			if prefix.Addr().Is6() {
				to = &v6
			}
			for _, port := range s.Ports {
				keys := []any{simpleswitch.Exact(u16(port)), simpleswitch.LPM{Key: prefix.Addr().AsSlice(), Len: prefix.Bits()}}
				*to = append(*to, row{keys, c.names.in(actionServe), params})
			}
		}
	}
	return errors.Join(c.layRows(c.names.in(tableV4), v4, nil), c.layRows(c.names.in(tableV6), v6, nil))
}

func (c *Controller) emptyFilter() error {
	if !c.cfg.hasFilter() {
		return nil
	}
	for _, part := range bloomParts {
		if err := c.sw.WriteRange(c.names.in(part), 0, bloomGenerations*bloomWords, 0); err != nil {
			return err
		}
	}
	return nil
}

// emptySetup forgets connections whose server has not answered or confirmed.
func (c *Controller) emptySetup() error {
	registers := map[string][]string{ProgramCookie: setupRegister, ProgramEdge: pendingRegister}[c.cfg.Program]
	for _, register := range registers {
		if err := c.sw.WriteRange(c.names.in(register), 0, setupPlaces, 0); err != nil {
			return err
		}
	}
	return nil
}

// setStrategy sets the kind of the whitelist, and what whitelists a source.
func (c *Controller) setStrategy() error {
	if !c.cfg.isAuth() {
		return nil
	}
	return c.sw.SetDefault(c.names.in(tableStrategy), c.names.in(actionStrategy),
		flag(c.cfg.Program == ProgramAuthFull), flag(c.cfg.Whitelist == "table"), c.salt[:])
}

func (c *Controller) setAllowance() error {
	if c.cfg.UnknownRate <= 0 || c.cfg.Program != ProgramEdge {
		return nil
	}
	return c.sw.MeterRates(c.names.in(meterUnknown), float64(c.cfg.UnknownRate), max(c.cfg.UnknownRate/10, 1))
}

func (c *Controller) setGate() error {
	unknown := uint8(unknownMeter)
	switch c.cfg.UnknownRate {
	case 0:
		unknown = unknownNone
	case UnknownAll:
		unknown = unknownAll
	}
	enforce := slices.ContainsFunc(c.cfg.Services, func(s Service) bool { return s.Mode == config.ModeAlways })
	return c.sw.SetDefault(c.names.in(tableGate), c.names.in(actionGate), flag(enforce), flag(c.cfg.OnStaleKeys == config.StaleKeysDrop),
		flag(c.now().Before(c.learnUntil)), u8(unknown), u8(c.cfg.Hops), u8(c.generation), c.bloomKey[:4], c.bloomKey[4:],
		flag(*c.cfg.MACLimit > 0))
}

// Reset sets all counters to zero and forgets flows and sources.
func (c *Controller) Reset() error {
	if err := c.sw.ResetCounters(c.names.in(counterAll)); err != nil {
		return err
	}
	if c.table != nil {
		if err := c.table.forget(); err != nil {
			return err
		}
	}
	if err := c.emptySetup(); err != nil {
		return err
	}
	return c.emptyFilter()
}

// rotate empties the next generation of the filter and makes it the active one, every
// third of the window.
func (c *Controller) rotate() error {
	if !c.cfg.hasFilter() || c.now().Sub(c.rotated) < time.Duration(c.cfg.Window)/3 {
		return nil
	}
	next := (c.generation + 1) % bloomGenerations
	for _, part := range bloomParts {
		if err := c.sw.WriteRange(c.names.in(part), int(next)*bloomWords, int(next+1)*bloomWords, 0); err != nil {
			return err
		}
	}
	c.generation, c.rotated = next, c.now()
	return c.setGate()
}

// age removes idle entries.
func (c *Controller) age() error {
	err := c.macs.homes.age()
	if err == nil && c.table != nil {
		err = c.table.age()
	}
	if err == nil && c.digests != nil {
		err = c.digests.failure()
	}
	return err
}

// Tick performs all periodic work; once a second suffices for every setting.
func (c *Controller) Tick() error {
	learning := c.now().Before(c.learnUntil)
	for _, step := range []func() error{c.readClock, c.loadEpochs, c.rotate, c.age} {
		if err := step(); err != nil {
			return err
		}
	}
	if !learning && !c.learnUntil.IsZero() {
		c.learnUntil = time.Time{}
		return c.setGate()
	}
	return nil
}
