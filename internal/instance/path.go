// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/keys"
	"tidegate/internal/plane"
)

// Path is the packet path of an edge or a proxy in the kernel.
type Path struct {
	Plane interface {
		Attached
		Attach(plane.AttachOptions) (map[string]plane.XDPMode, error)
		Rejoin(now time.Time) (missed, back []string, err error)
		Close()
	}
	Maps       *plane.Plane
	Forwarding func() config.Forwarding
	Fill       func() error // writes settings, keys and services before anything is attached
	Write      func() error // updates the maps to the configuration's services
	State      func() State
}

// Install puts a loaded packet path in force. If it fails, everything is as it was before, and
// the packet path is closed.
func (b *Instance) Install(p Path) (err error) {
	defer func() {
		if err != nil {
			p.Plane.Close()
		}
	}()
	TellLost(b.Log, p.Maps.Lost)
	lists, err := ReadLists(b.Opt.StateDir, b.Cfg, b.Opt.Now())
	if err != nil {
		return err
	}
	if err := p.Fill(); err != nil {
		return err
	}
	if err := b.useLists(lists, p); err != nil {
		return err
	}
	if b.Modes, err = p.Plane.Attach(b.AttachOptions()); err != nil {
		return err
	}
	if err = b.ConfigureForwarding(p.Forwarding()); err == nil {
		err = Settle(b.Opt, p.State(), b.Log, p.Plane)
	}
	if err != nil {
		err = errors.Join(err, b.UndoForwarding())
	}
	return err
}

// AssignServices numbers the services and prepares the detector for them.
func (b *Instance) AssignServices() {
	b.Numbers.Assign(b.Cfg.Services)
	b.Automatic = NewAutomatic(b.Opt, b.Cfg)
	b.Automatic.Assign(b.Cfg, b.Numbers.ID)
}

// Housekeep is what the packet path of an edge or a proxy needs each second.
func (b *Instance) Housekeep(p Path) error {
	return errors.Join(p.Maps.SetSettings(&b.Settings), b.expireLists(p), b.watchLocal(p), Rejoin(b.Log, p.Plane), p.Maps.FollowMembers())
}

// watchLocal rewrites the services if this machine's own addresses, which are exempt from
// them, have changed.
func (b *Instance) watchLocal(p Path) error {
	if moved, err := b.LocalAddrsChanged(p.Forwarding()); err != nil || !moved {
		return err
	}
	return p.Write()
}

// ReloadPath applies a changed configuration to a packet path, completely or not at all.
func (b *Instance) ReloadPath(p Path, secret *keys.Roll, loader *keys.Loader, load func() error) error {
	return b.Reload(Reloading{Secret: secret, Keys: loader, Load: load,
		State: func() error { return WriteState(b.Opt.StateDir, p.State()) },
		Lists: func(next Lists) error { return b.useLists(next, p) },
		Write: func(removed []uint32) error {
			b.Automatic.Assign(b.Cfg, b.Numbers.ID)
			return errors.Join(p.Write(), plane.ClearCounters(p.Maps.Map("tg_counters"), removed...))
		}})
}
