// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"testing"
)

// The first addresses of the servers' network are a router's own: it is not mistaken for the server.
func TestRouteToServersPassesOwnAddresses(t *testing.T) {
	for _, c := range []struct {
		prefix string
		own    int // how many of the first addresses are this box's
		local  bool
		asked  int
	}{{"192.0.2.0/24", 0, false, 1}, {"192.0.2.0/24", 1, false, 2}, {"2001:db8::/64", 3, false, 4}, {"192.0.2.7/32", 1, true, 1}, {"192.0.2.8/31", 2, true, 1}, {"192.0.2.0/24", 100, true, ownTried}} {
		p := netip.MustParsePrefix(c.prefix)
		asked := 0
		w := routeToServers(p, func(a netip.Addr) kernelRoute {
			if !p.Contains(a) {
				t.Errorf("%s: asked for %s", c.prefix, a)
			}
			asked++
			return kernelRoute{local: asked <= c.own}
		})
		if w.local != c.local || asked != c.asked {
			t.Errorf("%s with %d own addresses: local %v after %d questions, want %v after %d", c.prefix, c.own, w.local, asked, c.local, c.asked)
		}
	}
}
