// SPDX-License-Identifier: Apache-2.0

package replyroute

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An interface 2 with the gateway .1, which is resolved, and 3 with another; a link 192.0.2.0/24.
func machine() *kernel {
	main := map[netip.Prefix][]netlink.Route{}
	k := &kernel{
		links:      map[int]link{2: {name: "a", ethernet: true}, 3: {name: "b", ethernet: true}, 4: {name: "t"}},
		strict:     map[int]bool{},
		rules:      map[Family][]rule{4: {{table: unix.RT_TABLE_LOCAL, action: actionToTable, suppress: -1}, {table: 254, action: actionToTable, suppress: -1}}},
		rulesError: map[Family]string{}, tooMany: map[Family]bool{},
		tables: map[Family]map[uint32]map[netip.Prefix][]netlink.Route{4: {254: main}, 6: {}},
		neighbours: map[place]neighbour{
			{2, netip.MustParseAddr("192.0.2.1")}: {Neighbour{Dev: 2, Addr: netip.MustParseAddr("192.0.2.1"), MAC: [6]byte{1}, Sure: true}, true}},
	}
	k.add(254, "0.0.0.0/0", netlink.Route{LinkIndex: 2, Gw: net.IP{192, 0, 2, 1}})
	k.add(254, "192.0.2.0/24", netlink.Route{LinkIndex: 2})
	return k
}

func (k *kernel) add(table uint32, prefix string, r netlink.Route) {
	if r.Type == 0 {
		r.Type = unix.RTN_UNICAST
	}
	if k.tables[4][table] == nil {
		k.tables[4][table] = map[netip.Prefix][]netlink.Route{}
	}
	p := netip.MustParsePrefix(prefix)
	k.tables[4][table][p] = append(k.tables[4][table][p], r)
}

// to is the hop of an answer from one address to another, as the packet path finds it.
func (m *Model) to(from, dst string) (h Hop) {
	best, domain := -1, uint32(0)
	for _, f := range m.From {
		if f.Prefix.Contains(netip.MustParseAddr(from)) && f.Prefix.Bits() > best {
			best, domain = f.Prefix.Bits(), f.Domain
		}
	}
	return m.in(domain, dst)
}

// in is the hop of an answer in a domain.
func (m *Model) in(domain uint32, dst string) (h Hop) {
	best := -1
	for _, r := range m.Routes {
		if r.Domain == domain && r.Prefix.Contains(netip.MustParseAddr(dst)) && r.Prefix.Bits() > best {
			best, h = r.Prefix.Bits(), m.Hops[r.Hop]
		}
	}
	return h
}

func TestOneGateway(t *testing.T) {
	m := build(machine(), []int{2, 3})
	if h := m.to("192.0.2.9", "8.8.8.8"); h.Kind != HopVia || h.Paths[0] != (Path{Segment: 2, MAC: [6]byte{1}, Dev: 2, Covered: true}) {
		t.Errorf("by the gateway: %+v", h)
	}
	if h := m.to("192.0.2.9", "192.0.2.77"); h.Kind != HopLink || h.Dev != 2 {
		t.Errorf("on the link: %+v", h)
	}
	if m.Ports[2].Gateway[0] == nil || m.Ports[3].Gateway[0] != nil {
		t.Errorf("the only gateway is on the first interface: %+v", m.Ports)
	}
}

