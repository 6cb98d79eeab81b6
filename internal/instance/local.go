// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LocalPrefixes are the destinations local to this machine, without
// loopback.
func LocalPrefixes() ([]netip.Prefix, error) {
	var local []netip.Prefix
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{
			Table: unix.RT_TABLE_UNSPEC, Type: unix.RTN_LOCAL}, // those of VRFs, too
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
		if err != nil {
			return nil, fmt.Errorf("local routing table: %w", err)
		}
		for _, r := range routes {
			if p, ok := routePrefix(r.Dst); ok && !p.Addr().IsLoopback() {
				local = append(local, p)
			}
		}
	}
	slices.SortFunc(local, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(local), nil
}

func routePrefix(dst *net.IPNet) (netip.Prefix, bool) {
	if dst == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(dst.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := dst.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones).Masked(), true
}
