// SPDX-License-Identifier: Apache-2.0

// Package replyroute determines where this machine's kernel would send the answer to a SYN: its policy
// rules, routes and neighbours, flattened so that the packet path can look them up. What it does not
// understand becomes unknown. It must not know maps, and never sees a packet.
package replyroute

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
)

// Model is the packet path's input: bpf/lib/reply.h.
type Model struct {
	Ports      map[int]Port // protected interfaces, by index
	From       []From
	Routes     []Route
	Hops       []Hop // by number
	Neighbours []Neighbour

	// Unknown is why nothing is known of a family's routes; empty: they are known.
	Unknown map[Family]string
	// Unresolved are gateways that the kernel should resolve or confirm.
	Unresolved []Neighbour
}

// Family is 4 or 6.
type Family int

// Families are both, in the order of the packet path.
var Families = []Family{4, 6}

// Port is an interface at which SYNs arrive.
type Port struct {
	Segment int                 // the interface that its routes name: its own index, or its master's
	Strict  bool                // rp_filter is strict, for IPv4
	Domain  [2]uint32           // by family: of replies in its VRF; 0: as From says
	Unknown [2]string           // by family: why nothing is known of replies in its VRF
	Tagged  string              // why nothing is known of replies to SYNs with a VLAN tag
	Gateway [2]net.HardwareAddr // by family: of the only gateway, if it is on this port; else nil
}

// From maps the source address of replies to a domain.
type From struct {
	Prefix netip.Prefix
	Domain uint32
}

// Route is one of a domain.
type Route struct {
	Domain uint32
	Prefix netip.Prefix
	Hop    int
}

// HopKind is enum tg_hop_kind.
type HopKind uint32

// Kinds of hops.
const (
	HopNone HopKind = iota
	HopVia
	HopLink
	HopUnknown
)

// Path is one of a hop's.
type Path struct {
	Segment int
	VID     int
	MAC     [6]byte // zeros: not resolved
	Dev     int     // the interface that the route names
	Covered bool    // SYNs arrive at its segment, so that programs of ours see what leaves there
}

// Hop is where routes lead.
type Hop struct {
	Kind  HopKind
	Dev   int
	Paths []Path // at most MaxPaths
}

// Limits, as the packet path has them; more is not modelled.
const (
	MaxPaths      = 4
	MaxHops       = 1024
	MaxRoutes     = 65536
	MaxDomains    = 62
	MaxNeighbours = 8192
)

// Neighbour is one on a link.
type Neighbour struct {
	Dev  int
	Addr netip.Addr
	MAC  [6]byte
	Sure bool // confirmed recently, or permanent
}

// Why returns, by family, why it is not known where answers go, or those of some ports.
func (m *Model) Why() map[Family]string {
	why := maps.Clone(m.Unknown)
	for _, index := range slices.Sorted(maps.Keys(m.Ports)) {
		p := m.Ports[index]
		for i, f := range Families {
			if why[f] == "" && p.Unknown[i]+p.Tagged != "" {
				why[f] = cmp.Or(p.Unknown[i], "for SYNs with a VLAN tag: "+p.Tagged)
			}
		}
	}
	return why
}

// builder makes a Model from the kernel's state.
type builder struct {
	k      *kernel
	model  Model
	hops   map[string]int // by content
	family Family
	last   uint32 // domain
}

// build never fails: what it cannot model becomes unknown.
func build(k *kernel, ports []int) *Model {
	b := &builder{k: k, hops: map[string]int{}, model: Model{Ports: map[int]Port{}, Unknown: map[Family]string{}}}
	for _, index := range ports {
		b.model.Ports[index] = b.port(index)
	}
	for _, f := range Families {
		b.family = f
		if why := b.addFamily(); why != "" {
			b.model.Unknown[f] = why
			b.model.Routes = slices.DeleteFunc(b.model.Routes, func(r Route) bool { return is(f, r.Prefix.Addr()) })
			b.model.From = slices.DeleteFunc(b.model.From, func(r From) bool { return is(f, r.Prefix.Addr()) })
		}
	}
	for _, f := range Families {
		if b.family = f; b.model.Unknown[f] == "" {
			b.addVRFs()
		}
	}
	b.addNeighbours()
	b.findGateways()
	return &b.model
}

