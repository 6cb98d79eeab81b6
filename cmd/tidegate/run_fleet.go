// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/detect"
	"tidegate/internal/dpdk"
	"tidegate/internal/event"
	"tidegate/internal/fleet"
	"tidegate/internal/instance"
	"tidegate/internal/keys"
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
	return m
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

// Applied is the revision that is in force.
func (g fleetGate) Applied() uint64 {
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
	if err := instance.WriteFleet(dir, name, instance.FleetState{Revision: revision, Modes: d.Modes, Allow: d.Allow, Deny: d.Deny, Limits: d.Limits, Offers: d.Offers}); err != nil {
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
