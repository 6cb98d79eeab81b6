// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/detect"
	"tidegate/internal/plane"
	"tidegate/internal/schema"
)

const (
	detectEvery = 100 * time.Millisecond
	topPrefixes = 8
	// changedEvery is the minimum time between two reports that an attack has changed, and changedBy the factor of its rate.
	changedEvery = 10 * time.Second
	changedBy    = 2.0
	// fastAbove is the rate of uncompleted SYNs above which the whole service is protected, whichever of its addresses
	// are attacked: the packet path answers faster when it need not look up the address.
	fastAbove = 50_000.0
)

// automatic is one service in mode auto.
type automatic struct {
	id           uint32
	strategy     string
	detect       *detect.Service
	own          detect.Decision // by what is seen here
	decision     detect.Decision
	shared       *detect.Shared // nil: this node tells the fleet nothing and hears nothing
	warning      detect.Warning
	always       string    // why it is always answered nevertheless; empty: it is not
	drain        time.Time // until then, ACKs are checked for cookies
	counted      bool      // before holds counts
	before       [schema.NumCounters]uint64
	attack       Attack
	start        [schema.NumCounters]uint64 // when the attack began
	reportedAt   time.Time
	reportedRate float64
}

// Automatic decides for the services in mode auto, and for those that have just left it, or `always`, how long cookies are still
// checked. It belongs to one goroutine, the role's.
type Automatic struct {
	log       *slog.Logger
	detection *Detection
	path      string
	life      time.Duration // of a cookie
	params    detect.Params
	calm      time.Duration // Options.Calm
	verify    bool          // cookies arrive at any time: another gate answers SYNs
	share     config.Sharing
	quorum    int
	services  map[string]*automatic
	drains    drains
	heir      bool // at the start, an earlier process's packet path was in force
	places    map[int]plane.Place
	left      map[int]bool // places that are answered for, whose service has left mode auto
	last      time.Time
	tick      *time.Ticker
	badRead   bool
}

// NewAutomatic continues from what a previous process left in the directory of the state file.
func NewAutomatic(opt Options, cfg *config.Config) *Automatic {
	a := &Automatic{log: opt.Log, detection: opt.Detection, path: filepath.Join(opt.StateDir, cfg.Instance+".attacks"), life: 2*cfg.Epoch + time.Second,
		verify: cfg.Role == config.RoleServer, heir: plane.FindInstalled(opt.BPFFS, cfg.Instance) != nil, services: map[string]*automatic{}, places: map[int]plane.Place{}, left: map[int]bool{}}
	if cfg.FourEpochs() {
		a.life += 2 * cfg.Epoch
	}
	if a.share, a.quorum = config.ShareOff, cfg.Fleet.Quorum; len(cfg.Fleet.Servers) > 0 {
		a.share = cfg.Fleet.Share
	}
	a.calm = opt.Calm
	a.params = a.paramsOf(cfg)
	if a.detection == nil {
		a.detection = &Detection{}
	}
	return a
}

// paramsOf are the detector's parameters under a configuration.
func (a *Automatic) paramsOf(cfg *config.Config) detect.Params {
	p, d := detect.Default(), cfg.Detector
	if d.Sensitivity != "" { // a configuration that was read has all of them
		p.A, p.N = p.A*d.Sensitivity.Evidence(), p.N*d.Sensitivity.Evidence()
		p.Hard, p.KMin, p.Calm = float64(d.Hard), float64(d.IdleRate), d.Calm
		p.CalmMax = max(p.CalmMax, p.Calm)
	}
	if a.calm > 0 {
		p.Calm, p.CalmMax = a.calm, a.calm
	}
	return p
}