// As soon as there is a second gateway, or none, the packet path must look up routes.
func TestGatewayIsNotTheOnlyOne(t *testing.T) {
	for name, change := range map[string]func(k *kernel){
		"another gateway":          func(k *kernel) { k.add(254, "10.0.0.0/8", netlink.Route{LinkIndex: 3, Gw: net.IP{198, 18, 0, 1}}) },
		"another on the same link": func(k *kernel) { k.add(254, "10.0.0.0/8", netlink.Route{LinkIndex: 2, Gw: net.IP{192, 0, 2, 2}}) },
		"a prefix without a route": func(k *kernel) { k.add(254, "10.0.0.0/8", netlink.Route{Type: unix.RTN_UNREACHABLE}) },
		"a tunnel":                 func(k *kernel) { k.add(254, "10.0.0.0/8", netlink.Route{LinkIndex: 4}) },
		"no default route":         func(k *kernel) { delete(k.tables[4][254], netip.MustParsePrefix("0.0.0.0/0")) },
		"not resolved":             func(k *kernel) { clear(k.neighbours) },
		"a rule by source": func(k *kernel) {
			k.rules[4] = append([]rule{{from: netip.MustParsePrefix("192.0.2.9/32"), table: 5, action: actionToTable, suppress: -1}}, k.rules[4]...)
		},
		"a rule that is not known":  func(k *kernel) { k.rules[4] = append([]rule{{unknown: "odd"}}, k.rules[4]...) },
		"more routes than are told": func(k *kernel) { k.tooMany[4] = true },
	} {
		k := machine()
		change(k)
		if m := build(k, []int{2}); m.Ports[2].Gateway[0] != nil {
			t.Errorf("%s: %v is taken for the only gateway", name, m.Ports[2].Gateway[0])
		}
	}
}

func TestTablesLieOverEachOther(t *testing.T) {
	k := machine()
	from := netip.MustParsePrefix("192.0.2.9/32")
	k.rules[4] = append([]rule{
		{from: from, table: 5, action: actionToTable, suppress: -1},
		{table: 6, action: actionToTable, suppress: 0}}, k.rules[4]...)
	k.add(5, "10.0.0.0/8", netlink.Route{LinkIndex: 3, Gw: net.IP{198, 18, 0, 1}})
	k.add(6, "0.0.0.0/0", netlink.Route{LinkIndex: 4})                               // suppressed
	k.add(254, "10.1.0.0/16", netlink.Route{LinkIndex: 2, Gw: net.IP{192, 0, 2, 1}}) // never asked for by .9
	m := build(k, []int{2, 3})
	for c, segment := range map[[2]string]int{
		{"192.0.2.9", "10.1.2.3"}: 3, {"192.0.2.9", "8.8.8.8"}: 2,
		{"192.0.2.8", "10.1.2.3"}: 2, {"192.0.2.8", "10.2.2.3"}: 2,
	} {
		if h := m.to(c[0], c[1]); h.Kind != HopVia || h.Paths[0].Segment != segment {
			t.Errorf("from %s to %s: %+v, want by %d", c[0], c[1], h, segment)
		}
	}
}

func TestWhatRulesMatch(t *testing.T) {
	all, one := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.9/32")
	for name, c := range map[string]struct {
		r         rule
		all, from bool
	}{
		"everybody":               {rule{}, true, true},
		"by source":               {rule{from: one}, false, true},
		"not by source":           {rule{from: one, invert: true}, true, false},
		"with a mark":             {rule{never: true}, false, false},
		"without that mark":       {rule{never: true, invert: true}, true, true},
		"by a wider source":       {rule{from: netip.MustParsePrefix("192.0.2.0/24")}, false, true},
		"by a source of nobody's": {rule{from: netip.MustParsePrefix("192.0.3.0/24")}, false, false},
	} {
		if c.r.matches(all, vrf{}) != c.all || c.r.matches(one, vrf{}) != c.from {
			t.Errorf("%s: %v, %v", name, c.r.matches(all, vrf{}), c.r.matches(one, vrf{}))
		}
	}
}

// Of routes to the same prefix the smallest metric counts; several of it are one hop, up to four gateways.
func TestMetrics(t *testing.T) {
	k := machine()
	k.add(254, "0.0.0.0/0", netlink.Route{LinkIndex: 2, Gw: net.IP{192, 0, 2, 2}, Priority: 9})
	if h := build(k, []int{2}).to("192.0.2.9", "8.8.8.8"); len(h.Paths) != 1 {
		t.Errorf("with a larger metric: %+v", h)
	}
	k.add(254, "0.0.0.0/0", netlink.Route{LinkIndex: 3, Gw: net.IP{198, 18, 0, 1}})
	if h := build(k, []int{2}).to("192.0.2.9", "8.8.8.8"); len(h.Paths) != 2 {
		t.Errorf("two of the same metric: %+v", h)
	}
}

