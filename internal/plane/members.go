// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"maps"
	"net"

	"github.com/vishvananda/netlink"

	"tidegate/internal/plane/hostbpf"
)

// Native XDP on a bond runs on the bond's members, and a packet names the member that it came by. Everything else, routes and tables of
// interfaces included, names the bond. So the packet path is told who is whose member (bpf/lib/ingress.h).

// VarMembersAny is whether there are members.
const VarMembersAny = "tg_members_any"

// FollowMembers asks the kernel for the members of the bonds among the interfaces, and tells the packet path. It is called before XDP is
// attached; call it again once a second, as members come and go. Where no interface is a bond it asks once.
func (p *Plane) FollowMembers() error {
	table, there := p.maps[hostbpf.HostXdpMapTgMembers]
	if !there || p.links == nil {
		return nil
	}
	if p.bonds == nil {
		p.bonds = map[int]bool{}
		for _, name := range p.links.interfaces {
			if dev, err := netlink.LinkByName(name); err == nil && dev.Type() == "bond" {
				p.bonds[dev.Attrs().Index] = true
			}
		}
	}
	if len(p.bonds) == 0 {
		return nil
	}
	now, err := membersOf(p.bonds)
	if err != nil || maps.Equal(now, p.members) {
		return err
	}
	for member, bond := range now {
		if err := table.Put(member, bond); err != nil {
			return fmt.Errorf("members of bonds: %w", err)
		}
	}
	for member := range p.members {
		if _, still := now[member]; !still {
			_ = table.Delete(member) // a device that no packet comes by as a member's does no harm here
		}
	}
	any := uint32(min(1, len(now)))
	if err := p.maps[VarMembersAny].Put(uint32(0), any); err != nil {
		return fmt.Errorf("members of bonds: %w", err)
	}
	p.members = now
	return nil
}

// membersOf returns the index of the bond by that of each member.
func membersOf(bonds map[int]bool) (map[uint32]uint32, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("members of bonds: %w", err)
	}
	found := map[uint32]uint32{}
	for _, l := range links {
		if at := l.Attrs(); bonds[at.MasterIndex] && at.Flags&net.FlagLoopback == 0 {
			found[uint32(at.Index)] = uint32(at.MasterIndex)
		}
	}
	return found, nil
}
