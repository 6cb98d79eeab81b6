// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tidegate/internal/adopt"
	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
	"tidegate/internal/survey"
)

// facts are the input of the choice.
type facts struct {
	unable    string         // why nothing can be adopted here, whatever listens; empty: it can
	local     []netip.Prefix // this machine's own addresses
	sockets   []listeners.Listener
	doubted   map[netip.AddrPort]string // where adoptions have failed, and why: adopt.Adopter.Doubted
	noCookies bool                      // net.ipv4.tcp_syncookies is 0: the kernel adopts nothing, as long as it is
	machine   *survey.Machine           // how this machine treats packets; nil: not surveyed
	devices   []string                  // packets come in by
}

// piece is a part of a service's addresses and ports that is taken over in one way.
type piece struct {
	service  *config.Service
	prefix   netip.Prefix
	ports    []config.PortRange
	takeover config.Takeover // by which gate
	why      string
	doubt    string // why the adopting gate leaves it to the other for now; empty: it does not
	here     bool   // addresses of this machine
	width    int    // of the configured prefix that it comes from
}

// choose divides services by how each listener can be taken over. An address that is
// not this machine's is a guest's, whose sockets are not visible here: translated,
// like everything that cannot be adopted. Pieces from wider prefixes come first, so
// that where two overlap the more narrowly configured one wins.
func choose(services []config.Service, f facts) []piece {
	var pieces []piece
	for i := range services {
		svc := &services[i]
		for _, p := range svc.Prefixes {
			whole := piece{service: svc, prefix: p, ports: svc.Ports, takeover: config.TakeoverTranslate,
				why: "not addresses of this machine: a guest's", width: p.Bits()}
			if f.unable != "" {
				whole.why = f.unable
				pieces = append(pieces, whole)
				continue
			}
			pieces = append(pieces, whole)
			for _, l := range f.local {
				if l.Overlaps(p) {
					if l.Bits() < p.Bits() {
						l = p
					}
					pieces = append(pieces, f.divide(svc, l, p.Bits())...)
				}
			}
		}
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(a.width, b.width) })
	return pieces
}

// verdict of one port: how, and why; as in piece.
type verdict struct {
	takeover   config.Takeover
	why, doubt string
}

// whyNobody is why ports without a listener are translated.
const whyNobody = "nothing listens"

// conflict returns which of this machine's rules and devices keep connections to an address from
// being adopted; empty: none.
func (f *facts) conflict(l netip.Prefix, port uint16) string {
	if f.machine == nil {
		return ""
	}
	d := survey.Destination{Addr: l.Addr(), Port: port, Interfaces: f.devices}
	if !l.IsSingleIP() {
		d.Addr = netip.IPv4Unspecified()
		if l.Addr().Is6() {
			d.Addr = netip.IPv6Unspecified()
		}
	}
	return f.machine.Judge(d).Reason()
}

// doubt returns why the adopting gate adopts nothing at a port for now; empty: it does.
func (f *facts) doubt(l netip.Prefix, port uint16) string {
	any4or6 := netip.IPv4Unspecified()
	if l.Addr().Is6() {
		any4or6 = netip.IPv6Unspecified()
	}
	if why, there := f.doubted[netip.AddrPortFrom(l.Addr(), port)]; there {
		return why
	}
	return f.doubted[netip.AddrPortFrom(any4or6, port)]
}

