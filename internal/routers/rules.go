// SPDX-License-Identifier: Apache-2.0

// Package routers decides what this gate asks routers to do by BGP: to discard the traffic of sources that handshakes have proven
// (RFC 5635, RFC 8955), to discard what goes to an address of ours (by hand only), and to send a service's traffic here while the gate
// protects it. Times are arguments: it has no clock and no socket, and it must never see a packet or a BGP message.
package routers

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Kind is what routers are asked for.
type Kind string

// Kinds of routes.
const (
	Source      Kind = "source"      // discard what comes from a prefix (and, at most routers, what goes there): source RTBH
	Flow        Kind = "flow"        // discard TCP from a prefix to a prefix: FlowSpec
	Destination Kind = "destination" // discard what goes to a prefix of ours: RTBH; by hand only
	Service     Kind = "service"     // send what goes to this prefix here
)

// Kinds lists those that may be announced by hand.
func Kinds() []Kind { return []Kind{Source, Flow, Destination} }

// Route is one thing that routers are asked for.
type Route struct {
	Kind   Kind         `json:"kind"`
	Prefix netip.Prefix `json:"prefix"`
	To     netip.Prefix `json:"to,omitzero"` // of Flow
}

func (r Route) String() string {
	if r.Kind == Flow {
		return fmt.Sprintf("%s %s to %s", r.Kind, r.Prefix, r.To)
	}
	return fmt.Sprintf("%s %s", r.Kind, r.Prefix)
}

// order is that of lists.
func order(a, b Route) int {
	prefix := func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	}
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), prefix(a.Prefix, b.Prefix), prefix(a.To, b.To))
}

// Rules say what may be announced, whoever asks.
type Rules struct {
	Own    []netip.Prefix // ours: never a source; the only destinations
	Here   []netip.Prefix // of this machine and its services: never a source, either
	Never  []netip.Prefix // neither source nor destination
	Routed []netip.Prefix // addresses without which BGP itself would end: peers and next hops
}

// The widest source that may be announced by hand: a network that providers hand out. A typing error must not cut off a continent.
const (
	widestV4 = 24
	widestV6 = 48
)

// ErrRefused is wrapped by what Check returns.
var ErrRefused = errors.New("not announced")

// Check says why a route must not be announced.
func (r *Rules) Check(route Route) error {
	if err := usable(route.Prefix); err != nil {
		return err
	}
	if p, hit := overlaps(r.Never, route.Prefix); hit {
		return fmt.Errorf("%w: %s overlaps %s of bgp.never", ErrRefused, route.Prefix, p)
	}
	switch route.Kind {
	case Source:
		return r.checkSource(route.Prefix)
	case Flow:
		if err := errors.Join(r.checkSource(route.Prefix), usable(route.To)); err != nil {
			return err
		}
		if route.To.Addr().Is4() != route.Prefix.Addr().Is4() {
			return fmt.Errorf("%w: %s and %s are of different families", ErrRefused, route.Prefix, route.To)
		}
		return r.checkOwn(route.To)
	case Destination:
		if p, hit := overlaps(r.Routed, route.Prefix); hit {
			return fmt.Errorf("%w: %s overlaps %s, without which BGP would end", ErrRefused, route.Prefix, p)
		}
		return r.checkOwn(route.Prefix)
	}
	return fmt.Errorf("%w: kind %q is not known; use source, flow or destination", ErrRefused, route.Kind)
}

func (r *Rules) checkSource(p netip.Prefix) error {
	if widest := map[bool]int{true: widestV4, false: widestV6}[p.Addr().Is4()]; p.Bits() < widest {
		return fmt.Errorf("%w: source %s is wider than /%d; announce narrower prefixes", ErrRefused, p, widest)
	}
	if own, hit := overlaps(r.Own, p); hit {
		return fmt.Errorf("%w: source %s overlaps %s, which is ours", ErrRefused, p, own)
	}
	if own, hit := overlaps(r.Here, p); hit {
		return fmt.Errorf("%w: source %s overlaps %s, an address of this machine or its services", ErrRefused, p, own)
	}
	if at, hit := overlaps(r.Routed, p); hit {
		return fmt.Errorf("%w: %s overlaps %s, without which BGP would end", ErrRefused, p, at)
	}
	return nil
}

// checkOwn refuses destinations of others: to announce those would be a hijack.
func (r *Rules) checkOwn(p netip.Prefix) error {
	if slices.ContainsFunc(r.Own, func(own netip.Prefix) bool { return own.Bits() <= p.Bits() && own.Overlaps(p) }) {
		return nil
	}
	return fmt.Errorf("%w: destination %s is in none of bgp.own; only your own prefixes can be announced as destinations", ErrRefused, p)
}

// usable refuses what no router would take.
func usable(p netip.Prefix) error {
	a := p.Addr()
	switch {
	case !p.IsValid():
		return fmt.Errorf("%w: it has no prefix", ErrRefused)
	case p.Masked() != p:
		return fmt.Errorf("%w: %s has host bits; write %s", ErrRefused, p, p.Masked())
	case a.Is4In6() || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast():
		return fmt.Errorf("%w: %s is no unicast prefix of the Internet", ErrRefused, p)
	}
	return nil
}

func overlaps(list []netip.Prefix, p netip.Prefix) (netip.Prefix, bool) {
	i := slices.IndexFunc(list, p.Overlaps)
	if i < 0 {
		return netip.Prefix{}, false
	}
	return list[i], true
}
