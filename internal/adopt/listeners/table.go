// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"net/netip"

	"tidegate/internal/config"
)

// A place is where connections are taken: an address and a port. The unspecified address
// of a family stands for all that have no listener of their own on that port.

// Table is what listens where.
type Table struct {
	places map[netip.AddrPort]Held
	exact  map[uint16][]netip.Addr   // by port: the addresses that are places, but for the unspecified
	why    map[netip.AddrPort]string // places that are not adopted for, and why
}

// Held is what listens at one place: several sockets by SO_REUSEPORT or SO_BINDTODEVICE.
type Held []Listener

// Unadoptable is what keeps the kernel from adopting connections for at least one of them, which it may choose; empty: nothing.
func (h Held) Unadoptable() string {
	for _, l := range h {
		if why := l.Unadoptable(); why != "" {
			return why
		}
	}
	return ""
}

// Cookie tells the socket from every other; 0 if there are several.
func (h Held) Cookie() uint64 {
	if len(h) == 1 {
		return h[0].Cookie
	}
	return 0
}

// Places lays listeners out by where they take connections; only on ports that are wanted.
// A socket for both families has two places, and an IPv4-mapped address is one of IPv4.
func Places(ls []Listener, wanted func(port uint16) bool) Table {
	t := Table{map[netip.AddrPort]Held{}, map[uint16][]netip.Addr{}, map[netip.AddrPort]string{}}
	for _, l := range ls {
		if !wanted(l.Port) {
			continue
		}
		a := l.Addr.Unmap()
		t.add(a, l)
		if a == netip.IPv6Unspecified() && !l.V6Only {
			t.add(netip.IPv4Unspecified(), l)
		}
	}
	return t
}

func (t Table) add(a netip.Addr, l Listener) {
	at := netip.AddrPortFrom(a, l.Port)
	if len(t.places[at]) == 0 && !a.IsUnspecified() {
		t.exact[l.Port] = append(t.exact[l.Port], a)
	}
	t.places[at] = append(t.places[at], l)
}

// All are the places and what holds them; not to be changed.
func (t Table) All() map[netip.AddrPort]Held { return t.places }

// Translate says that connections to a place are not to be adopted, and why.
func (t Table) Translate(place netip.AddrPort, why string) { t.why[place] = why }

// Leave says that SYNs to a place are left to the kernel, as if nothing listened there.
func (t Table) Leave(place netip.AddrPort) { delete(t.places, place) }

// Why is what Translate has said of a place.
func (t Table) Why(place netip.AddrPort) string { return t.why[place] }

// Reasons are all that Translate has said; not to be changed.
func (t Table) Reasons() map[netip.AddrPort]string { return t.why }

// Kind says what SYNs meet.
type Kind int

const (
	Nobody     Kind = iota // the kernel refuses
	Plain                  // can be adopted
	Unfit                  // cannot
	Varies                 // not the same at every address and port
	Translated             // is not to be adopted for
)

func (t Table) kind(a netip.Addr, port uint16) Kind {
	h, there := t.places[netip.AddrPortFrom(a, port)]
	switch {
	case there && t.why[netip.AddrPortFrom(a, port)] != "":
		return Translated
	case there && h.Unadoptable() != "":
		return Unfit
	case there:
		return Plain
	case a.IsUnspecified():
		return Nobody
	case a.Is4():
		return t.kind(netip.IPv4Unspecified(), port)
	}
	return t.kind(netip.IPv6Unspecified(), port)
}

// Kind says what SYNs to these addresses and ports meet. Prefixes are of one family, the
// ports are single ones. Without either, they meet nobody.
func (t Table) Kind(prefixes []netip.Prefix, ports []uint16) Kind {
	var found []Kind
	met := func(k Kind) {
		if len(found) == 0 || found[0] != k {
			found = append(found, k)
		}
	}
	for _, p := range prefixes {
		for _, port := range ports {
			if p.IsSingleIP() {
				met(t.kind(p.Addr(), port))
				continue
			}
			wildcard := netip.IPv4Unspecified()
			if p.Addr().Is6() {
				wildcard = netip.IPv6Unspecified()
			}
			met(t.kind(wildcard, port))
			for _, a := range t.exact[port] {
				if reaches(a, p) {
					met(t.kind(a, port))
				}
			}
		}
	}
	switch len(found) {
	case 0:
		return Nobody
	case 1:
		return found[0]
	}
	return Varies
}

// ServedBy says whether connections to p's addresses may come to a place.
func ServedBy(place netip.AddrPort, p netip.Prefix, ports []config.PortRange) bool {
	for _, r := range ports {
		if r.Contains(place.Port()) {
			a := place.Addr()
			return a.IsUnspecified() && a.Is4() == p.Addr().Is4() || !a.IsUnspecified() && reaches(a, p)
		}
	}
	return false
}

// reaches: 0.0.0.0/0 holds 127.0.0.1, but no client comes that way.
func reaches(a netip.Addr, p netip.Prefix) bool {
	return p.Contains(a) && (!a.IsLoopback() || p.Addr().IsLoopback())
}
