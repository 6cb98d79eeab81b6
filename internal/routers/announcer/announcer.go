// SPDX-License-Identifier: Apache-2.0

// Package announcer keeps what this gate announces to routers: it asks whether the gate can protect, takes proven offenders and what
// is announced by hand, and orders the speaker. internal/routers decides; this package has the clock. It must not know a role.
package announcer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/routers"
	"tidegate/internal/routers/speaker"
)

// Gate is what the announcer asks and tells the running instance.
type Gate struct {
	// Able says whether the gate can protect, and if not, why. An error means that it is not known.
	Able func() (ok bool, why string, err error)
	// Local are this machine's own addresses: never announced as sources.
	Local func() ([]netip.Prefix, error)
	// Changed is called after a route of a source or destination was announced or withdrawn.
	Changed func(announced bool, a routers.Announcement, why string)
	// Write stores the state for `status`.
	Write func(routers.State) error
}

const (
	every = speaker.OrderEvery
	// unknownTime: a gate that cannot be read for this long counts as unable. Under a flood a reading may fail once, and
	// that must not move its clients.
	unknownTime = 10 * time.Second

	noExport = 0xffffff01 // RFC 1997

	passwordMax = 80 // TCP_MD5SIG_MAXKEYLEN
)

// Announcer is one.
type Announcer struct {
	cfg     *config.BGP
	gate    Gate
	log     *slog.Logger
	speaker *speaker.Speaker
	poke    chan struct{}

	mu       sync.Mutex
	table    *routers.Table
	presence routers.Presence
	state    routers.State
	able     bool
	unknown  time.Time // since when it is not known whether the gate is able; zero: it is known
}

// New refuses what cannot work: without the program, or with a password that cannot be read.
func New(c *config.Config, log *slog.Logger) (*Announcer, error) {
	b := &c.BGP
	s := speaker.Settings{AS: b.AS, RouterID: b.RouterID, HoldTime: int(b.HoldTime / time.Second)}
	for i := range b.Peers {
		p := &b.Peers[i]
		password, err := readPassword(p.Password)
		if err != nil {
			return nil, err
		}
		s.Peers = append(s.Peers, speaker.Peer{Address: p.Address, Port: p.Port, AS: p.AS, Local: p.Local, Password: password, Hops: p.Hops, GTSM: p.GTSM, Flow: p.Flow})
	}
	sp, err := speaker.New(s, log)
	if err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	return &Announcer{cfg: b, log: log, speaker: sp, poke: make(chan struct{}, 1), presence: routers.Presence{Settle: b.Settle},
		table: routers.NewTable(rules(c, nil), routers.Limits{Max: b.Max, Expires: b.Expires, PerMinute: b.PerMinute})}, nil
}

func readPassword(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := keys.ReadPrivate(path, passwordMax+1, "an editor")
	if err != nil {
		return "", fmt.Errorf("bgp_peers.password_file: %w", err)
	}
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	if len(text) == 0 || len(text) > passwordMax {
		return "", fmt.Errorf("bgp_peers.password_file: %s must hold 1 to %d characters on one line", path, passwordMax)
	}
	return string(text), nil
}

// rules are those of a configuration and this machine.
func rules(c *config.Config, local []netip.Prefix) routers.Rules {
	b := &c.BGP
	r := routers.Rules{Own: b.Own, Here: slices.Clone(local), Never: b.Never, Routed: []netip.Prefix{single(b.NextHop4), single(b.NextHop6)}}
	for i := range c.Services {
		for _, p := range c.Services[i].Prefixes {
			if p.Bits() > 0 { // of a service at any address
				r.Here = append(r.Here, p)
			}
		}
	}
	for i := range b.Peers {
		r.Routed = append(r.Routed, single(b.Peers[i].Address))
	}
	return r
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Run keeps everything until ctx ends; then the sessions end, and with them all routes.
func (a *Announcer) Run(ctx context.Context, c *config.Config, gate Gate) {
	a.gate = gate
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.speaker.Run(ctx)
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		a.step(c, time.Now())
		select {
		case <-ctx.Done():
			<-done
			return
		case <-tick.C:
		case <-a.poke:
		case <-a.speaker.Told():
			a.refresh()
		}
	}
}

// step does all that is due.
func (a *Announcer) step(c *config.Config, now time.Time) {
	ok, why, err := a.gate.Able()
	local, errLocal := a.gate.Local()
	a.mu.Lock()
	defer a.mu.Unlock()
	if errLocal == nil { // else those of before hold
		a.table.SetRules(rules(c, local))
	}
	ok, why = a.judge(ok, why, err, now)
	for _, e := range a.table.Expire(now) {
		a.changed(false, e, "expired")
	}
	for _, e := range a.table.Recheck(now) {
		a.changed(false, e, "the addresses of this machine have changed")
	}
	var service []netip.Prefix
	if len(a.cfg.ServicePrefixes) > 0 {
		before := a.state.Service != nil && a.state.Service.Announced
		announced := a.presence.Step(ok, now)
		if announced {
			service, why = a.cfg.ServicePrefixes, ""
		} else if ok {
			why = "it has been able to protect for too short a time"
		}
		if announced != before {
			a.log.Info("prefixes of services", "announced", announced, "prefixes", a.cfg.ServicePrefixes, "why", why)
		}
		a.state.Service = &routers.ServiceState{Prefixes: a.cfg.ServicePrefixes, Announced: announced, Why: why}
	}
	a.speaker.Announce(a.paths(service))
	a.write()
}

