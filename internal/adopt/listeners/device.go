// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"slices"

	"github.com/vishvananda/netlink"
)

// On lists the TCP listeners of this network namespace that packets of these interfaces may reach, as Scan does. Without interfaces
// it is Scan.
func On(interfaces []string) ([]Listener, error) {
	all, err := Scan()
	if err != nil || len(interfaces) == 0 || !slices.ContainsFunc(all, func(l Listener) bool { return l.Ifindex != 0 }) {
		return all, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return all, nil // better to answer for too many listeners than to leave one unprotected
	}
	return reachable(all, interfaces, links), nil
}

// reachable leaves out listeners that are bound to a device (SO_BINDTODEVICE) which no
// packet of these interfaces passes: they are bound to none of them, nor to a device
// stacked on one (a VLAN, a bridge, a bond, a VRF). Of one that is bound to a stacked device it notes the device.
func reachable(ls []Listener, interfaces []string, links []netlink.Link) []Listener {
	passes, above := map[int]bool{}, map[int]string{}
	for _, l := range links {
		if !slices.Contains(interfaces, l.Attrs().Name) {
			continue
		}
		passes[l.Attrs().Index] = true
		for _, o := range over(l, links) {
			passes[o.Index], above[o.Index] = true, o.Name
		}
	}
	ls = slices.DeleteFunc(ls, func(l Listener) bool { return l.Ifindex != 0 && !passes[int(l.Ifindex)] })
	for i := range ls {
		ls[i].Above = above[int(ls[i].Ifindex)]
	}
	return ls
}

// over are the devices that what comes in by one may pass after it.
func over(from netlink.Link, links []netlink.Link) (list []*netlink.LinkAttrs) {
	start := from.Attrs().Index
	through := map[int]bool{start: true}
	for grows := true; grows; {
		grows = false
		for _, l := range links {
			a := l.Attrs()
			if !through[a.Index] && through[a.ParentIndex] && a.ParentIndex != 0 && l.Type() != "veth" {
				through[a.Index], grows = true, true
			}
			if through[a.Index] && a.MasterIndex != 0 && !through[a.MasterIndex] {
				through[a.MasterIndex], grows = true, true
			}
		}
	}
	for _, l := range links {
		if a := l.Attrs(); through[a.Index] && a.Index != start {
			list = append(list, a)
		}
	}
	return list
}