// Assign sets the services of a configuration, and how attacks on them are detected.
func (a *Automatic) Assign(cfg *config.Config, id func(string) uint32) {
	services, params := cfg.Services, a.paramsOf(cfg)
	if params != a.params {
		a.params = params
		for _, s := range a.services {
			s.detect.SetParams(params)
			if s.shared != nil {
				s.shared.SetParams(params)
			}
		}
	}
	on := a.read()
	before := a.services
	a.services = map[string]*automatic{}
	for i := range services {
		svc := &services[i]
		if svc.Mode != config.ModeAuto {
			continue
		}
		s := before[svc.Name]
		if s == nil {
			// Its SYNs may have been answered until now, in another mode or by a previous process.
			s = &automatic{detect: detect.NewService(a.params), drain: time.Now().Add(a.life)}
			if a.share != config.ShareOff {
				s.shared = detect.NewShared(a.params, fleetClaimLives, a.quorum)
			}
			if began, there := on[svc.Name]; there { // by a previous process
				s.decision = detect.Decision{All: true}
				s.detect.Resume(s.decision)
				s.attack = Attack{Service: svc.Name, All: true, Began: began}
				s.reportedAt = time.Now()
			}
		}
		s.id, s.strategy = id(svc.Name), string(svc.Strategy)
		if s.strategy == "" {
			s.strategy = string(config.StrategyCookie)
		}
		a.services[svc.Name] = s
	}
	for name, s := range before {
		if a.services[name] != s {
			for _, at := range s.decision.Prefixes {
				a.left[at] = true
			}
		}
	}
	if !a.verify { // else ACKs are checked in every mode, for ever
		a.drains.assign(services, id, a.heir, time.Now().Add(a.life))
	}
	a.setTick()
	a.publish()
}

// setTick has Step called if there is anything to do.
func (a *Automatic) setTick() {
	needed := len(a.services)+len(a.drains.until) > 0
	switch {
	case !needed && a.tick != nil:
		a.tick.Stop()
		a.tick = nil
	case needed && a.tick == nil:
		a.tick = time.NewTicker(detectEvery)
	}
}

// Tick has a value when Step is due; nil while nothing is.
func (a *Automatic) Tick() <-chan time.Time {
	if a == nil || a.tick == nil {
		return nil
	}
	return a.tick.C
}

// Apply sets a service's entry to the detector's decision. `always` is why its handshakes cannot be counted; then its SYNs are
// always answered. It is empty for others.
func (a *Automatic) Apply(name string, e *plane.Service, always string) {
	if a == nil {
		return
	}
	s := a.services[name]
	if s == nil {
		if a.drains.verifies(name, time.Now()) {
			e.Verify = 1
		}
		return
	}
	s.always = always
	e.Automatic, e.Mode = 1, plane.ModeAuto
	if s.decision.All || always != "" {
		e.Mode = plane.ModeAlways
	}
	e.Verify = Flag(a.verify || s.decision.On() || time.Now().Before(s.drain))
}

// Counting is a packet path that counts for the detector, and answers by its decision.
type Counting interface {
	Places() ([]plane.Place, error) // those with hits
	ReadCounters(service uint32) ([schema.NumCounters]uint64, error)
	Service(id uint32) (plane.Service, error)
	SetService(id uint32, entry plane.Service) error
	AnswerPlace(at int, on bool) error
	Enforce() error // ends a change of services and places
}

// InKernel is the packet path of XDP, whose settings are rewritten after a change.
func InKernel(p *plane.Plane, settings *plane.Settings) Counting { return inKernel{p, settings} }

type inKernel struct {
	*plane.Plane
	settings *plane.Settings
}

func (k inKernel) Enforce() error {
	k.SetEnforce(k.settings)
	return k.SetSettings(k.settings)
}

// Step reads the counts, decides, and updates the packet path.
func (a *Automatic) Step(p Counting) error {
	now := time.Now() // with its monotonic reading: the wall clock may step
	elapsed := now.Sub(a.last)
	if a.last.IsZero() {
		elapsed = detectEvery
	}
	if elapsed < detectEvery/4 {
		return nil // several ticks passed without SYNs
	}
	a.last = now
	err := a.step(p, now, elapsed)
	if bad := err != nil; bad != a.badRead { // logged once, not ten times a second
		if a.badRead = bad; bad {
			return fmt.Errorf("mode auto: the packet path could not be updated, and answers as before: %w", err)
		}
	}
	return nil
}