// VLANs, bonds, macvlan devices and VRFs are distinguished.
func TestWaysOut(t *testing.T) {
	k := machine()
	k.links = map[int]link{2: {ethernet: true, master: 9}, 3: {ethernet: true, master: 8}, 8: {kind: "vrf"}, 9: {kind: "bond", ethernet: true},
		5: {kind: "vlan", parent: 9, vid: 7, ethernet: true}, 6: {kind: "macvlan", parent: 3, ethernet: true}}
	b := &builder{k: k}
	for dev, want := range map[int]Path{9: {Segment: 9}, 5: {Segment: 9, VID: 7}, 6: {Segment: 3}} {
		if got := b.path(dev); got != want {
			t.Errorf("interface %d: %+v, want %+v", dev, got, want)
		}
	}
	for _, c := range []struct {
		ports []int
		want  Path
	}{{[]int{5}, Path{Segment: 5}}, {[]int{2}, Path{Segment: 9, VID: 7}}, {[]int{2, 5}, Path{Segment: 9, VID: 7}}} {
		b := &builder{k: k, model: Model{Ports: map[int]Port{}}}
		for _, index := range c.ports {
			b.model.Ports[index] = b.port(index)
		}
		if got := b.path(5); got != c.want {
			t.Errorf("a VLAN device, ports %v: %+v, want %+v", c.ports, got, c.want)
		}
	}
	if p := b.port(2); p.Segment != 9 {
		t.Errorf("a bond's: %+v", p)
	}
	if p := b.port(3); p.Segment != 3 {
		t.Errorf("a VRF's: %+v", p)
	}
}

// inVRF has interface 3 in the VRF "v", whose table 7 has a gateway behind it.
func inVRF() *kernel {
	k := machine()
	k.links[3], k.links[8] = link{name: "b", ethernet: true, master: 8}, link{name: "v", kind: "vrf", table: 7}
	k.rules[4] = append([]rule{{l3mdev: true, action: actionToTable, suppress: -1}}, k.rules[4]...)
	k.add(7, "0.0.0.0/0", netlink.Route{LinkIndex: 3, Gw: net.IP{198, 18, 0, 1}})
	k.add(7, "198.18.0.0/24", netlink.Route{LinkIndex: 3})
	gateway := netip.MustParseAddr("198.18.0.1")
	k.neighbours[place{3, gateway}] = neighbour{Neighbour{Dev: 3, Addr: gateway, MAC: [6]byte{2}, Sure: true}, true}
	return k
}

// A VRF's replies take its table, first or only; all others never do.
func TestVRF(t *testing.T) {
	k := inVRF()
	m := build(k, []int{2, 3})
	if p := m.Ports[3]; p.Domain[0] == 0 || p.Gateway[0] == nil || p.Gateway[0][0] != 2 {
		t.Errorf("the VRF's port has a domain and one gateway of its own: %+v", p)
	}
	if p := m.Ports[2]; p.Domain[0] != 0 || p.Gateway[0] == nil || p.Gateway[0][0] != 1 {
		t.Errorf("the other port has neither: %+v", p)
	}
	if h := m.to("192.0.2.9", "8.8.8.8"); h.Kind != HopVia || h.Paths[0].Dev != 2 {
		t.Errorf("outside of the VRF: %+v", h)
	}
	if h := m.in(m.Ports[3].Domain[0], "198.18.0.9"); h.Kind != HopLink || h.Dev != 3 {
		t.Errorf("the VRF's link: %+v", h)
	}
	if h := m.in(m.Ports[3].Domain[0], "192.0.2.77"); h.Paths[0].Dev != 3 {
		t.Errorf("the other port's link, by the VRF's gateway: %+v", h)
	}
	if len(m.Why()) != 0 {
		t.Errorf("nothing is unknown: %v", m.Why())
	}

	k = inVRF()
	delete(k.tables[4][7], netip.MustParsePrefix("0.0.0.0/0"))
	m = build(k, []int{3})
	if h := m.in(m.Ports[3].Domain[0], "8.8.8.8"); h.Kind != HopVia || h.Paths[0].Dev != 2 {
		t.Errorf("without a default route of its own, by the main table's: %+v", h)
	}

	k = inVRF() // as VRFs were made before Linux 4.8
	k.rules[4][0] = rule{device: "v", table: 7, action: actionToTable, suppress: -1}
	if m = build(k, []int{2, 3}); m.Ports[3].Gateway[0] == nil || m.Ports[3].Gateway[0][0] != 2 || m.Ports[2].Gateway[0][0] != 1 {
		t.Errorf("a rule that names the VRF: %+v", m.Ports)
	}
}

