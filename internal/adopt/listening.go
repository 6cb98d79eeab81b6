// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// Which listeners exist, and for which the kernel can adopt. The kernel is queried once a second, and
// at once when the packet path notifies us: when a listener appears or disappears, when a verified ACK meets
// no listener, and when an adoption fails.

// bellPause is the least time between two scans that the packet path requests, which bounds what opening
// and closing sockets, or connecting to closed ports, can cost us.
const bellPause = 50 * time.Millisecond

// awaitBells turns the bell into events, until the plane is closed.
func awaitBells(p *plane.Plane) <-chan struct{} {
	rung := make(chan struct{})
	go func() {
		for p.AwaitBell() == nil {
			rung <- struct{}{}
			time.Sleep(bellPause)
		}
	}()
	return rung
}

// watchListeners scans the listeners and reads what the packet path has learned about them.
// It returns true if a service's entry has to be rewritten.
func (g *gate) watchListeners() (changed bool) {
	err := g.plane.AnswerBell() // before the scan: what happens during it rings again
	all, scanErr := listeners.On(g.cfg.Interfaces)
	notes, notesErr := g.plane.Listeners()
	for _, err := range []error{err, scanErr, notesErr} {
		if err != nil {
			g.log.Error("cannot read listeners", "error", err)
			return false
		}
	}
	all = append(all, g.elsewhere()...)
	table := listeners.Places(all, g.serves)
	g.leave(table)
	wanted, doubted := map[netip.AddrPort]plane.Listener{}, map[netip.AddrPort]plane.ListenerNote{}
	for place, held := range table.All() {
		l := plane.Listener{Cookie: held.Cookie(), State: plane.ListenerOK}
		if held.Unadoptable() != "" {
			l.State = plane.ListenerMPTCP // to the packet path, whatever is not adopted for is alike
		}
		if why := g.whyTranslate(place, held); why != "" {
			table.Translate(place, why)
			l.State = plane.ListenerTranslate
		}
		wanted[place] = l
		if note, there := notes[place]; there && note.Listener == l && note.Doubted() {
			doubted[place] = note
		}
	}
	if err := g.plane.SetListeners(notes, wanted); err != nil {
		g.log.Error("cannot read listeners", "error", err)
	}
	s := g.services
	changed = !maps.EqualFunc(s.table.All(), table.All(), sameSockets) || !samePlaces(s.doubted, doubted) ||
		!maps.Equal(s.table.Reasons(), table.Reasons())
	s.table, s.doubted = table, doubted
	for _, svc := range g.cfg.Services {
		report := listeners.State(all, svc.Prefixes, svc.Ports)
		before, known := s.reports[svc.Name]
		s.reports[svc.Name] = report
		if !known || before.Status != report.Status || !sameSockets(before.Listeners, report.Listeners) {
			changed = true
			g.tell(svc, report, known)
		}
	}
	g.tellLosses()
	return changed
}

// serves reports whether a port belongs to any service.
func (g *gate) serves(port uint16) bool {
	return slices.ContainsFunc(g.cfg.Services, func(s config.Service) bool { return contains(s.Ports, port) })
}

func sameSockets[L ~[]listeners.Listener](a, b L) bool {
	inodes := func(ls L) (list []uint32) {
		for _, l := range ls {
			list = append(list, l.Inode)
		}
		slices.Sort(list)
		return list
	}
	return slices.Equal(inodes(a), inodes(b))
}

func samePlaces(a, b map[netip.AddrPort]plane.ListenerNote) bool {
	return maps.EqualFunc(a, b, func(plane.ListenerNote, plane.ListenerNote) bool { return true })
}

