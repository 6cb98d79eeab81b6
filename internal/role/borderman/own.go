// SPDX-License-Identifier: Apache-2.0

package borderman

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"tidegate/internal/ifp"
)

// ownAddrs are the addresses of this machine: filter managers reach one of them, and
// patrols are reached from any. They are re-read because they change; safe for
// concurrent use.
type ownAddrs struct {
	listen netip.Addr
	list   atomic.Pointer[[]netip.Addr]
}

// refresh reads the addresses. On an error the earlier ones stay.
func (o *ownAddrs) refresh() error {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("own addresses, which no filter may cut off: %w", err)
	}
	var list []netip.Addr
	if o.listen.IsValid() && !o.listen.IsUnspecified() {
		list = append(list, o.listen.Unmap())
	}
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !slices.Contains(list, p.Addr().Unmap()) {
			list = append(list, p.Addr().Unmap())
		}
	}
	o.list.Store(&list)
	return nil
}

// ownEvery is the number of ticks of the nonces' clock between reads of the addresses.
const ownEvery = 5

// cutsControl reports whether a filter, whatever its action, would match the traffic by
// which it was requested or can be removed, or protected traffic. Not only
// BLOCK does harm there: BLOCK_TS0 drops requests whose path is not all Terminus, and
// CLEAR_TS changes the meaning of a conditional request.
func (m *Manager) cutsControl(fm netip.Addr, f *ifp.Filter) bool {
	for _, own := range *m.own.list.Load() {
		to, from := contains(f.Dst, own), contains(f.Src, own)
		if !to && !from {
			continue
		}
		meets := func(peer netip.Addr) bool { return to && f.Src.Contains(peer) || from && f.Dst.Contains(peer) }
		if meets(fm) {
			return true
		}
		for _, l := range m.reach.Load().links {
			if meets(l.patrol.Addr.Addr().Unmap()) {
				return true
			}
		}
	}
	for _, p := range *m.protect.Load() {
		if p.Overlaps(f.Src) || p.Overlaps(f.Dst) {
			return true
		}
	}
	return false
}

// contains is p.Contains, sooner for the single addresses that most filters have.
func contains(p netip.Prefix, a netip.Addr) bool {
	if p.IsSingleIP() {
		return p.Addr() == a
	}
	return p.Contains(a)
}
