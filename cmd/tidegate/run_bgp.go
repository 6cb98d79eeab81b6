// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/netip"
	"time"

	"tidegate/internal/api"
	"tidegate/internal/event"
	"tidegate/internal/instance"
	"tidegate/internal/routers"
	"tidegate/internal/routers/announcer"
	"tidegate/internal/status"
)

// newAnnouncer prepares what is announced to routers. What cannot work is refused at the start.
func (e *events) newAnnouncer(opt *instance.Options) (err error) {
	if len(e.cfg.BGP.Peers) == 0 {
		return nil
	}
	if e.announcer, err = announcer.New(e.cfg, opt.Log); err == nil {
		opt.OnOffence = e.announcer.Offend
	}
	return err
}

// announce keeps routes announced until ctx ends.
func (e *events) announce(ctx context.Context) {
	if e.announcer == nil {
		return
	}
	dir, name := e.opt.StateDir, e.cfg.Instance
	gate := announcer.Gate{
		Able: func() (bool, string, error) {
			st, err := status.Read(e.opt, name)
			if err != nil {
				return false, "", err
			}
			ok, why := st.CanProtect(e.opt.Now())
			return ok, why, nil
		},
		Local:   func() ([]netip.Prefix, error) { return instance.LocalPrefixes() },
		Changed: e.routeChanged,
		Write:   func(s routers.State) error { return instance.WriteRouters(dir, name, s) },
	}
	e.done.Go(func() {
		defer instance.RemoveRouters(dir, name)
		e.announcer.Run(ctx, e.cfg, gate)
	})
}

// routeChanged makes an event of a route.
func (e *events) routeChanged(announced bool, a routers.Announcement, why string) {
	kind, message := event.Withdrawn, "routers are no longer asked to discard: "
	if announced {
		kind, message = event.Announced, "routers are asked to discard: "
	}
	e.stream.Emit(kind, message+a.Route.String(), map[string]string{"route": string(a.Kind), "prefix": a.Prefix.String(), "why": why,
		"until": a.Until.UTC().Format(time.RFC3339)})
}

// Routers is what announces to routers.
func (e *events) Routers() api.Routers {
	if e.announcer == nil {
		return nil
	}
	return e.announcer
}