func is(f Family, a netip.Addr) bool { return a.Is4() == (f == 4) }

func (b *builder) port(index int) Port {
	p := Port{Segment: b.segmentOf(index), Strict: b.k.strict[index]}
	for _, dev := range slices.Sorted(maps.Keys(b.k.links)) { // in order: what is told must not change by itself
		l := b.k.links[dev]
		if p.Tagged == "" && l.kind == "vlan" && !l.parentElsewhere && b.segmentOf(l.parent) == p.Segment && b.vrfOf(dev) != b.vrfOf(p.Segment) {
			p.Tagged = fmt.Sprintf("the VLAN device %s is in another VRF than %s", l.name, b.k.links[p.Segment].name)
		}
	}
	return p
}

// vrfOf is the VRF that an interface belongs to, if it belongs to one.
func (b *builder) vrfOf(dev int) vrf {
	if m := b.k.links[b.k.links[dev].master]; m.kind == "vrf" {
		return vrf{m.name, m.table}
	}
	return vrf{}
}

// path is the path out of an interface: a VLAN or a macvlan device on a protected port is a path
// out of that port, unless the device itself is protected and that port is not: then its frames are met without a tag.
func (b *builder) path(dev int) (p Path) {
	l := b.k.links[dev]
	if l.parent == 0 || l.parentElsewhere {
		return Path{Segment: dev}
	}
	own, protected := b.model.Ports[dev]
	if protected && !b.isPort(b.segmentOf(l.parent)) {
		return Path{Segment: own.Segment}
	}
	if l.kind == "vlan" {
		return Path{Segment: b.segmentOf(l.parent), VID: l.vid}
	}
	return Path{Segment: b.segmentOf(l.parent)}
}

// segmentOf returns the segment that a port is on, protected or not.
func (b *builder) segmentOf(dev int) int {
	if m := b.k.links[dev].master; m != 0 && b.k.links[m].kind != "vrf" {
		return m
	}
	return dev
}

// addFamily flattens rules and tables; why is what cannot be modelled.
func (b *builder) addFamily() (why string) {
	if b.k.rulesError[b.family] != "" {
		return b.k.rulesError[b.family]
	}
	if b.k.tooMany[b.family] {
		return "there are too many routes"
	}
	sources := sourcesOf(b.k.rules[b.family], b.family)
	for _, source := range sources {
		tables, why := tablesFor(b.k.rules[b.family], source, vrf{})
		if why != "" {
			return why
		}
		domain, why := b.addDomain(tables)
		if why != "" {
			return why
		}
		b.model.From = append(b.model.From, From{source, domain})
	}
	return ""
}

// addVRFs adds the domains of the VRFs that ports are in, after those of both families, whose room they must not take.
func (b *builder) addVRFs() {
	sources := sourcesOf(b.k.rules[b.family], b.family)
	known, unknown := map[vrf]uint32{}, map[vrf]string{}
	for _, index := range slices.Sorted(maps.Keys(b.model.Ports)) {
		p := b.model.Ports[index]
		in := b.vrfOf(p.Segment)
		if in == (vrf{}) {
			continue
		}
		if known[in] == 0 && unknown[in] == "" {
			known[in], unknown[in] = b.addVRF(in, sources)
		}
		i := slices.Index(Families, b.family)
		p.Domain[i], p.Unknown[i] = known[in], unknown[in]
		b.model.Ports[index] = p
	}
}

// addVRF adds the domain of replies in a VRF. There is one for all source addresses.
func (b *builder) addVRF(in vrf, sources []netip.Prefix) (domain uint32, why string) {
	var tables []lookup
	for i, source := range sources {
		of, why := tablesFor(b.k.rules[b.family], source, in)
		if why == "" && i > 0 && !slices.Equal(of, tables) {
			why = "policy rules by source address"
		}
		if why != "" {
			return 0, fmt.Sprintf("in the VRF %s, %s", in.name, why)
		}
		tables = of
	}
	before := len(b.model.Routes)
	if domain, why = b.addDomain(tables); why != "" {
		b.model.Routes = b.model.Routes[:before] // the packet path has no room for more
		return 0, fmt.Sprintf("in the VRF %s, %s", in.name, why)
	}
	return domain, ""
}

