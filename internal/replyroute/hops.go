// SPDX-License-Identifier: Apache-2.0

package replyroute

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hop returns the number of the hop that the routes to one prefix lead to. Of several routes those with the
// smallest metric count, all of them: so IPv6 has default routes through several routers.
func (b *builder) hop(routes []netlink.Route) (number int, why string) {
	h, best := Hop{}, routes[0].Priority
	for _, r := range routes {
		best = min(best, r.Priority)
	}
	for _, r := range routes {
		if r.Priority == best {
			if why := b.addRoute(&h, r); why != "" {
				return 0, why
			}
		}
	}
	key := fmt.Sprint(h)
	if n, ok := b.hops[key]; ok {
		return n, ""
	}
	n := len(b.model.Hops)
	if n == MaxHops {
		return 0, "there are too many gateways"
	}
	b.hops[key] = n
	b.model.Hops = append(b.model.Hops, h)
	return n, ""
}

// addRoute adds one route.
func (b *builder) addRoute(h *Hop, r netlink.Route) (why string) {
	switch r.Type {
	case unix.RTN_UNICAST:
	case unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT:
		return ""
	case unix.RTN_THROW:
		return "a route of type throw"
	default:
		h.Kind = HopUnknown // a local, broadcast or translated destination is not a client
		return ""
	}
	if r.Encap != nil || r.MPLSDst != nil {
		h.Kind = HopUnknown
		return ""
	}
	if len(r.MultiPath) == 0 {
		b.addPath(h, r.LinkIndex, gatewayOf(r.Gw, r.Via), r.Flags)
		return ""
	}
	for _, n := range r.MultiPath {
		if n.Encap != nil {
			h.Kind = HopUnknown
			return ""
		}
		b.addPath(h, n.LinkIndex, gatewayOf(n.Gw, n.Via), n.Flags)
	}
	return ""
}

func gatewayOf(gw []byte, via netlink.Destination) netip.Addr {
	if v, ok := via.(*netlink.Via); ok && v != nil {
		gw = v.Addr
	}
	a, _ := netip.AddrFromSlice(gw)
	if a = a.Unmap(); a.IsValid() && a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// addPath adds a gateway, or the link itself. Interfaces without MAC addresses are not modelled.
func (b *builder) addPath(h *Hop, dev int, gateway netip.Addr, flags int) {
	if flags&unix.RTNH_F_DEAD != 0 || h.Kind == HopUnknown {
		return
	}
	l := b.k.links[dev]
	if !l.ethernet || h.Kind == HopLink || h.Kind == HopVia && !gateway.IsValid() {
		h.Kind = HopUnknown
		return
	}
	p := b.path(dev)
	p.Dev, p.Covered = dev, b.isPort(p.Segment)
	if !gateway.IsValid() {
		h.Kind, h.Dev, h.Paths = HopLink, dev, []Path{p}
		return
	}
	h.Kind = HopVia
	n, known := b.k.neighbours[place{dev, gateway}]
	if known && n.valid {
		p.MAC = n.MAC
	}
	if b.isPort(p.Segment) && (!known || !n.valid || !n.Sure) {
		b.model.Unresolved = append(b.model.Unresolved, Neighbour{Dev: dev, Addr: gateway})
	}
	if len(h.Paths) < MaxPaths {
		h.Paths = append(h.Paths, p)
	}
}

// isPort reports whether SYNs arrive there.
func (b *builder) isPort(segment int) bool {
	for _, p := range b.model.Ports {
		if p.Segment == segment {
			return true
		}
	}
	return false
}
