// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"time"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// drains are the services whose SYNs are not answered any more, while clients may still have their cookies: an ACK that nobody
// checks goes to the server, which resets the connection. Until every such cookie has expired, ACKs are checked. (Services in
// mode auto have their own drain.)
type drains struct {
	passive map[string]bool // by name, of the configuration in force: nothing is answered, whatever happens
	until   map[string]drain
}

// drain is one.
type drain struct {
	id  uint32
	end time.Time
}

// isPassive reports whether a mode never answers a SYN.
func isPassive(mode config.Mode) bool { return mode == config.ModeOff || mode == config.ModeMonitor }

// assign sets the services of a configuration; id has their numbers. `heir` says that the packet path of an earlier process is
// still in force, whose services may have answered; a service that has just been made did not, but may have had another name.
func (d *drains) assign(services []config.Service, id func(string) uint32, heir bool, end time.Time) {
	before := *d
	*d = drains{passive: map[string]bool{}, until: map[string]drain{}}
	for i := range services {
		name := services[i].Name
		if !isPassive(services[i].Mode) {
			continue
		}
		d.passive[name] = true
		old, draining := before.until[name]
		switch {
		case draining:
			d.until[name] = drain{id(name), old.end}
		case before.passive == nil && heir, before.passive != nil && !before.passive[name]:
			d.until[name] = drain{id(name), end}
		}
	}
}

// verifies reports whether ACKs to a service are checked, although its SYNs are not answered.
func (d *drains) verifies(name string, now time.Time) bool {
	return now.Before(d.until[name].end)
}

// end stops the checks of services whose last cookie has expired.
func (d *drains) end(p Counting, now time.Time) (wrote bool, err error) {
	for name, one := range d.until {
		if now.Before(one.end) {
			continue
		}
		var e plane.Service
		if e, err = p.Service(one.id); err != nil {
			return wrote, err
		}
		e.Verify = 0
		if err = p.SetService(one.id, e); err != nil {
			return wrote, err
		}
		delete(d.until, name)
		wrote = true
	}
	return wrote, nil
}
