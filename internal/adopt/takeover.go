// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/survey"
)

// How a host's connections are taken over, for each listener and each
// destination that a rule of this machine sends elsewhere: adopted, or translated, and why.

// translates reports whether this gate can translate what cannot be adopted.
func (g *gate) translates() bool {
	return g.cfg.Role == config.RoleHost && g.cfg.Server.Takeover != config.TakeoverAdopt
}

// startSurvey begins to follow what this machine does to packets, if the gate chooses the takeover. If that cannot
// be read, only the outcome of adoptions decides.
func (g *gate) startSurvey() {
	if g.cfg.Role != config.RoleHost || g.cfg.Server.Takeover == config.TakeoverTranslate {
		return
	}
	w, err := survey.Watch()
	if err != nil {
		g.log.Warn("this machine's rules cannot be read: whether connections can be adopted shows when the first are, and where rules send them without a listener is not known", "error", err)
		return
	}
	g.survey = w
}

func (g *gate) closeSurvey() {
	if g.survey != nil {
		g.survey.Close()
	}
}

// surveyed receives a value when the machine's rules have changed.
func (g *gate) surveyed() <-chan struct{} {
	if g.survey == nil {
		return nil // never
	}
	return g.survey.Changed()
}

// setTranslating writes the settings for translation to the packet path. The keys of a previous process
// are kept: its table depends on them.
func (g *gate) setTranslating() error {
	if !g.translates() {
		return nil
	}
	server := g.plane.HostServer()
	s, err := server.ServerSettings()
	if err != nil {
		return err
	}
	if s.Keys[0] == 0 {
		raw := make([]byte, 8*len(s.Keys))
		_, _ = rand.Read(raw) // never fails (crypto/rand)
		for i := range s.Keys {
			s.Keys[i] = binary.LittleEndian.Uint64(raw[8*i:]) | 1
		}
	}
	s.Generic = 1 // what is reinjected is processed again, in any XDP mode
	s.IdleTicks = uint16(g.cfg.Tagged.IdleTime.Seconds()/plane.SplitTick) + 1
	s.SourceFloor = g.cfg.Tagged.SourceFloor()
	g.settings.Translates = 1
	return server.SetServer(s)
}

// mostDestinations is how many ports of a service without a listener are looked up in the rules.
const mostDestinations = 1024

// elsewhere lists destinations of services that need no listener here, as if there were a listener: rules of this machine may send
// them elsewhere, or a BPF program choose the listener. For the latter the kernel can adopt.
func (g *gate) elsewhere() (list []listeners.Listener) {
	chosen := g.listenersAreChosen()
	if !g.translates() && !chosen {
		return nil
	}
	for i := range g.cfg.Services {
		svc, looked, ports := &g.cfg.Services[i], 0, 0
		done := map[netip.Addr]bool{} // which stand for all addresses of a family
		for _, p := range svc.Prefixes {
			a := p.Addr()
			switch {
			case p.IsSingleIP() && !chosen: // the program may choose one for every address
			case a.Is4():
				a = netip.IPv4Unspecified()
			default:
				a = netip.IPv6Unspecified()
			}
			if a.IsUnspecified() {
				if done[a] {
					continue
				}
				done[a] = true
			}
			if !svc.Forwarded && !chosen && (g.survey == nil || !g.survey.Machine().MaySendElsewhere(a)) {
				continue
			}
			for _, r := range svc.Ports {
				ports += int(r.Last) - int(r.First) + 1
				for port := int(r.First); port <= int(r.Last) && looked < mostDestinations; port++ {
					looked++
					l := listeners.Listener{Addr: a, Port: uint16(port), V6Only: true, Elsewhere: true}
					if (svc.Forwarded || chosen || g.sentElsewhere(a, l.Port)) && !slices.Contains(list, l) {
						list = append(list, l)
					}
				}
			}
		}
		g.tellUnlooked(svc.Name, ports-looked)
	}
	return list
}

// listenersAreChosen reports whether a BPF program (sk_lookup) may choose the listener of a connection.
func (g *gate) listenersAreChosen() bool {
	return g.survey != nil && g.survey.Machine().ChoosesListeners()
}

// sentElsewhere reports whether a rule or IPVS may give connections to a destination to another machine or port.
func (g *gate) sentElsewhere(a netip.Addr, port uint16) bool {
	return g.survey.Machine().Elsewhere(survey.Destination{Addr: a, Port: port, Interfaces: g.cfg.Interfaces})
}

// tellUnlooked warns, once, of ports that were not looked up.
func (g *gate) tellUnlooked(service string, ports int) {
	if ports <= 0 {
		delete(g.unlooked, service)
		return
	}
	if g.unlooked[service] == 0 {
		g.log.Warn("rules or BPF programs of this machine give connections to others than a listener at their port, and the service has more ports than are looked at for that: SYNs to the others go to the kernel unprotected where nothing listens; name those that are served in `ports`",
			"service", service, "looked_up", mostDestinations, "not_looked_up", ports)
	}
	if g.unlooked == nil {
		g.unlooked = map[string]int{}
	}
	g.unlooked[service] = ports
}