// What of a VRF is not modelled is told, and nothing else becomes unknown with it.
func TestUnknownVRF(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *kernel)
		why    string
	}{
		"by source": {func(k *kernel) {
			k.rules[4] = append([]rule{{from: netip.MustParsePrefix("192.0.2.9/32"), table: 5, action: actionToTable, suppress: -1}}, k.rules[4]...)
		}, "in the VRF v, policy rules by source address"},
		"a rule that only the VRF sees": {func(k *kernel) {
			k.rules[4] = append([]rule{{device: "v", unknown: "an odd rule"}}, k.rules[4]...)
		}, "in the VRF v, an odd rule"},
		"a VLAN device in a VRF": {func(k *kernel) {
			k.links[9] = link{name: "a.7", kind: "vlan", parent: 2, vid: 7, ethernet: true, master: 8}
		}, "for SYNs with a VLAN tag: the VLAN device a.7 is in another VRF than a"},
		"a VLAN device outside": {func(k *kernel) {
			k.links[9] = link{name: "b.7", kind: "vlan", parent: 3, vid: 7, ethernet: true}
		}, "for SYNs with a VLAN tag: the VLAN device b.7 is in another VRF than b"},
	} {
		k := inVRF()
		c.change(k)
		m := build(k, []int{2, 3})
		if m.Why()[4] != c.why || len(m.Unknown) != 0 {
			t.Errorf("%s: %v (the family: %v), want %q", name, m.Why(), m.Unknown, c.why)
		}
	}
}

// A VRF with more routes than there is room for is told; all others keep theirs.
func TestVRFTooLarge(t *testing.T) {
	k := inVRF()
	delete(k.tables[4][7], netip.MustParsePrefix("0.0.0.0/0"))
	for i := range MaxRoutes {
		k.add(7, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32).String(), netlink.Route{LinkIndex: 3})
	}
	m := build(k, []int{2, 3})
	if m.Ports[3].Unknown[0] != "in the VRF v, there are too many routes" || len(m.Routes) > MaxRoutes {
		t.Errorf("%d routes; the VRF: %+v", len(m.Routes), m.Ports[3])
	}
	if m.Ports[2].Gateway[0] == nil || len(m.Unknown) != 0 {
		t.Errorf("outside of the VRF: %+v, %v", m.Ports[2], m.Unknown)
	}
}

// An interface matches replies only as their VRF, and two never do.
func TestRulesWithInterfaces(t *testing.T) {
	all, in := netip.MustParsePrefix("0.0.0.0/0"), vrf{"v", 7}
	var two rule
	two.only("eth0")
	two.only("v")
	for name, c := range map[string]struct {
		r              rule
		outside, inVRF bool
	}{
		"the VRF":        {rule{device: "v"}, false, true},
		"another":        {rule{device: "eth0"}, false, false},
		"l3mdev":         {rule{l3mdev: true}, false, true},
		"not the VRF":    {rule{device: "v", invert: true}, true, false},
		"two interfaces": {two, false, false},
	} {
		if c.r.matches(all, vrf{}) != c.outside || c.r.matches(all, in) != c.inVRF {
			t.Errorf("%s: %v, %v", name, c.r.matches(all, vrf{}), c.r.matches(all, in))
		}
	}
}
