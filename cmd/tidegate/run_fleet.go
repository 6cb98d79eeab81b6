// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/detect"
	"tidegate/internal/dpdk"
	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
	"tidegate/internal/offender"
	"tidegate/internal/plane"
	"tidegate/internal/status"
	"tidegate/internal/version"
)

// fleetGate is the running instance as a node of a fleet.
type fleetGate struct {
	e     *events
	rates *status.OverRates // of sources above their limit, between two reports
}

// newMember is the instance as a node of its fleet; nil if it has none.
func (e *events) newMember() *fleet.Member {
	f := e.cfg.Fleet
	if len(f.Servers) == 0 {
		return nil
	}
	access := fleet.Access{Servers: f.Servers, CA: f.CA, Cert: f.Cert, Key: f.Key, Name: "tidegate node " + f.Node}
	m := fleet.NewMember(access, f.Node, fleetGate{e, &status.OverRates{}}, e.log)
	if f.Share != config.ShareOff {
		m.Share(func() []detect.ServiceClaim { return e.opt.Detection.Claims() }, func(node string, c []detect.ServiceClaim, life time.Duration) { e.opt.Detection.Hear(node, c, life) })
	}
	counted := &offender.Rates{}
	m.WatchSources(f.Quorum, func() (float64, map[netip.Prefix]float64) { return e.countSources(counted) }, (&fleetOffences{e: e}).tell)
	return m
}

// countSources is the limit of a source at all nodes together, and what this one has counted. A plane that does not count has nothing.
func (e *events) countSources(counted *offender.Rates) (limit float64, rates map[netip.Prefix]float64) {
	now := e.Config()
	if now.FleetSources == 0 {
		return 0, nil
	}
	rows, err := e.readProven(now)
	if err != nil {
		e.log.Debug("proven sources cannot be read; the fleet is not told of them", "error", err)
	}
	return float64(now.FleetSources), counted.Look(rows, time.Now())
}

func (e *events) readProven(c *config.Config) ([]plane.Proven, error) {
	if c.Plane == config.PlaneDPDK {
		return dpdk.ReadProven(dpdk.SocketPath(e.opt.StateDir, c.Instance))
	}
	return plane.OpenProven(plane.PinDir(e.opt.BPFFS, c.Instance))
}

const (
	fleetOffencesEvery = 10 * time.Second // between two events
	fleetOffenceEnds   = 5 * time.Minute  // a source is named again when it has been quiet for so long
	fleetOffencesNamed = 8
)

// fleetOffences makes events of sources that are above the fleet's limit.
type fleetOffences struct {
	e    *events
	seen map[netip.Prefix]time.Time // when they last were
	told time.Time
}

// tell names those that were not named lately. What does not become an event now will, if it lasts.
func (f *fleetOffences) tell(limit float64, sources []fleet.FleetSource) {
	now := time.Now()
	maps.DeleteFunc(f.seen, func(_ netip.Prefix, at time.Time) bool { return now.Sub(at) > fleetOffenceEnds })
	var fresh []string
	nodes := map[string]bool{}
	for _, s := range sources {
		if _, named := f.seen[s.Prefix]; named {
			f.seen[s.Prefix] = now
			continue
		}
		if now.Sub(f.told) < fleetOffencesEvery || f.e.Events() == nil {
			continue
		}
		if f.seen == nil {
			f.seen = map[netip.Prefix]time.Time{}
		}
		f.seen[s.Prefix] = now
		fresh = append(fresh, fmt.Sprintf("%s (%.0f/s)", s.Prefix, s.AtLeast))
		for _, n := range s.Nodes {
			nodes[n] = true
		}
	}
	if len(fresh) == 0 {
		return
	}
	f.told = now
	detail := map[string]string{"fleet_limit_per_second": fmt.Sprintf("%.0f", limit), "fleet": strings.Join(slices.Sorted(maps.Keys(nodes)), ", ")}
	if n := len(fresh) - fleetOffencesNamed; n > 0 {
		fresh, detail["more"] = fresh[:fleetOffencesNamed], fmt.Sprint(n)
	}
	detail["sources"] = strings.Join(fresh, ", ")
	f.e.Events().Emit(event.OffenderProven, "sources whose addresses are proven begin more connections with all nodes of the fleet together than fleet_limits allows; the rates are at least those", detail)
}