func (a *Automatic) step(p Counting, now time.Time, elapsed time.Duration) error {
	places, err := p.Places()
	if err != nil {
		return err
	}
	hits := map[uint32]map[int]detect.Counts{}
	for _, at := range places {
		was := a.places[at.At]
		a.places[at.At] = at
		if hits[at.Service] == nil {
			hits[at.Service] = map[int]detect.Counts{}
		}
		hits[at.Service][at.At] = detect.Counts{SYNs: sub(at.SYNs, was.SYNs), Done: sub(at.Handshakes, was.Handshakes)}
	}
	a.hear()
	changed, err := a.leave(p)
	if err != nil {
		return err
	}
	drained, err := a.drains.end(p, now)
	if err != nil {
		return err
	}
	changed = changed || drained
	for _, name := range slices.Sorted(maps.Keys(a.services)) {
		s := a.services[name]
		row, err := p.ReadCounters(s.id)
		if err != nil {
			return err
		}
		if !s.counted {
			s.counted, s.before, s.start = true, row, row
			continue
		}
		c := detect.Counts{SYNs: sub(row[schema.CounterDetectSyn], s.before[schema.CounterDetectSyn]), Done: sub(row[schema.CounterHandshake], s.before[schema.CounterHandshake])}
		if s.decision.All { // the fast path counts only these
			c.SYNs = sub(row[schema.CounterSyn], s.before[schema.CounterSyn])
		}
		s.before = row
		s.own = s.detect.Step(c, hits[s.id], elapsed)
		d := a.withFleet(s, s.own, elapsed)
		if d.On() && s.detect.Read().Missing > fastAbove {
			d.All = true
		}
		if d.On() && s.decision.All && (s.detect.Read().On || s.warning.All) {
			d.All = true // back to single addresses only after a calm: their counts are outdated
		}
		wrote, err := a.bring(p, s, name, d, now)
		if err != nil {
			return err
		}
		changed = changed || wrote
		a.tell(name, s, row, now)
	}
	if changed {
		if err := p.Enforce(); err != nil {
			return err
		}
		a.write()
	}
	a.setTick()
	a.publish()
	return nil
}

// leave ends answering for places whose service has left mode auto.
func (a *Automatic) leave(p Counting) (wrote bool, err error) {
	for at := range a.left {
		if !a.others("", at) {
			if err := p.AnswerPlace(at, false); err != nil {
				return wrote, err
			}
			wrote = true
		}
		delete(a.left, at)
	}
	return wrote, nil
}

// sub returns the increase; counters that were cleared start over.
func sub(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// bring makes the packet path answer what d says: it writes places before the service's entry when more is answered, after it when
// less is.
func (a *Automatic) bring(p Counting, s *automatic, name string, d detect.Decision, now time.Time) (wrote bool, err error) {
	drained := !s.drain.IsZero() && now.After(s.drain)
	if d.Equal(s.decision) && !drained {
		return false, nil
	}
	old := s.decision
	if old.On() && !d.On() {
		s.drain = now.Add(a.life)
	} else if drained {
		s.drain = time.Time{}
	}
	s.decision = d
	e, err := p.Service(s.id)
	if err != nil {
		return false, err
	}
	a.Apply(name, &e, s.always)
	if err := p.SetService(s.id, e); err != nil { // it verifies before the first cookie is sent, and for a while after the last
		return false, err
	}
	for _, at := range d.Prefixes {
		if !slices.Contains(old.Prefixes, at) {
			if err := p.AnswerPlace(at, true); err != nil {
				return false, err
			}
		}
	}
	for _, at := range old.Prefixes {
		if !slices.Contains(d.Prefixes, at) && !a.others(name, at) {
			if err := p.AnswerPlace(at, false); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// others reports whether a place is also answered for another service.
func (a *Automatic) others(name string, at int) bool {
	for n, s := range a.services {
		if n != name && slices.Contains(s.decision.Prefixes, at) {
			return true
		}
	}
	return false
}
