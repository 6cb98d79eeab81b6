// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// neverForwarded are destinations that no router forwards (RFC 1812 section 5.3.7,
// RFC 4291 section 2.5.6), whatever its routes.
var neverForwarded = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// LocalRoutes keep a router from forwarding what no router forwards.
func LocalRoutes() (routes []Route) {
	for _, p := range neverForwarded {
		routes = append(routes, Route{Kind: RouteLocal, Prefix: p})
	}
	return routes
}

// KernelRoutes are the kernel's routes as the program's router needs them: those of its main table
// through the interfaces; all others, and the machine's own addresses, as destinations
// to which this router sends nothing. Ports are numbered as the interfaces.
func KernelRoutes(interfaces []string) ([]Route, error) {
	ports := map[int]int{}
	for i, name := range interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		ports[dev.Attrs().Index] = i
	}
	own, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("local routes: %w", err)
	}
	main, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	// Of several for a prefix the kernel takes the one with the lowest metric.
	slices.SortStableFunc(main, func(a, b netlink.Route) int { return a.Priority - b.Priority })
	var routes []Route
	seen := map[netip.Prefix]bool{}
	add := func(r Route) {
		if p := r.Prefix.Addr(); !seen[r.Prefix] && !(p.IsLinkLocalUnicast() && p.Is6()) && !p.IsMulticast() {
			seen[r.Prefix] = true
			routes = append(routes, r)
		}
	}
	for _, r := range LocalRoutes() {
		seen[r.Prefix] = true
		routes = append(routes, r)
	}
	for _, r := range own {
		if prefix, ok := destination(&r); ok {
			add(Route{Kind: RouteLocal, Prefix: prefix})
		}
	}
	for _, r := range main {
		if prefix, ok := destination(&r); ok {
			add(throughPorts(&r, prefix, ports))
		}
	}
	return routes, nil
}

// throughPorts converts a route of the kernel; one that does not lead through our ports
// leads nowhere. Of several next hops the first of ours is used.
func throughPorts(r *netlink.Route, prefix netip.Prefix, ports map[int]int) Route {
	hops := []netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via}}
	for _, h := range r.MultiPath {
		hops = append(hops, *h)
	}
	for _, h := range hops {
		port, ours := ports[h.LinkIndex]
		if !ours || r.Type != unix.RTN_UNICAST {
			continue
		}
		gw := h.Gw
		if via, ok := h.Via.(*netlink.Via); ok {
			gw = via.Addr
		}
		if a, ok := netip.AddrFromSlice(gw); ok {
			return Route{Kind: RouteGateway, Prefix: prefix, Port: port, Gateway: a.Unmap()}
		}
		return Route{Kind: RouteOnLink, Prefix: prefix, Port: port}
	}
	return Route{Kind: RouteLocal, Prefix: prefix}
}

// destination is a route's prefix; a default route may have none.
func destination(r *netlink.Route) (netip.Prefix, bool) {
	if r.Dst == nil {
		if r.Family == unix.AF_INET6 || r.Gw != nil && r.Gw.To4() == nil {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0), true
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0), true
	}
	return prefixOf(r.Dst)
}

func prefixOf(dst *net.IPNet) (netip.Prefix, bool) {
	ip := dst.IP
	if four := ip.To4(); four != nil && len(dst.Mask) == net.IPv4len {
		ip = four
	}
	a, ok := netip.AddrFromSlice(ip)
	ones, _ := dst.Mask.Size()
	return netip.PrefixFrom(a, ones).Masked(), ok
}