// join keeps the instance at the desired state of its fleet, if it has one, until ctx ends.
func (e *events) join(ctx context.Context) {
	if e.member != nil {
		e.done.Go(func() { e.member.Run(ctx) })
	}
}

// fleetEvents gives the fleet the instance's events.
type fleetEvents struct{ member *fleet.Member }

// Name is the taker's name.
func (fleetEvents) Name() string { return "fleet" }

// Take stores an event at the fleet's servers.
func (f fleetEvents) Take(ctx context.Context, e event.Event) error {
	body, err := json.Marshal(&e)
	if err != nil {
		return err
	}
	return f.member.Publish(ctx, body)
}

// Applied is the revision that is in force; none, if its services were left out at the start.
func (g fleetGate) Applied() uint64 {
	if g.e.Config().FleetLeftOut != "" {
		return 0
	}
	s, err := instance.ReadFleet(g.e.opt.StateDir, g.e.cfg.Instance)
	if err != nil {
		g.e.log.Error("the fleet's state is read again from its servers", "error", err)
	}
	return s.Revision
}

// Apply writes the state beside the state file, and reloads; if the reload is refused, the former state is restored.
func (g fleetGate) Apply(ctx context.Context, revision uint64, d *fleet.Desired) error {
	dir, name := g.e.opt.StateDir, g.e.cfg.Instance
	before, err := instance.ReadFleet(dir, name)
	if err != nil {
		before = instance.FleetState{} // it is replaced
	}
	if err := instance.WriteFleet(dir, name, instance.FleetState{Revision: revision, Modes: d.Modes, Allow: d.Allow, Deny: d.Deny,
		Limits: d.Limits.With(d.Detector), Offers: d.Offers, Sources: d.Fleet.NewPerSecond, Services: d.Services.For(g.e.cfg.Fleet.Node, d.Groups)}); err != nil {
		return errors.Join(err, instance.WriteFleet(dir, name, before))
	}
	if _, err := g.e.Reload(ctx); err != nil {
		return errors.Join(err, instance.WriteFleet(dir, name, before))
	}
	return nil
}

// Report says how the instance is.
func (g fleetGate) Report(r *fleet.Report) {
	now := g.e.Config()
	r.Version, r.Role, r.Modes = version.Version, now.Role, instance.Modes{}
	r.At = r.At.Add(g.e.opt.Skew) // the clock that its cookies go by
	for i := range now.Services {
		r.Modes[now.Services[i].Name] = now.Services[i].Mode
	}
	for _, c := range g.e.Events().Active() {
		r.Degraded = append(r.Degraded, c.Name)
	}
	for _, d := range g.e.opt.Detection.States() {
		if d.Attack == nil {
			continue
		}
		if r.Attacks == nil {
			r.Attacks = map[string]string{}
		}
		r.Attacks[d.Service] = cmp.Or(strings.Join(d.Attack.Fleet, ", "), "here")
	}
	r.Offers = g.e.opt.Offered.All()
	if now.SourceLimits.On() {
		g.offenders(r)
	}
	if secret, err := keys.LoadSecret(now.SecretFile); err == nil {
		r.Key = secret.Fingerprint()
		secret.Zero()
	}
	if now.NextSecret.File == "" {
		return
	}
	if secret, err := keys.LoadSecret(now.NextSecret.File); err == nil {
		r.NextKey, r.NextFrom = secret.Fingerprint(), now.NextSecret.From
		secret.Zero()
	}
}

// offenders fills in the sources that have exceeded their limit since the last report.
func (g fleetGate) offenders(r *fleet.Report) {
	program := ""
	if g.e.cfg.Plane == config.PlaneDPDK {
		program = dpdk.Prefix(g.e.cfg.Instance)
	}
	all, err := status.ReadOverLimit(plane.PinDir(g.e.opt.BPFFS, g.e.cfg.Instance), program)
	if err != nil {
		g.e.log.Warn("the sources above their limit cannot be read; the fleet is not told of them", "error", err)
		return
	}
	for _, o := range g.rates.Look(all, time.Now(), fleet.MaxOffenders) {
		r.Offenders = append(r.Offenders, fleet.Offender{Prefix: o.Prefix, PerSecond: o.PerSecond})
	}
}
