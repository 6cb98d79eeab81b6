package host

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"tidegate/internal/config"
	"tidegate/internal/listeners"
	"tidegate/internal/plane"
)

// serviceSet gives services their numbers and remembers what their listeners
// are like. A service keeps its number, and so its counters, over reloads.
type serviceSet struct {
	ids     map[string]uint32
	reports map[string]listeners.Report
	refused map[string][]uint32 // inodes of the listeners when the kernel refused one

	rmemSeen map[int]bool // every default receive buffer since the start
}

func newServiceSet() *serviceSet {
	return &serviceSet{ids: map[string]uint32{}, reports: map[string]listeners.Report{},
		refused: map[string][]uint32{}, rmemSeen: map[int]bool{defaultRmem: true}}
}

// assign numbers the services of a configuration and returns the numbers of
// those that are no longer in it.
func (s *serviceSet) assign(services []config.Service) (removed []uint32) {
	next := map[string]uint32{}
	used := map[uint32]bool{}
	for _, svc := range services {
		if id, ok := s.ids[svc.Name]; ok {
			next[svc.Name] = id
			used[id] = true
		}
	}
	for name, id := range s.ids {
		if _, ok := next[name]; !ok {
			removed = append(removed, id)
			delete(s.reports, name)
			delete(s.refused, name)
		}
	}
	free := uint32(1)
	for _, svc := range services {
		if _, ok := next[svc.Name]; ok {
			continue
		}
		for used[free] {
			free++
		}
		next[svc.Name] = free
		used[free] = true
	}
	s.ids = next
	return removed
}

