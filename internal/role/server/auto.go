// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"reflect"

	"tidegate/internal/adopt"
	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/probe"
	"tidegate/internal/survey"
)

// takeover: auto. An adopting gate (adopt.Adopter) runs beside the translating one, and
// choose divides the services between them, again whenever listeners or addresses change.
// A connection stays with the gate that began it.

func (n *node) auto() bool { return n.cfg.Server.Takeover == config.TakeoverAuto }

// look reads what the choice depends on.
func (n *node) look() (err error) {
	if n.facts.sockets, err = listeners.On(n.cfg.Interfaces); err != nil {
		return err
	}
	if n.survey != nil {
		n.facts.machine, n.facts.devices = n.survey.Machine(), n.cfg.Interfaces
	}
	cookies, err := instance.SysctlInts("net/ipv4/tcp_syncookies", 1)
	if err != nil {
		return err
	}
	n.facts.noCookies = cookies[0] == 0
	n.facts.local, err = instance.LocalPrefixes()
	return err
}

// startAdopter chooses for the first time, and starts the adopting gate if it could
// ever have anything to adopt.
func (n *node) startAdopter() error {
	if !n.auto() {
		return nil
	}
	if n.cfg.Server.Protocol == config.ProtocolTagged {
		n.facts.unable = "protocol tagged: an edge waits for the confirmation of a server that translates"
	} else if why := cannotAdopt(); why != "" {
		n.facts.unable = why
	}
	if n.facts.unable == "" {
		var err error
		if n.survey, err = survey.Watch(); err != nil {
			return fmt.Errorf("what stands in the way of adoption cannot be followed: %w; set `takeover: translate`", err)
		}
	}
	if err := n.look(); err != nil {
		return err
	}
	n.pieces = choose(n.cfg.Services, n.facts)
	n.tell()
	if n.facts.unable != "" {
		return nil
	}
	var err error
	n.adopter, err = adopt.StartAdopter(n.opt, n.cfg, adopted(n.cfg.Services, n.pieces), n.common())
	return err
}

// cannotAdopt is the reason why nothing can be adopted on this machine.
func cannotAdopt() string {
	if why := probe.CannotAdopt(); why != "" {
		return why
	}
	if err := adopt.CannotAdopt(); err != nil {
		return err.Error()
	}
	return ""
}

// tell logs the choice and its reasons.
func (n *node) tell() {
	for _, c := range choices(n.pieces) {
		n.log.Info("takeover", "service", c.Service, "how", c.How, "ports", c.Ports, "addresses", fmt.Sprint(c.Addresses), "why", c.Why)
	}
}

// assign numbers the services; it returns the numbers of those that are gone.
func (n *node) assign(services []config.Service) (removed []uint32) {
	return n.numbers.Assign(n.numbered(services))
}

// ids are the numbers of a service in the translating plane.
func (n *node) ids(name string) []uint32 {
	if !n.auto() {
		return []uint32{n.numbers.ID(name)}
	}
	return []uint32{n.numbers.ID(name), n.numbers.ID(name + "#here"), n.numbers.ID(name + "#adopted")}
}

// apply updates both gates to the services and their present listeners. What moves
// to the adopting gate is added there before the other gate releases it; what moves back, after.
func (n *node) apply(services []config.Service) error {
	if !n.auto() {
		return n.plane.SetServices(n.targets(), &n.settings)
	}
	before := adopted(services, n.pieces)
	n.pieces = choose(services, n.facts)
	if n.adopter == nil {
		return n.plane.SetServices(n.targets(), &n.settings)
	}
	after := adopted(services, n.pieces)
	return errors.Join(n.adopter.SetServices(n.cfg, append(before, after...)),
		n.plane.SetServices(n.targets(), &n.settings),
		n.adopter.SetServices(n.cfg, after))
}

// bell delivers a value whenever the adopting gate asks for a look at the listeners.
func (n *node) bell() <-chan struct{} {
	if n.adopter == nil {
		return nil // never
	}
	return n.adopter.Bell()
}

// surveyed delivers a value when rules or devices of this machine have changed.
func (n *node) surveyed() <-chan struct{} {
	if n.survey == nil {
		return nil // never
	}
	return n.survey.Changed()
}

func (n *node) closeSurvey() {
	if n.survey != nil {
		n.survey.Close()
	}
}

// watchListeners checks whether any listener has to be taken over differently.
func (n *node) watchListeners() error {
	if !n.auto() {
		return nil
	}
	if n.adopter != nil {
		if err := n.adopter.Housekeep(); err != nil {
			return err
		}
		n.facts.doubted = n.adopter.Doubted()
	}
	if err := n.look(); err != nil {
		return err
	}
	if reflect.DeepEqual(choices(choose(n.cfg.Services, n.facts)), choices(n.pieces)) {
		return nil
	}
	if err := n.apply(n.cfg.Services); err != nil {
		return err
	}
	n.tell()
	return n.writeState()
}
