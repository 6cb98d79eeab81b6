package p4

import (
	"context"
	"crypto/rand"
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

// Names in the compiled programs; the control that an object stands in comes first.
const (
	tableGate    = "EdgeIngress.settings.gate"
	actionGate   = "EdgeIngress.settings.set_gate"
	tableInside  = "EdgeIngress.settings.inside_ports"
	actionInside = "EdgeIngress.settings.set_inside"
	tableEpochs  = "EdgeIngress.settings.epochs"
	actionKeys   = "EdgeIngress.settings.set_keys"
	tableV4      = "EdgeIngress.services.services_v4"
	tableV6      = "EdgeIngress.services.services_v6"
	actionServe  = "EdgeIngress.services.set_service"
	tableMACs    = "EdgeIngress.forward.macs"
	actionToPort = "EdgeIngress.forward.to_port"
	counterAll   = "EdgeIngress.counts"
	tablePortMAC = "EdgeEgress.addresses.port_macs"
	actionMACs   = "EdgeEgress.addresses.rewrite"
	meterUnknown = "EdgeIngress.allowance"
	floodGroup   = 1
)

// Registers of the filter's partitions.
var bloomParts = []string{"EdgeIngress.bloom.part0", "EdgeIngress.bloom.part1", "EdgeIngress.bloom.part2"}

// What becomes of unknown packets; p4/v1model/types.p4.
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

// clockSlack is by how much the two clocks may seem to have moved before the epochs
// are laid out anew; a call to the switch takes about a tenth of it.
const clockSlack = 5 * time.Millisecond

// Options are what a controller needs besides its configuration.
type Options struct {
	Log *slog.Logger
	Now func() time.Time // the clock; time.Now if nil
}

// Controller keeps one switch's tables.
type Controller struct {
	cfg    *Config
	secret *keys.Secret
	sw     *simpleswitch.Client
	log    *slog.Logger
	now    func() time.Time

	zero       time.Time          // the wall clock when the switch's was zero
	epochs     map[uint64][]int32 // entries by epoch
	bloomKey   [8]byte
	generation uint8
	rotated    time.Time
	learnUntil time.Time
	ports      map[string]int
}

// NewController connects to the switch and tells it everything. The secret stays the
// caller's, who zeroes it.
func NewController(ctx context.Context, cfg *Config, secret *keys.Secret, opt Options) (*Controller, error) {
	c := &Controller{cfg: cfg, secret: secret, log: opt.Log, now: opt.Now, epochs: map[uint64][]int32{}}
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
	if err := c.begin(); err != nil {
		return nil, errors.Join(err, c.sw.Close())
	}
	return c, nil
}

// begin forgets what an earlier controller said, opens the gate last.
func (c *Controller) begin() error {
	if _, err := rand.Read(c.bloomKey[:]); err != nil {
		return err
	}
	if err := c.Open(); err != nil {
		return err
	}
	for _, t := range []string{tableInside, tableEpochs, tableV4, tableV6, tableMACs, tablePortMAC} {
		if err := c.sw.Clear(t); err != nil {
			return err
		}
	}
	steps := []func() error{c.layPorts, c.layServices, c.emptyFilter, c.readClock, c.loadEpochs, c.setAllowance}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	c.rotated = c.now()
	c.learnUntil = c.rotated.Add(time.Duration(*c.cfg.Learn))
	return c.setGate()
}

// Open makes the switch forward everything, as if it had been told nothing.
func (c *Controller) Open() error { return c.sw.SetDefault(tableGate, "NoAction") }

// Close ends the connection; the switch goes on until its keys end.
func (c *Controller) Close() error { return c.sw.Close() }

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
	for _, name := range c.cfg.Inside {
		n, err := c.port(name)
		if err == nil {
			_, err = c.sw.Add(tableInside, []any{simpleswitch.Exact(u16(uint16(n)))}, actionInside)
		}
		if err != nil {
			return err
		}
	}
	for text, name := range c.cfg.MACs {
		mac, err := net.ParseMAC(text)
		if err != nil {
			return err
		}
		n, err := c.port(name)
		if err == nil {
			_, err = c.sw.Add(tableMACs, []any{simpleswitch.Exact(mac)}, actionToPort, u16(uint16(n)))
		}
		if err != nil {
			return err
		}
	}
	for name, macs := range c.cfg.PortMACs {
		src, errSrc := net.ParseMAC(macs.Src)
		dst, errDst := net.ParseMAC(macs.Dst)
		n, err := c.port(name)
		if err = errors.Join(err, errSrc, errDst); err == nil {
			_, err = c.sw.Add(tablePortMAC, []any{simpleswitch.Exact(u16(uint16(n)))}, actionMACs, src, dst)
		}
		if err != nil {
			return err
		}
	}
	return c.sw.SetMulticastGroup(floodGroup, all)
}

// modes are the numbers of enum tg_mode.
var modes = map[config.Mode]uint8{config.ModeOff: 0, config.ModeMonitor: 1, config.ModeAlways: 2}

