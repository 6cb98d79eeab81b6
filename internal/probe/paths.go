// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/config"
)

// A router's paths to the servers and back to the clients, according to the kernel's
// tables. Nothing is sent: what no table contains is reported as unknown.

var families = []struct {
	name     string
	is       func(netip.Addr) bool
	all, own string // sysctls: of the box, of one interface
	anywhere string // an address that only a default route matches
}{
	{"IPv4", netip.Addr.Is4, "net.ipv4.ip_forward", "net.ipv4.conf.%s.forwarding", "192.88.99.1"},
	{"IPv6", netip.Addr.Is6, "net.ipv6.conf.all.forwarding", "net.ipv6.conf.%s.forwarding", "2001:db8:ffff::1"},
}

// usesFamily reports whether services have prefixes of the family, and whether one
// names it rather than all addresses.
func usesFamily(c *config.Config, is func(netip.Addr) bool) (used, named bool) {
	for _, s := range c.Services {
		for _, p := range s.Prefixes {
			if is(p.Addr()) {
				used, named = true, named || p.Bits() > 0
			}
		}
	}
	return used, named
}

// forwardingChecks: XDP forwards what the kernel would, and only that.
func forwardingChecks(c *config.Config) []Check {
	var list []Check
	for _, f := range families {
		used, named := usesFamily(c, f.is)
		if !used {
			continue
		}
		allOff, known := sysctlOff(f.all)
		var off []string
		for _, name := range c.Interfaces {
			if no, there := sysctlOff(fmt.Sprintf(f.own, name)); there && no {
				off = append(off, name)
			}
		}
		list = append(list, judgeForwarding(f.name, f.all, f.own, known, allOff, named, off))
	}
	return list
}

// sysctlOff reports whether a sysctl is 0, and whether it can be read.
func sysctlOff(name string) (off, known bool) {
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	return strings.TrimSpace(string(text)) == "0", err == nil
}

func judgeForwarding(family, all, own string, known, allOff, named bool, portsOff []string) Check {
	c := Check{Name: "forwarding " + family, Status: OK, Found: all + "=1"}
	lack := Warn // services without prefixes mean both families, and one may not be in use
	if named {
		lack = Fail
	}
	switch {
	case !known:
		c.Status, c.Found = Warn, all+" cannot be read"
		c.Means, c.Fix = "if this kernel has no "+family+", nothing is lost", "name only the prefixes that are in use"
	case allOff:
		c.Status, c.Found = lack, all+"=0"
		c.Means, c.Fix = "no "+family+" packet gets from client to server", fmt.Sprintf("run `sysctl -w %s=1`", all)
	case len(portsOff) > 0:
		c.Status, c.Found = lack, fmt.Sprintf("off on %s", strings.Join(portsOff, ", "))
		c.Means = fmt.Sprintf("no %s packet that comes in there is forwarded", family)
		c.Fix = fmt.Sprintf("run `sysctl -w %s=1`", fmt.Sprintf(own, portsOff[0]))
	}
	return c
}

// kernelRoute is the kernel's tables' entry for one destination.
type kernelRoute struct {
	to        netip.Prefix
	err       error
	local     bool   // an address of this box
	dev       string // where it leaves
	devKind   string
	ours      bool // through a port of ours
	gateway   netip.Addr
	neighbour string // state of the next hop; empty: there is no entry
	nearby    int    // neighbours known inside an on-link prefix
}

// pathChecks checks the paths to every service's servers, and back to the clients.
func pathChecks(c *config.Config) []Check {
	var list []Check
	seen := map[netip.Prefix]bool{}
	for _, s := range c.Services {
		for _, p := range s.Prefixes {
			if p.Bits() == 0 || seen[p] {
				continue // all addresses: there is no single route
			}
			if seen[p] = true; len(seen) > namedServices {
				continue
			}
			list = append(list, judgeRoute(routeToServers(p, func(addr netip.Addr) kernelRoute { return findRoute(p, addr, c.Interfaces) })))
		}
	}
	if len(seen) > namedServices {
		list = append(list, Check{Name: "other ways", Status: OK, Found: fmt.Sprintf("%d prefixes were not looked at", len(seen)-namedServices)})
	}
	for _, f := range families {
		if used, named := usesFamily(c, f.is); used {
			if _, known := sysctlOff(f.all); !known {
				continue
			}
			addr := netip.MustParseAddr(f.anywhere)
			list = append(list, judgeBack(f.name, named, findRoute(netip.PrefixFrom(addr, 0).Masked(), addr, c.Interfaces)))
		}
	}
	return list
}

// ownTried is how many of a prefix's first addresses may be this box's own before the prefix counts as this box's.
const ownTried = 16

// routeToServers is the route to the prefix's first address that is not this box's own: in the servers' network the
// router usually has the first.
func routeToServers(p netip.Prefix, find func(netip.Addr) kernelRoute) (w kernelRoute) {
	addr := firstHost(p)
	for range ownTried {
		if w = find(addr); w.err != nil || !w.local {
			return w
		}
		if addr = addr.Next(); !p.Contains(addr) {
			return w
		}
	}
	return w
}