// listenerKinds returns, for each family, what a service's SYNs meet. local is nil, or
// this machine's own addresses.
func (s *serviceSet) listenerKinds(svc config.Service, sys system, local []netip.Prefix) (v4, v6 uint8) {
	if sys.syncookies == 0 {
		return plane.ListenerRefused, plane.ListenerRefused
	}
	var ports []uint16
	for _, l := range s.reports[svc.Name].Listeners {
		if !slices.Contains(ports, l.Port) {
			ports = append(ports, l.Port)
		}
	}
	prefixes := svc.Prefixes
	if local != nil {
		prefixes = nil
		for _, p := range svc.Prefixes {
			prefixes = append(prefixes, intersect(p, local)...)
		}
	}
	kind := func(is4 bool) uint8 {
		mine := slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return p.Addr().Is4() != is4 })
		for place := range s.doubted {
			if ServesPlace(mine, svc.Ports, place) {
				return plane.ListenerVaries
			}
		}
		return map[listeners.Kind]uint8{listeners.Nobody: plane.ListenerNone, listeners.Plain: plane.ListenerOK,
			listeners.Unfit: plane.ListenerMPTCP, listeners.Varies: plane.ListenerVaries, listeners.Translated: plane.ListenerTranslate}[s.table.Kind(mine, ports)]
	}
	return kind(true), kind(false)
}

// ServesPlace reports whether a listener belongs to a service with these destinations and ports.
func ServesPlace(prefixes []netip.Prefix, ports []config.PortRange, place netip.AddrPort) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return listeners.ServedBy(place, p, ports) })
}

// tell logs what a change of listeners means.
func (g *gate) tell(svc config.Service, report listeners.Report, known bool) {
	if g.part {
		return // the code that chose the services reports that
	}
	left := slices.ContainsFunc(slices.Collect(maps.Keys(g.left)), func(at netip.AddrPort) bool { return ServesPlace(svc.Prefixes, svc.Ports, at) })
	if report.Status == listeners.None && left {
		return // tellTakeovers says so
	}
	if report.Status == listeners.None {
		g.log.Warn("nothing listens: SYNs go to the kernel, which answers RST", "service", svc.Name)
	} else if known {
		g.log.Info("listening", "service", svc.Name, "listeners", fmt.Sprint(report.Listeners))
	}
}

// mendListener is how a listener becomes one that the kernel adopts for.
const mendListener = "let the server listen without MPTCP (Go: GODEBUG=multipathtcp=0), or bound to the interface or to none"

// Reasons why connections are not adopted for a listener.
const (
	ReasonMPTCP      = "mptcp"
	ReasonRefused    = "refused"
	ReasonSyncookies = "syncookies"
)

// tellLosses logs which listeners have lost their protection, why, and what helps; and
// when it is restored.
func (g *gate) tellLosses() {
	if g.translates() || g.part {
		return // no protection is lost: tellTakeovers, or the code that chose the services, reports what changes
	}
	s := g.services
	for place, held := range s.table.All() {
		reason := ""
		if held.Unadoptable() != "" {
			reason = ReasonMPTCP
		} else if _, ok := s.doubted[place]; ok {
			reason = ReasonRefused
		}
		if s.lost[place] == reason {
			continue
		}
		for _, svc := range g.cfg.Services {
			if svc.Mode != config.ModeOff && ServesPlace(svc.Prefixes, svc.Ports, place) {
				g.tellLoss(svc.Name, place, reason, held.Unadoptable())
			}
		}
		s.lost[place] = reason
		if reason == "" {
			delete(s.lost, place)
		}
	}
	for place := range s.lost {
		if !g.serves(place.Port()) {
			delete(s.lost, place)
		}
	}
}

// tellLoss logs that a listener is no longer protected, or is again. what: what kind of listener it is, if that is the reason.
func (g *gate) tellLoss(service string, place netip.AddrPort, reason, what string) {
	log := g.log.With("service", service, "listener", place.String())
	switch {
	case reason == "":
		log.Info("this listener is protected again: its SYNs are answered")
	case reason == ReasonRefused:
		note := g.services.doubted[place]
		log.Warn("the kernel refused to adopt connections of this listener for an unknown reason: its SYNs go to the kernel, unprotected, and adoption is retried after a pause; see `tidegate check -c`",
			"refusals", note.Refusals, "paused_for", time.Duration(note.PausedUntilNs-plane.MonotonicNs()).Round(time.Millisecond))
	case g.cfg.Role == config.RoleServer: // its edges have answered the SYNs
		log.Warn("the kernel does not adopt for this listener: connections that edges have verified are reset; set `takeover: auto`, or "+mendListener, "reason", what)
	default:
		log.Warn("the kernel does not adopt for this listener: its SYNs go to the kernel, unprotected; set `takeover: auto`, or "+mendListener, "reason", what)
	}
}
