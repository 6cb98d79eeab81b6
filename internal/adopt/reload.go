// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"errors"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// reload applies a changed configuration, whole or not at all. What the packet
// path was attached with needs a restart, which loses nothing either: a new process takes the links over.
func (g *gate) reload() error {
	if g.trial != nil {
		return errTrialReload
	}
	cfg, err := g.opt.Load()
	if err != nil {
		return err
	}
	if err := config.CheckReload(g.cfg, cfg, ""); err != nil {
		return err
	}
	commit, drop, err := instance.PrepareSecrets(g.secret, &g.keys, cfg, g.opt.Now())
	if err != nil {
		return err
	}
	next, err := instance.ReadLists(g.opt.StateDir, cfg, g.opt.Now())
	if err != nil {
		drop()
		return err
	}
	removed := g.services.assign(cfg.Services)
	g.assignAutomatic(cfg)
	old := g.cfg
	g.cfg = cfg
	g.setPolicy(cfg)
	err = instance.SetReport(cfg, &g.settings)
	g.watchSystem()
	g.watchListeners()
	g.watchLocal()
	if err := errors.Join(err, g.applyServices(cfg)); err != nil {
		g.cfg = old
		g.setPolicy(old)
		err = errors.Join(err, instance.SetReport(old, &g.settings))
		g.services.assign(old.Services)
		g.assignAutomatic(old)
		drop()
		return errors.Join(err, g.applyServices(old))
	}
	commit()
	if err := g.useLists(next); err != nil {
		return err
	}
	if old.SourceLimits != cfg.SourceLimits {
		if err := g.recount(time.Now(), true); err != nil {
			return err
		}
	}
	if err := g.loadKeys(); err != nil {
		return err
	}
	for _, id := range removed {
		if err := plane.ClearCounters(g.plane.Map("tg_counters"), id); err != nil {
			return err
		}
	}
	if err := g.writeState(); err != nil { // before anybody hears of it
		return err
	}
	g.log.Info("reloaded", "services", len(cfg.Services))
	return nil
}

// assignAutomatic passes the current services to the detectors.
func (g *gate) assignAutomatic(cfg *config.Config) {
	if g.services.automatic != nil {
		g.services.automatic.Assign(cfg, g.services.ID)
	}
}