// firstHost is the first address of the prefix that a server can have.
func firstHost(p netip.Prefix) netip.Addr {
	if p.IsSingleIP() {
		return p.Addr()
	}
	return p.Addr().Next()
}

func findRoute(to netip.Prefix, addr netip.Addr, ports []string) kernelRoute {
	w := kernelRoute{to: to}
	routes, err := netlink.RouteGet(net.IP(addr.AsSlice()))
	if err == nil && len(routes) == 0 {
		err = unix.ENETUNREACH
	}
	if err != nil {
		w.err = err
		return w
	}
	r := routes[0]
	w.local = r.Type == unix.RTN_LOCAL
	dev, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		w.err = err
		return w
	}
	w.dev, w.devKind = dev.Attrs().Name, dev.Type()
	w.ours = slices.Contains(ports, w.dev)
	next := addr
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		w.gateway = gw.Unmap()
		next = w.gateway
	}
	neighbours, _ := netlink.NeighList(r.LinkIndex, netlink.FAMILY_ALL)
	for _, n := range neighbours {
		ip, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		if ip = ip.Unmap(); ip == next {
			w.neighbour = neighbourState(n.State)
		}
		if to.Contains(ip) && n.State&(unix.NUD_FAILED|unix.NUD_INCOMPLETE) == 0 {
			w.nearby++
		}
	}
	return w
}

func neighbourState(s int) string {
	switch {
	case s&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0:
		return "set by hand"
	case s&(unix.NUD_REACHABLE|unix.NUD_DELAY|unix.NUD_PROBE|unix.NUD_STALE) != 0:
		return "answers"
	}
	return "does not answer"
}

// judgeRoute judges the route to the servers of a prefix.
func judgeRoute(w kernelRoute) Check {
	c := Check{Name: "route to " + w.to.String(), Status: OK}
	bad := func(status Status, found, means, fix string) Check {
		c.Status, c.Found, c.Means, c.Fix = status, found, means, fix
		return c
	}
	tool := "ip route"
	if w.to.Addr().Is6() {
		tool = "ip -6 route"
	}
	hop := "on the link of " + w.dev
	if w.gateway.IsValid() {
		hop = fmt.Sprintf("via %s on %s", w.gateway, w.dev)
	}
	switch {
	case w.err != nil:
		return bad(Fail, "no route: "+firstLine(w.err), "nothing reaches these servers", fmt.Sprintf("run `%s add %s via GATEWAY`", tool, w.to))
	case w.local:
		return bad(Fail, "is this box's own address", "a proxy protects servers behind it, not itself", "use `role: host` for it, or correct `prefixes:`")
	case !w.ours && (w.devKind == "vlan" || w.devKind == "macvlan"):
		return bad(Warn, fmt.Sprintf("%s, a %s device", hop, w.devKind), "its frames take the kernel's way, at the kernel's speed; they must pass a port that is named",
			"name in `interfaces:` the Ethernet device beneath "+w.dev)
	case !w.ours:
		return bad(Fail, fmt.Sprintf("%s, which is not in `interfaces:`", hop), "the servers' answers are not seen: `cookie` serves no client there", fmt.Sprintf("add %s to `interfaces:`", w.dev))
	case w.neighbour == "does not answer":
		return bad(Warn, hop+", which does not answer", "connections to these servers end in a timeout", "see that it is up and wired: `ip neigh show dev "+w.dev+"`")
	case w.neighbour != "":
		c.Found = fmt.Sprintf("%s, which %s", hop, w.neighbour)
		if w.neighbour == "set by hand" {
			c.Found = fmt.Sprintf("%s, whose MAC address is set by hand", hop)
		}
	case w.nearby > 0:
		c.Found = fmt.Sprintf("%s; %d servers known there", hop, w.nearby)
	default:
		c.Found = hop + ", not yet resolved: the kernel does it when the first packet comes"
	}
	return c
}

// judgeBack judges the route to clients in general. Whether the servers' answers come
// back to this box depends on the servers' routes, and shows at run time.
func judgeBack(family string, named bool, w kernelRoute) Check {
	c := Check{Name: "both directions " + family, Status: OK}
	switch {
	case w.err != nil && !named:
		c.Found = "no default route; a service that names no prefix means both families, and this one may not be in use"
	case w.err != nil:
		c.Status, c.Found = Warn, "no default route"
		c.Means = "servers' answers reach only the clients that other routes lead to"
		c.Fix = "add a default route, unless all clients are near"
	case !w.ours:
		c.Status, c.Found = Fail, fmt.Sprintf("answers to clients leave by %s, which is not in `interfaces:`", w.dev)
		c.Means = "clients that come in there are not seen, and not protected from"
		c.Fix = fmt.Sprintf("add %s to `interfaces:`", w.dev)
	default:
		c.Found = fmt.Sprintf("answers to clients leave by %s; `cookie` also needs the servers to answer by way of this box, and `run` says so in its log when they do not", w.dev)
	}
	return c
}
