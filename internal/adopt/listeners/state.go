// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"cmp"
	"net/netip"
	"slices"

	"tidegate/internal/config"
)

// Status says in one word whether the listeners of a service can be adopted.
type Status string

const (
	OK    Status = "ok"    // every listener that was found can be adopted
	None  Status = "none"  // nothing listens; the kernel answers RST
	MPTCP Status = "mptcp" // at least one is MPTCP; its SYNs are left to the kernel
	Above Status = "above" // likewise: at least one is bound to a device above the interface
)

// Report is what was found for one service.
type Report struct {
	Status    Status
	Listeners []Listener         // those that serve the service, by port
	Missing   []config.PortRange // ports of the service that nothing listens on
}

// Unadoptable returns the listeners that cannot be adopted.
func (r Report) Unadoptable() []Listener {
	var list []Listener
	for _, l := range r.Listeners {
		if l.Unadoptable() != "" {
			list = append(list, l)
		}
	}
	return list
}

// State picks from ls the listeners that serve prefixes and ports.
func State(ls []Listener, prefixes []netip.Prefix, ports []config.PortRange) Report {
	r := Report{Status: None}
	for _, l := range ls {
		if slices.ContainsFunc(ports, func(p config.PortRange) bool { return p.Contains(l.Port) }) &&
			slices.ContainsFunc(prefixes, l.serves) {
			r.Listeners = append(r.Listeners, l)
		}
	}
	slices.SortFunc(r.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), a.Addr.Compare(b.Addr))
	})
	for _, l := range r.Listeners {
		switch {
		case l.MPTCP:
			r.Status = MPTCP
		case l.Above != "" && r.Status != MPTCP:
			r.Status = Above
		case r.Status == None:
			r.Status = OK
		}
	}
	r.Missing = missing(r.Listeners, ports)
	return r
}

// serves says whether packets to an address of p can reach l.
func (l Listener) serves(p netip.Prefix) bool {
	a := l.Addr.Unmap()
	switch {
	case a == netip.IPv6Unspecified():
		return p.Addr().Is6() || !l.V6Only
	case a.IsUnspecified():
		return p.Addr().Is4()
	case a.IsLoopback() && !p.Addr().IsLoopback():
		return false // 0.0.0.0/0 holds 127.0.0.1, but no client comes that way
	}
	return p.Contains(a)
}

// missing takes the ports of ls, which are sorted, out of ports.
func missing(ls []Listener, ports []config.PortRange) []config.PortRange {
	var out []config.PortRange
	for _, p := range ports {
		next := int(p.First) // first port not yet accounted for; int, as 65535 has a successor
		for _, l := range ls {
			port := int(l.Port)
			if port < next || port > int(p.Last) {
				continue
			}
			if port > next {
				out = append(out, config.PortRange{First: uint16(next), Last: uint16(port - 1)})
			}
			next = port + 1
		}
		if next <= int(p.Last) {
			out = append(out, config.PortRange{First: uint16(next), Last: p.Last})
		}
	}
	return out
}
