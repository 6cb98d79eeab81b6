package host

import (
	"errors"
	"fmt"
	"math/bits"
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
}

func newServiceSet() *serviceSet {
	return &serviceSet{map[string]uint32{}, map[string]listeners.Report{}, map[string][]uint32{}}
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

// targets lays the configuration out for the packet path.
func (s *serviceSet) targets(cfg *config.Config, sys system) []plane.Target {
	targets := make([]plane.Target, 0, len(cfg.Services))
	for _, svc := range cfg.Services {
		t := plane.Target{ID: s.ids[svc.Name], Prefixes: svc.Prefixes}
		for _, r := range svc.Ports {
			t.Ports = append(t.Ports, [2]uint16{r.First, r.Last})
		}
		t.Service = s.entry(svc, sys)
		targets = append(targets, t)
	}
	return targets
}

// entry decides what the service's SYN-ACKs say. What is `auto` is what the
// kernel itself would say for this listener on this machine.
func (s *serviceSet) entry(svc config.Service, sys system) plane.Service {
	report := s.reports[svc.Name]
	e := plane.Service{
		MssV4:      uint16(sys.mtu - 40),
		MssV6:      uint16(sys.mtu - 60),
		Wscale:     sys.wscale(report.Listeners),
		Window:     sys.window(report.Listeners),
		Sack:       flag(sys.sack),
		Timestamps: flag(sys.timestamps),
		Ecn:        flag(sys.ecn),
		Listener:   s.listener(svc.Name, report),
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
	switch report.Status {
	case listeners.None:
		g.log.Warn("nothing listens: SYNs go to the kernel, which answers RST", "service", svc.Name)
	case listeners.MPTCP:
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
func (s system) wscale(ls []listeners.Listener) uint8 {
	if !s.windowScaling {
		return plane.WScaleNone
	}
	space := max(s.rmemMax, s.tcpRmem[2])
	if locked := s.lockedSpace(ls); locked > 0 {
		space = min(space, locked)
	}
	return uint8(min(max(bits.Len(uint(space))-1-15, 0), 14))
}

// window is the unscaled window of the SYN-ACK, a whole number of segments.
func (s system) window(ls []listeners.Listener) uint16 {
	space := s.tcpRmem[1] / 2
	if locked := s.lockedSpace(ls); locked > 0 {
		space = locked
	}
	mss := s.mtu - 40
	return uint16(min(space/mss*mss, 65535/mss*mss))
}

// lockedSpace is the smallest receive space of the listeners that set SO_RCVBUF
// themselves; 0 if none did. Half of the buffer is room for data.
func (s system) lockedSpace(ls []listeners.Listener) int {
	smallest := 0
	for _, l := range ls {
		if l.RcvBuf == 0 || l.RcvBuf == s.tcpRmem[1] {
			continue
		}
		if space := l.RcvBuf / 2; smallest == 0 || space < smallest {
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

// sameAttachment says whether a reload can go from one configuration to the other.
func sameAttachment(a, b *config.Config) error {
	for what, same := range map[string]bool{
		"instance":    a.Instance == b.Instance,
		"interfaces":  slices.Equal(a.Interfaces, b.Interfaces),
		"secret_file": a.SecretFile == b.SecretFile,
		"epoch":       a.Epoch == b.Epoch,
		"key_horizon": a.KeyHorizon == b.KeyHorizon,
		"xdp_mode":    a.XDPMode == b.XDPMode,
	} {
		if !same {
			return fmt.Errorf("%s changed: that takes a restart, `systemctl restart` or stop and start; no connection is lost", what)
		}
	}
	return nil
}

var errNoCgroup = errors.New("no cgroup v2 file system is mounted; mount one with `mount -t cgroup2 none /sys/fs/cgroup/unified`")