// judge holds on to the last answer for a while if there is none.
func (a *Announcer) judge(ok bool, why string, err error, now time.Time) (bool, string) {
	if err == nil {
		a.able, a.unknown = ok, time.Time{}
		return ok, why
	}
	if a.unknown.IsZero() {
		a.unknown = now
	}
	if now.Sub(a.unknown) >= unknownTime {
		a.able = false
	}
	return a.able, "it cannot be read: " + err.Error()
}

// refresh takes over what the speaker has reported.
func (a *Announcer) refresh() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.write()
}

// write stores the state; the caller has the lock.
func (a *Announcer) write() {
	report, running := a.speaker.Report()
	a.state.Running, a.state.Error, a.state.Sessions = running, report.Error, report.Peers
	if len(a.state.Sessions) == 0 { // the program has not spoken yet, or has ended
		a.state.Sessions = nil
		for i := range a.cfg.Peers {
			a.state.Sessions = append(a.state.Sessions, routers.Session{Address: a.cfg.Peers[i].Address, AS: a.cfg.Peers[i].AS, State: "idle"})
		}
	}
	a.state.Routes, a.state.Refused, a.state.Spared = a.table.List(), a.table.Refused, a.table.Spared
	if err := a.gate.Write(a.state); err != nil {
		a.log.Debug("the state of BGP cannot be written", "error", err)
	}
}

func (a *Announcer) changed(announced bool, e routers.Announcement, why string) {
	a.log.Info("route", "announced", announced, "route", e.Route, "until", e.Until, "why", why)
	a.gate.Changed(announced, e, why)
}

// paths are what the speaker announces now.
func (a *Announcer) paths(service []netip.Prefix) (list []speaker.Path) {
	communities := append(slices.Clone(a.cfg.Communities), noExport)
	taken := map[netip.Prefix]bool{} // by routes that discard
	for _, r := range a.table.List() {
		p := speaker.Path{Prefix: r.Prefix, To: r.To, Flow: r.Kind == routers.Flow, Communities: communities}
		if p.Flow {
			p.Communities = []uint32{noExport}
		} else {
			p.NextHop, taken[r.Prefix] = a.cfg.NextHop6, true
			if r.Prefix.Addr().Is4() {
				p.NextHop = a.cfg.NextHop4
			}
		}
		list = append(list, p)
	}
	for _, p := range service {
		if !taken[p] {
			list = append(list, speaker.Path{Prefix: p})
		}
	}
	return list
}

// Offend takes sources that handshakes have proven and that exceed their rate.
func (a *Announcer) Offend(list []routers.Offence) {
	kind := map[config.BGPOffenders]routers.Kind{config.OffendersSource: routers.Source, config.OffendersFlow: routers.Flow}[a.cfg.Offenders]
	if kind == "" || len(list) == 0 {
		return
	}
	// Where there is no place for all, the worst come first.
	slices.SortFunc(list, func(a, b routers.Offence) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range list {
		if e, fresh := a.table.Offend(kind, o, now); fresh {
			a.changed(true, e, e.Why)
		}
	}
	a.wake()
}

func (a *Announcer) wake() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// Announce announces by hand. Without an end, the configuration's time holds.
func (a *Announcer) Announce(r routers.Route, until time.Time, why string) (routers.Announcement, error) {
	now := time.Now()
	if until.IsZero() {
		until = now.Add(a.cfg.Expires)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Kind == routers.Flow && !slices.ContainsFunc(a.cfg.Peers, func(p config.BGPPeer) bool { return p.Flow && p.Address.Is4() == r.Prefix.Addr().Is4() }) {
		return routers.Announcement{}, errors.New("no peer of this family takes FlowSpec; set `flowspec: yes` at one of bgp_peers")
	}
	e, err := a.table.Announce(r, until, why, now)
	if err != nil {
		return e, err
	}
	a.changed(true, e, "by hand: "+why)
	a.wake()
	return e, nil
}

// Withdraw ends an announcement, whoever made it.
func (a *Announcer) Withdraw(r routers.Route) (routers.Announcement, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, there := a.table.Withdraw(r, time.Now())
	if !there {
		return e, fmt.Errorf("%s is not announced; `tidegate bgp list` shows what is", r)
	}
	a.changed(false, e, "by hand")
	a.wake()
	return e, nil
}

// State is how everything is.
func (a *Announcer) State() routers.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.state
	s.Routes = a.table.List()
	return s
}
