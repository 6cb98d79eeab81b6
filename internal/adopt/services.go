// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"maps"
	"math/bits"
	"net/netip"
	"slices"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// serviceSet numbers services and stores the state of their listeners.
type serviceSet struct {
	*instance.Numbers
	reports map[string]listeners.Report
	table   listeners.Table                       // of all services' ports
	doubted map[netip.AddrPort]plane.ListenerNote // listeners for which adoption is paused, or just was
	lost    map[netip.AddrPort]string             // listeners for which the kernel cannot adopt, and why, as last logged

	automatic *instance.Automatic // nil: in another gate
	flowKey   uint32              // of IPv6 flow labels

	rmemSeen map[int]bool // every default receive buffer size seen since the start
}

func newServiceSet() *serviceSet {
	return &serviceSet{Numbers: instance.NewNumbers(), reports: map[string]listeners.Report{},
		lost: map[netip.AddrPort]string{}, rmemSeen: map[int]bool{defaultRmem: true}}
}

// assign numbers the services of a configuration, forgets the listeners of those that are
// no longer in it, and returns their numbers.
func (s *serviceSet) assign(services []config.Service) (removed []uint32) {
	removed = s.Assign(services)
	maps.DeleteFunc(s.reports, func(name string, _ listeners.Report) bool { return s.ID(name) == 0 })
	return removed
}

// targets lays the configuration out for the packet path. A port of a service
// that nobody listens on, while others of it are served, is left to the kernel,
// which answers RST. local is nil, or this machine's own addresses: then
// nothing else is protected.
func (s *serviceSet) targets(cfg *config.Config, sys system, local []netip.Prefix) []plane.Target {
	targets := make([]plane.Target, 0, len(cfg.Services))
	for _, svc := range cfg.Services {
		t := plane.Target{ID: s.ID(svc.Name), Prefixes: svc.Prefixes, Service: s.entry(svc, sys, cfg.Role == config.RoleServer)}
		t.Service.ListenerV4, t.Service.ListenerV6 = s.listenerKinds(svc, sys, local)
		s.automatic.Apply(svc.Name, &t.Service, s.uncounted(cfg, &t.Service))
		var missing []config.PortRange
		if report := s.reports[svc.Name]; report.Status != listeners.None {
			missing = report.Missing
		}
		t.Ports, t.Watched = splitPorts(svc.Ports, missing)
		targets = append(targets, t)
	}
	if local != nil {
		targets = onlyLocal(targets, local)
	}
	return targets
}

// splitPorts divides ports into those that are served and those that are not.
func splitPorts(ports, missing []config.PortRange) (served, unserved [][2]uint16) {
	for _, r := range ports {
		for first := int(r.First); first <= int(r.Last); {
			gone := contains(missing, uint16(first))
			last := first
			for last < int(r.Last) && contains(missing, uint16(last+1)) == gone {
				last++
			}
			run := [2]uint16{uint16(first), uint16(last)}
			if gone {
				unserved = append(unserved, run)
			} else {
				served = append(served, run)
			}
			first = last + 1
		}
	}
	return served, unserved
}

func contains(ranges []config.PortRange, port uint16) bool {
	return slices.ContainsFunc(ranges, func(r config.PortRange) bool { return r.Contains(port) })
}

