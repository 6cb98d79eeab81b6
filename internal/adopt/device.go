// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"slices"

	"github.com/vishvananda/netlink"

	"tidegate/internal/adopt/listeners"
)

// reachable leaves out listeners that are bound to a device (SO_BINDTODEVICE) which no
// packet of these interfaces passes: they are bound to none of them, nor to a device
// stacked on one (a VLAN, a bridge, a bond, a VRF).
func reachable(ls []listeners.Listener, interfaces []string) []listeners.Listener {
	if !slices.ContainsFunc(ls, func(l listeners.Listener) bool { return l.Ifindex != 0 }) {
		return ls
	}
	links, err := netlink.LinkList()
	if err != nil {
		return ls // better to answer for too many listeners than to leave one unprotected
	}
	through := map[int]bool{}
	for grows := true; grows; {
		grows = false
		for _, l := range links {
			a := l.Attrs()
			if !through[a.Index] && (slices.Contains(interfaces, a.Name) || through[a.ParentIndex] && a.ParentIndex != 0 && l.Type() != "veth") {
				through[a.Index], grows = true, true
			}
			if through[a.Index] && a.MasterIndex != 0 && !through[a.MasterIndex] {
				through[a.MasterIndex], grows = true, true
			}
		}
	}
	return slices.DeleteFunc(ls, func(l listeners.Listener) bool { return l.Ifindex != 0 && !through[int(l.Ifindex)] })
}