func (c *Controller) layServices() error {
	for _, s := range c.cfg.Services {
		params := [][]byte{u8(s.ID), u8(modes[s.Mode]), u16(s.MSSv4), u16(s.MSSv6), u16(s.Window), u8(*s.WScale)}
		for _, prefix := range s.Prefixes {
			table := tableV4
			if prefix.Addr().Is6() {
				table = tableV6
			}
			for _, port := range s.Ports {
				keys := []any{simpleswitch.Exact(u16(port)), simpleswitch.LPM{Key: prefix.Addr().AsSlice(), Len: prefix.Bits()}}
				if _, err := c.sw.Add(table, keys, actionServe, params...); err != nil {
					return fmt.Errorf("service %s: %w", s.Name, err)
				}
			}
		}
	}
	return nil
}

func (c *Controller) emptyFilter() error {
	for _, part := range bloomParts {
		if err := c.sw.WriteRange(part, 0, bloomGenerations*bloomWords, 0); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) setAllowance() error {
	if c.cfg.UnknownRate <= 0 {
		return nil
	}
	return c.sw.MeterRates(meterUnknown, float64(c.cfg.UnknownRate), max(c.cfg.UnknownRate/10, 1))
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
	return c.sw.SetDefault(tableGate, actionGate, flag(enforce), flag(c.cfg.OnStaleKeys == config.StaleKeysDrop),
		flag(c.now().Before(c.learnUntil)), u8(unknown), u8(c.cfg.Hops), u8(c.generation), c.bloomKey[:4], c.bloomKey[4:])
}

// readClock finds out when the switch's clock was zero.
func (c *Controller) readClock() error {
	before := c.now()
	elapsed, err := c.sw.Elapsed()
	if err != nil {
		return err
	}
	took := c.now().Sub(before)
	zero := before.Add(took / 2).Add(-elapsed)
	if moved := zero.Sub(c.zero).Abs(); took > clockSlack || moved <= clockSlack {
		if !c.zero.IsZero() {
			return nil
		}
	} else if !c.zero.IsZero() {
		c.log.Warn("the clocks have moved apart; the epochs are laid out anew", "by", moved)
		if err := c.forgetEpochs(func(uint64) bool { return true }); err != nil {
			return err
		}
	}
	c.zero = zero
	return nil
}

// forgetEpochs removes the entries of some epochs.
func (c *Controller) forgetEpochs(which func(n uint64) bool) error {
	for n, handles := range c.epochs {
		if !which(n) {
			continue
		}
		for _, h := range handles {
			if err := c.sw.Delete(tableEpochs, h); err != nil {
				return err
			}
		}
		delete(c.epochs, n)
	}
	return nil
}

// loadEpochs loads the keys of all epochs from the present to the horizon, and
// removes those that are over.
func (c *Controller) loadEpochs() error {
	length := time.Duration(c.cfg.Epoch)
	now := c.now()
	present := keys.Epoch(now, length)
	last := keys.Epoch(now.Add(time.Duration(c.cfg.KeyHorizon)), length)
	for n := present; n <= last; n++ {
		if _, have := c.epochs[n]; have {
			continue
		}
		key, before := smartKey(c.secret, n), smartKey(c.secret, n-1)
		first := tickOf(keys.EpochStart(n, length).Sub(c.zero))
		end := tickOf(keys.EpochStart(n+1, length).Sub(c.zero))
		var handles []int32
		for _, p := range prefixes(first, end) {
			h, err := c.sw.Add(tableEpochs, []any{p}, actionKeys, u8(uint8(n&1)), key[0], key[1], before[0], before[1])
			if err != nil {
				return fmt.Errorf("key of epoch %d: %w", n, err)
			}
			handles = append(handles, h)
		}
		c.epochs[n] = handles
	}
	// One epoch longer than it lasts: a switch that is behind still has packets of it.
	return c.forgetEpochs(func(n uint64) bool { return n+1 < present })
}

// ForgetKeys leaves the switch as it is when its controller has been away for the
// horizon: without a key, which on_stale_keys judges.
func (c *Controller) ForgetKeys() error {
	return c.forgetEpochs(func(uint64) bool { return true })
}

// Reset sets all counters to zero and empties the filter.
func (c *Controller) Reset() error {
	if err := c.sw.ResetCounters(counterAll); err != nil {
		return err
	}
	return c.emptyFilter()
}

// rotate empties the next generation of the filter and makes it the active one, when
// a third of the window is over.
func (c *Controller) rotate() error {
	if c.now().Sub(c.rotated) < time.Duration(c.cfg.Window)/3 {
		return nil
	}
	next := (c.generation + 1) % bloomGenerations
	for _, part := range bloomParts {
		if err := c.sw.WriteRange(part, int(next)*bloomWords, int(next+1)*bloomWords, 0); err != nil {
			return err
		}
	}
	c.generation, c.rotated = next, c.now()
	return c.setGate()
}

// Tick does what is due: once a second is often enough for every setting.
func (c *Controller) Tick() error {
	learning := c.now().Before(c.learnUntil)
	for _, step := range []func() error{c.readClock, c.loadEpochs, c.rotate} {
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