// targets lays the configuration out for the packet path. A port of a service
// that nobody listens on, while others of it are served, is left to the kernel,
// which answers RST. local is nil, or what this machine's own addresses are: then
// nothing else is protected.
func (s *serviceSet) targets(cfg *config.Config, sys system, local []netip.Prefix) []plane.Target {
	targets := make([]plane.Target, 0, len(cfg.Services))
	for _, svc := range cfg.Services {
		t := plane.Target{ID: s.ids[svc.Name], Prefixes: svc.Prefixes, Service: s.entry(svc, sys, cfg.Role == config.RoleServer)}
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

// entry decides what the service's SYN-ACKs say. What is `auto` is what the
// kernel itself would say for this listener on this machine.
func (s *serviceSet) entry(svc config.Service, sys system, behindEdge bool) plane.Service {
	report := s.reports[svc.Name]
	e := plane.Service{
		MssV4:      uint16(sys.mtu - 40),
		MssV6:      uint16(sys.mtu - 60),
		Wscale:     s.wscale(sys, report.Listeners),
		Window:     s.window(sys, report.Listeners),
		Sack:       flag(sys.sack),
		Timestamps: flag(sys.timestamps),
		Ecn:        flag(sys.ecn),
		Listener:   s.listener(svc.Name, report),
	}
	if sys.syncookies == 0 {
		e.Listener = plane.ListenerRefused
	}
	switch svc.Mode {
	case config.ModeMonitor:
		e.Mode = plane.ModeMonitor
	case config.ModeAlways:
		e.Mode = plane.ModeAlways
	}
	if !svc.MSS.Auto {
		e.MssV4, e.MssV6 = uint16(svc.MSS.Value), uint16(svc.MSS.Value)
	}
	if svc.WScale.Auto && behindEdge && sys.windowScaling {
		e.Wscale = config.SplitWScale // what the edges have announced
	}
	if !svc.WScale.Auto && sys.windowScaling {
		e.Wscale = uint8(svc.WScale.Value)
	}
	if !svc.Window.Auto {
		e.Window = uint16(svc.Window.Value)
	}
	return e
}

func (s *serviceSet) listener(name string, report listeners.Report) uint8 {
	if _, ok := s.refused[name]; ok {
		return plane.ListenerRefused
	}
	switch report.Status {
	case listeners.OK:
		return plane.ListenerOK
	case listeners.MPTCP:
		return plane.ListenerMPTCP
	default:
		return plane.ListenerNone
	}
}

// watchListeners looks at the listeners and at what the packet path has learned
// of them. True if a service's entry has to be written anew.
func (g *gate) watchListeners() (changed bool) {
	all, err := listeners.Scan()
	if err != nil {
		g.log.Error("looking for listeners", "error", err)
		return false
	}
	for _, svc := range g.cfg.Services {
		report := listeners.State(all, svc.Prefixes, svc.Ports)
		before, known := g.services.reports[svc.Name]
		g.services.reports[svc.Name] = report
		if g.noteRefusal(svc.Name, report) {
			changed = true
		}
		if known && before.Status == report.Status && sameListeners(before, report) {
			continue
		}
		changed = true
		g.tell(svc, report, known)
	}
	return changed
}

// noteRefusal follows a refusal of the kernel: it lasts until the service's
// listeners are others than those that were refused.
func (g *gate) noteRefusal(name string, report listeners.Report) (changed bool) {
	inodes := inodesOf(report)
	if old, ok := g.services.refused[name]; ok {
		if slices.Equal(old, inodes) {
			return false
		}
		delete(g.services.refused, name)
		g.log.Info("the refused listener is gone: answering SYNs again", "service", name)
		return true
	}
	if g.system.syncookies == 0 {
		return false // that is the refusal; it is no listener's fault
	}
	entry, err := g.plane.Service(g.services.ids[name])
	if err != nil || entry.Listener != plane.ListenerRefused {
		return false
	}
	g.services.refused[name] = inodes
	g.log.Warn("the kernel refused to adopt a connection; this service's SYNs go to the kernel until its listener is restarted; see `tidegate check -c`", "service", name)
	return true
}

// tell says what a change of listeners means.
func (g *gate) tell(svc config.Service, report listeners.Report, known bool) {
	if g.part {
		return // who chose the services tells
	}
	switch report.Status {
	case listeners.None:
		g.log.Warn("nothing listens: SYNs go to the kernel, which answers RST", "service", svc.Name)
	case listeners.MPTCP:
		if g.cfg.Role == config.RoleServer { // its edges have answered the SYNs
			g.log.Warn("an MPTCP listener cannot adopt: connections that edges have verified are reset; set `takeover: auto`, or let the server listen without MPTCP (GODEBUG=multipathtcp=0)",
				"service", svc.Name, "listeners", fmt.Sprint(report.MPTCP()))
			return
		}
		g.log.Warn("an MPTCP listener cannot adopt cookies: SYNs go to the kernel; let the server listen without MPTCP (Go: ListenConfig.SetMultipathTCP(false), or GODEBUG=multipathtcp=0)",
			"service", svc.Name, "listeners", fmt.Sprint(report.MPTCP()))
	case listeners.OK:
		if known {
			g.log.Info("listening", "service", svc.Name, "listeners", fmt.Sprint(report.Listeners))
		}
	}
}

func inodesOf(r listeners.Report) []uint32 {
	inodes := make([]uint32, 0, len(r.Listeners))
	for _, l := range r.Listeners {
		inodes = append(inodes, l.Inode)
	}
	slices.Sort(inodes)
	return inodes
}

func sameListeners(a, b listeners.Report) bool {
	return slices.Equal(inodesOf(a), inodesOf(b))
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
// is chosen. Half of a buffer is room for data. Whether a listener has set
// SO_RCVBUF, which bounds its window scale, the kernel does not tell: a buffer of
// a size that was never the default has been set.
func smallestSpace(ls []listeners.Listener, chosen func(listeners.Listener) bool) int {
	smallest := 0
	for _, l := range ls {
		if space := l.RcvBuf / 2; space > 0 && chosen(l) && (smallest == 0 || space < smallest) {
			smallest = space
		}
	}
	return smallest
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

var errNoCgroup = errors.New("no cgroup v2 file system is mounted; mount one with `mount -t cgroup2 none /sys/fs/cgroup/unified`")