// leave takes out of the table what can be neither adopted nor translated, so that its SYNs go to the kernel, and remembers why.
func (g *gate) leave(table listeners.Table) {
	g.left = map[netip.AddrPort]string{}
	for place := range table.All() {
		if v := g.judged(place.Addr(), place.Port()); v.Takeover == survey.Left {
			g.left[place] = v.Reason()
			table.Leave(place)
		}
	}
}

// judged returns the survey's verdict on a destination.
func (g *gate) judged(a netip.Addr, port uint16) survey.Verdict {
	if g.survey == nil {
		return survey.Verdict{Takeover: config.TakeoverAdopt}
	}
	return g.survey.Machine().Judge(survey.Destination{Addr: a, Port: port, Interfaces: g.cfg.Interfaces})
}

// whyTranslate returns why connections to a place are not adopted; empty: they may be.
func (g *gate) whyTranslate(place netip.AddrPort, held listeners.Held) string {
	if !g.translates() {
		return ""
	}
	for i := range g.cfg.Services {
		if svc := &g.cfg.Services[i]; svc.Forwarded && ServesPlace(svc.Prefixes, svc.Ports, place) {
			return "configured: forwarded"
		}
	}
	if g.cfg.Server.Takeover == config.TakeoverTranslate {
		return "configured: takeover: translate"
	}
	if !g.kernelAdopts {
		return "this kernel cannot adopt (Linux 6.9 can)"
	}
	if g.system.syncookies == 0 {
		return "net.ipv4.tcp_syncookies is 0: the kernel adopts no connection"
	}
	if why := g.judged(place.Addr(), place.Port()).Reason(); why != "" {
		return why
	}
	if what := held.Unadoptable(); what != "" {
		return what + ", which the kernel does not adopt for"
	}
	return ""
}

// whyDoubted returns what the packet path itself has found.
func whyDoubted(note plane.ListenerNote) string {
	if note.Why == plane.RefusalUnproven {
		return "an adopted connection made no socket, and was served when translated: something here drops ACKs that no SYN came before; one client tries again after a pause"
	}
	return "the kernel refuses to adopt for it; tried again after a pause"
}

// whyAdoptionFails returns what prevents adoption where there is no alternative.
func (g *gate) whyAdoptionFails(place netip.AddrPort, held listeners.Held) string {
	if what := held.Unadoptable(); what != "" {
		return what + ", which the kernel does not adopt for: its SYNs are left to the kernel; `takeover: auto` translates"
	}
	if why := g.judged(place.Addr(), place.Port()).Reason(); why != "" {
		return "adopted connections break, or bypass a rule: " + why + "; `takeover: auto` translates"
	}
	return whyAdopt(held)
}

func whyAdopt(held listeners.Held) string {
	if len(held) == 1 && held[0].Elsewhere {
		return "a BPF program (sk_lookup) may choose a listener"
	}
	return "plain TCP listener, nothing in its way"
}

// takeovers returns, for each place of each service, how connections are taken over there, and why.
func (g *gate) takeovers() (list []instance.Takeover) {
	if g.cfg.Role != config.RoleHost {
		return nil
	}
	s := g.services
	for _, svc := range g.cfg.Services {
		if svc.Mode == config.ModeOff {
			continue
		}
		for place, held := range s.table.All() {
			if !ServesPlace(svc.Prefixes, svc.Ports, place) {
				continue
			}
			t := instance.Takeover{Service: svc.Name, Ports: fmt.Sprint(place.Port()), Addresses: []string{place.Addr().String()},
				How: string(config.TakeoverAdopt), Why: whyAdopt(held)}
			if why := s.table.Why(place); why != "" {
				t.How, t.Why = string(config.TakeoverTranslate), why
			} else if !g.translates() {
				t.Why = g.whyAdoptionFails(place, held)
			} else if note, doubted := s.doubted[place]; doubted {
				t.How, t.Why = string(config.TakeoverTranslate), whyDoubted(note)
			}
			list = append(list, t)
		}
		for place, why := range g.left {
			if ServesPlace(svc.Prefixes, svc.Ports, place) {
				list = append(list, instance.Takeover{Service: svc.Name, Ports: fmt.Sprint(place.Port()), Addresses: []string{place.Addr().String()},
					How: string(survey.Left), Why: why})
			}
		}
	}
	slices.SortFunc(list, func(a, b instance.Takeover) int {
		return slices.Compare([]string{a.Service, a.Ports, a.Addresses[0]}, []string{b.Service, b.Ports, b.Addresses[0]})
	})
	return list
}

// tellTakeovers writes changes of the takeovers to the log and to the state file.
func (g *gate) tellTakeovers() {
	now := g.takeovers()
	if reflect.DeepEqual(now, g.reported) {
		return
	}
	for _, t := range now {
		if !slices.ContainsFunc(g.reported, func(o instance.Takeover) bool { return reflect.DeepEqual(o, t) }) {
			g.log.Info("takeover", "service", t.Service, "how", t.How, "listener", fmt.Sprintf("%s port %s", t.Addresses[0], t.Ports), "why", t.Why)
		}
	}
	g.reported = now
	if g.modes == nil { // not attached yet
		return
	}
	if err := g.writeState(); err != nil {
		g.log.Error("writing the state file", "error", err)
	}
}