// entry decides what the service's SYN-ACKs contain. A value of `auto` is what the
// kernel itself would send for this listener on this machine.
func (s *serviceSet) entry(svc config.Service, sys system, behindEdge bool) plane.Service {
	report := s.reports[svc.Name]
	e := plane.Service{
		MssV4:      uint16(sys.mtu - 40),
		MssV6:      uint16(sys.mtu - 60),
		Wscale:     s.wscale(sys, report.Listeners),
		Window:     s.window(sys, report.Listeners),
		Sack:       instance.Flag(sys.sack),
		Timestamps: instance.Flag(sys.timestamps),
		Ecn:        instance.Flag(sys.ecn),
	}
	if sys.labels {
		e.FlowKey = s.flowKey
	}
	e.Verify = instance.Flag(behindEdge) // in every mode: the cookies are of edges, whose mode is their own
	switch svc.Mode {
	case config.ModeMonitor:
		e.Mode = plane.ModeMonitor
	case config.ModeAlways, config.ModeAuto: // auto: see serviceSet.automatic
		e.Mode = plane.ModeAlways
	}
	e.SignedCostUs = instance.SignedCost(&svc, instance.OnlineCPUs())
	if !svc.MSS.Auto {
		e.MssV4, e.MssV6 = uint16(svc.MSS.Value), uint16(svc.MSS.Value)
	}
	if svc.WScale.Auto && behindEdge && sys.windowScaling {
		e.Wscale = config.SplitWScale // what the edges have announced
		if svc.Offer != nil {
			e.Wscale = svc.Offer.WScale
		}
	}
	if !svc.WScale.Auto && sys.windowScaling {
		e.Wscale = uint8(svc.WScale.Value)
	}
	if !svc.Window.Auto {
		e.Window = uint16(svc.Window.Value)
	}
	return e
}

// offers is what the kernel's own SYN-ACKs offer for each service that has listeners here.
func (s *serviceSet) offers(cfg *config.Config, sys system) config.Offers {
	all := config.Offers{}
	for _, svc := range cfg.Services {
		if s.reports[svc.Name].Status == listeners.None {
			continue
		}
		e := s.entry(svc, sys, false)
		all[svc.Name] = instance.OfferOf(&e)
	}
	return all
}

// wscale is the shift that the kernel would advertise: tcp_select_initial_window.
func (s *serviceSet) wscale(sys system, ls []listeners.Listener) uint8 {
	if !sys.windowScaling {
		return plane.WScaleNone
	}
	space := max(sys.rmemMax, sys.tcpRmem[2])
	if locked := smallestSpace(ls, func(l listeners.Listener) bool { return !s.rmemSeen[l.RcvBuf] }); locked > 0 {
		space = min(space, locked)
	}
	return uint8(min(max(bits.Len(uint(space))-1-15, 0), 14))
}

// window is the unscaled window of the SYN-ACK, a whole number of segments. It
// is up to one segment smaller than the kernel's, whose segments differ with the
// family and with timestamps.
func (s *serviceSet) window(sys system, ls []listeners.Listener) uint16 {
	space := smallestSpace(ls, func(listeners.Listener) bool { return true })
	if space == 0 {
		space = sys.tcpRmem[1] / 2
	}
	space = min(space, 65535)
	if mss := sys.mtu - 40; space > mss {
		space = space / mss * mss
	}
	return uint16(space)
}

// smallestSpace is the smallest receive space of the chosen listeners, 0 if none
// is chosen. Half of a buffer is room for data. The kernel does not report whether a listener
// has set SO_RCVBUF, which bounds its window scale: a buffer whose size was never
// the default has been set.
func smallestSpace(ls []listeners.Listener, chosen func(listeners.Listener) bool) int {
	smallest := 0
	for _, l := range ls {
		if space := l.RcvBuf / 2; space > 0 && chosen(l) && (smallest == 0 || space < smallest) {
			smallest = space
		}
	}
	return smallest
}

// uncounted returns why the handshakes of a service cannot be counted: sockets of other network namespaces and MPTCP listeners
// complete them, and sock_ops does not report these. Empty: they can be.
func (s *serviceSet) uncounted(cfg *config.Config, e *plane.Service) string {
	if cfg.Server.Takeover == config.TakeoverAdopt {
		return ""
	}
	for _, kind := range []uint8{e.ListenerV4, e.ListenerV6} {
		if kind == plane.ListenerTranslate || kind == plane.ListenerVaries || kind == plane.ListenerMPTCP {
			return "some of its connections are translated, and their handshakes cannot be counted here"
		}
	}
	return ""
}
