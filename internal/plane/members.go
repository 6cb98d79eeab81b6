// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
)

// Native XDP on a bond runs on the bond's members, and a packet names the member that it came by. Everything else, routes and tables of
// interfaces included, names the bond. So the packet path is told who is whose member (bpf/lib/ingress.h).

// VarMembers are the members of bonds, each in the slot of its index's remainder.
const VarMembers = "tg_members"

// memberSlots is TG_MEMBER_SLOTS, and member struct tg_member, of bpf/lib/ingress.h.
const memberSlots = 256

type member struct{ Device, Bond uint32 }

// bondsMark is TG_BONDS_MARK of bpf/lib/ingress.h.
const bondsMark = 0x626f6e64

// HaveBonds reports whether one of these interfaces is a bond, for Options.Bonds.
func HaveBonds(interfaces []string) bool { return len(bondsAmong(interfaces)) != 0 }

// bondsAmong returns their indices.
func bondsAmong(interfaces []string) map[int]bool {
	bonds := map[int]bool{}
	for _, name := range interfaces {
		if dev, err := netlink.LinkByName(name); err == nil && dev.Type() == "bond" {
			bonds[dev.Attrs().Index] = true
		}
	}
	return bonds
}

// setBonds tells the programs of an object whether there are bonds, before it is loaded: where there are none the verifier removes the
// question from them.
func setBonds(spec *ebpf.CollectionSpec, bonds bool) {
	number := int64(0)
	if bonds {
		number = 1
	}
	for _, prog := range spec.Programs {
		for i := range prog.Instructions {
			ins := &prog.Instructions[i]
			if ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.ImmSource && ins.Constant == bondsMark {
				ins.Constant = number
			}
		}
	}
}

// FollowMembers asks the kernel for the members of the bonds among the interfaces, and tells the packet path. It is called before XDP is
// attached; call it again once a second, as members come and go. Without Options.Bonds, and in generic mode, it does nothing.
func (p *Plane) FollowMembers() error {
	table, there := p.maps[VarMembers] // not in a server's adopting gate, which has no XDP program
	if !p.bonded || p.mode == XDPGeneric || p.links == nil || !there {
		return nil
	}
	now, err := membersOf(bondsAmong(p.links.interfaces))
	if err != nil || maps.Equal(now, p.members) {
		return err
	}
	var slots [memberSlots]member
	for device, bond := range now {
		slot := &slots[device%memberSlots]
		if slot.Device != 0 {
			return fmt.Errorf("members of bonds: the numbers of two of them, %d and %d, have the same remainder by %d: set `xdp_mode: generic`, which needs no members", slot.Device, device, memberSlots)
		}
		*slot = member{device, bond}
	}
	for at, slot := range slots {
		if err := SetEntry(table, uint32(at), slot); err != nil {
			return fmt.Errorf("members of bonds: %w", err)
		}
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
		if at := l.Attrs(); bonds[at.MasterIndex] {
			found[uint32(at.Index)] = uint32(at.MasterIndex)
		}
	}
	return found, nil
}