// divide divides the ports of one address of this machine.
func (f *facts) divide(svc *config.Service, l netip.Prefix, width int) []piece {
	verdicts := map[uint16]verdict{}
	for _, s := range listeners.State(f.sockets, []netip.Prefix{l}, svc.Ports).Listeners {
		v := verdict{config.TakeoverAdopt, "plain TCP listener", f.doubt(l, s.Port)}
		switch {
		case s.Unadoptable() != "":
			v = verdict{config.TakeoverTranslate, s.Unadoptable(), ""}
		case f.noCookies:
			v = verdict{config.TakeoverTranslate, "net.ipv4.tcp_syncookies is 0: the kernel adopts no connection", ""}
		default:
			if why := f.conflict(l, s.Port); why != "" {
				v = verdict{config.TakeoverTranslate, why, ""}
			}
		}
		if before, there := verdicts[s.Port]; !there || before.takeover == config.TakeoverAdopt {
			verdicts[s.Port] = v
		}
	}
	nobody := verdict{config.TakeoverTranslate, whyNobody, ""}
	byVerdict := map[verdict][]config.PortRange{}
	var order []verdict
	add := func(v verdict, first, last uint16) {
		if _, there := byVerdict[v]; !there {
			order = append(order, v)
		}
		byVerdict[v] = append(byVerdict[v], config.PortRange{First: first, Last: last})
	}
	ports := make([]uint16, 0, len(verdicts))
	for port := range verdicts {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	for _, r := range svc.Ports {
		next := int(r.First) // int, as 65535 has a successor
		for _, port := range ports {
			if int(port) < next || port > r.Last {
				continue
			}
			if int(port) > next {
				add(nobody, uint16(next), port-1)
			}
			add(verdicts[port], port, port)
			next = int(port) + 1
		}
		if next <= int(r.Last) {
			add(nobody, uint16(next), r.Last)
		}
	}
	var pieces []piece
	for _, v := range order {
		pieces = append(pieces, piece{svc, l, byVerdict[v], v.takeover, v.why, v.doubt, true, width})
	}
	return pieces
}

// adopted are the pieces of the adopting gate, as services of its own: always at
// least one of each service, so that its counters stay.
func adopted(services []config.Service, pieces []piece) []config.Service {
	var list []config.Service
	for i := range services {
		n := 0
		one := func(prefixes []netip.Prefix, ports []config.PortRange) {
			s := services[i]
			s.Name, s.Prefixes, s.Ports = adopt.PieceName(s.Name, n), prefixes, ports
			n++
			list = append(list, s)
		}
		groups := map[string]int{} // by ports: in list
		for _, p := range pieces {
			if p.service != &services[i] || p.takeover != config.TakeoverAdopt {
				continue
			}
			key := portsText(p.ports)
			if at, there := groups[key]; there {
				list[at].Prefixes = append(list[at].Prefixes, p.prefix)
				continue
			}
			groups[key] = len(list)
			one([]netip.Prefix{p.prefix}, p.ports)
		}
		if n == 0 {
			one(nil, nil)
		}
	}
	return list
}

// numbered are the names that need a number in the translating plane. Each service of a server that chooses has three: for
// guests, for local listeners whose connections are translated, and for those
// left to the adopting gate.
func (n *node) numbered(services []config.Service) []config.Service {
	if !n.auto() {
		return services
	}
	var list []config.Service
	for _, s := range services {
		for _, name := range []string{s.Name, s.Name + "#here", s.Name + "#adopted"} {
			list = append(list, config.Service{Name: name})
		}
	}
	return list
}

// target converts a piece for the translating plane.
func (n *node) target(p *piece) plane.Target {
	t := n.translated(p.service)
	t.Prefixes, t.Ports = []netip.Prefix{p.prefix}, portPairs(p.ports)
	switch {
	case p.takeover == config.TakeoverAdopt:
		t.ID = n.numbers.ID(p.service.Name + "#adopted")
		t.Service.ListenerV4, t.Service.ListenerV6 = plane.ListenerOK, plane.ListenerOK
	case p.here:
		t.ID = n.numbers.ID(p.service.Name + "#here")
		t.Service.ListenerV4, t.Service.ListenerV6 = plane.ListenerMPTCP, plane.ListenerMPTCP
		if p.why == whyNobody { // the kernel refuses the SYN
			t.Service.ListenerV4, t.Service.ListenerV6 = plane.ListenerNone, plane.ListenerNone
		}
	default:
		t.Service.ListenerV4, t.Service.ListenerV6 = plane.ListenerGuest, plane.ListenerGuest
	}
	return t
}

func portPairs(ports []config.PortRange) [][2]uint16 {
	pairs := make([][2]uint16, 0, len(ports))
	for _, r := range ports {
		pairs = append(pairs, [2]uint16{r.First, r.Last})
	}
	return pairs
}

func portsText(ports []config.PortRange) string {
	words := make([]string, 0, len(ports))
	for _, r := range ports {
		words = append(words, fmt.Sprint(r))
	}
	return strings.Join(words, ", ")
}

// choices are the pieces for `status`: one line for those that differ only in address.
func choices(pieces []piece) []instance.Takeover {
	var list []instance.Takeover
	for _, p := range pieces {
		c := instance.Takeover{Service: p.service.Name, Ports: portsText(p.ports), How: string(p.takeover), Why: p.why}
		if p.doubt != "" {
			c.How, c.Why = string(config.TakeoverTranslate), p.doubt
		}
		at := slices.IndexFunc(list, func(o instance.Takeover) bool {
			return o.Service == c.Service && o.Ports == c.Ports && o.How == c.How && o.Why == c.Why
		})
		if at < 0 {
			list = append(list, c)
			at = len(list) - 1
		}
		list[at].Addresses = append(list[at].Addresses, p.prefix.String())
	}
	return list
}