// addDomain merges the tables' routes: where an earlier table has any route to an
// address, later ones are not consulted.
func (b *builder) addDomain(tables []lookup) (domain uint32, why string) {
	if b.last == MaxDomains {
		return 0, "there are too many policy rules"
	}
	b.last++
	domain = b.last
	taken := map[netip.Prefix]bool{}
	for _, t := range tables {
		var here []netip.Prefix
		for prefix, routes := range b.k.tables[b.family][t.table] {
			if prefix.Bits() <= t.suppress || covered(taken, prefix) {
				continue
			}
			hop, why := b.hop(routes)
			if why != "" {
				return 0, why
			}
			b.model.Routes = append(b.model.Routes, Route{domain, prefix, hop})
			here = append(here, prefix)
		}
		if len(b.model.Routes) > MaxRoutes {
			return 0, "there are too many routes"
		}
		for _, p := range here {
			taken[p] = true
		}
	}
	return domain, ""
}

// covered reports whether an earlier table has a route to all of the prefix.
func covered(taken map[netip.Prefix]bool, p netip.Prefix) bool {
	if len(taken) == 0 {
		return false
	}
	for bits := p.Bits(); bits >= 0; bits-- {
		wider, err := p.Addr().Prefix(bits)
		if err != nil || taken[wider] {
			return err == nil
		}
	}
	return false
}

// addNeighbours adds those that could be clients, and those that are gateways; then, while there is room, those that the kernel
// had until lately. A gateway's path has no MAC address from these.
func (b *builder) addNeighbours() {
	for _, n := range b.k.neighbours {
		if len(b.model.Neighbours) == MaxNeighbours {
			break // the rest is unknown, and uses the allowance
		}
		if n.valid {
			b.model.Neighbours = append(b.model.Neighbours, n.Neighbour)
		}
	}
	for _, m := range b.k.remembered {
		if len(b.model.Neighbours) == MaxNeighbours {
			break
		}
		b.model.Neighbours = append(b.model.Neighbours, m.Neighbour)
	}
}

// findGateways finds ports whose SYNs come, nearly all, from the only gateway there is: the
// packet path then checks nothing else. Networks on a link do not count: a client there whose SYNs
// come through the gateway is answered through it.
func (b *builder) findGateways() {
	only := map[uint32]*Path{} // by domain; nil: there is none, or there are more
	for i, f := range Families {
		if b.model.Unknown[f] != "" {
			continue
		}
		for index, p := range b.model.Ports {
			domain := b.domainOf(p, i)
			if domain == 0 || p.Unknown[i] != "" {
				continue
			}
			via, looked := only[domain]
			if !looked {
				via = b.onlyGateway(domain)
				only[domain] = via
			}
			if via != nil && p.Segment == via.Segment && via.VID == 0 && via.MAC != [6]byte{} {
				p.Gateway[i] = via.MAC[:]
				b.model.Ports[index] = p
			}
		}
	}
}

// domainOf is the domain of all replies to SYNs that arrive at a port; 0: it depends on their source address.
func (b *builder) domainOf(p Port, family int) (domain uint32) {
	if p.Domain[family] != 0 {
		return p.Domain[family]
	}
	for _, from := range b.model.From {
		if is(Families[family], from.Prefix.Addr()) {
			if domain != 0 {
				return 0
			}
			domain = from.Domain
		}
	}
	return domain
}

// onlyGateway is the path to the gateway that all routes of a domain but links lead to, the default route among them.
func (b *builder) onlyGateway(domain uint32) *Path {
	only, isDefault := -1, false
	for _, r := range b.model.Routes {
		h := b.model.Hops[r.Hop]
		if r.Domain != domain || h.Kind == HopLink {
			continue
		}
		if h.Kind != HopVia || len(h.Paths) != 1 || only >= 0 && r.Hop != only {
			return nil
		}
		only, isDefault = r.Hop, isDefault || r.Prefix.Bits() == 0
	}
	if !isDefault {
		return nil
	}
	return &b.model.Hops[only].Paths[0]
}
