// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// link is what is known of one network device.
type link struct {
	name, kind    string
	index         int
	master        *link
	over          []*link // devices that share it: VLANs, macvlan, ipvlan
	layerThree    bool    // no Ethernet header
	table         int     // of a VRF: of its routes
	parent, above int
}

// links are the devices of a network namespace, by name.
type links map[string]*link

func readLinks() (links, error) {
	var all []netlink.Link
	var err error = netlink.ErrDumpInterrupted
	for i := 0; i < attempts && errors.Is(err, netlink.ErrDumpInterrupted); i++ {
		all, err = netlink.LinkList()
	}
	if err != nil {
		return nil, err
	}
	found, byIndex := links{}, map[int]*link{}
	for _, l := range all {
		a := l.Attrs()
		one := &link{name: a.Name, kind: l.Type(), index: a.Index, parent: a.ParentIndex, above: a.MasterIndex,
			layerThree: a.EncapType != "" && a.EncapType != "ether" && a.EncapType != "loopback"}
		if a.NetNsID >= 0 {
			one.parent = 0 // in another network namespace
		}
		if v, ok := l.(*netlink.Vrf); ok {
			one.table = int(v.Table)
		}
		found[a.Name], byIndex[a.Index] = one, one
	}
	for _, l := range found {
		l.master = byIndex[l.above]
		if p := byIndex[l.parent]; p != nil && l.kind != "veth" {
			p.over = append(p.over, l)
		}
	}
	return found, nil
}

// readLocal reads the local routes, of which VRFs have theirs in tables of their own.
func readLocal(ls links) (list []netip.Prefix, err error) {
	var routes []netlink.Route
	err = netlink.ErrDumpInterrupted
	for i := 0; i < attempts && errors.Is(err, netlink.ErrDumpInterrupted); i++ {
		routes, err = netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC, Type: unix.RTN_LOCAL},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	}
	list = []netip.Prefix{}
	for _, r := range routes {
		if r.Dst == nil || r.Table != unix.RT_TABLE_LOCAL && !ls.ofVRF(r.Table) {
			continue
		}
		a, _ := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		list = append(list, netip.PrefixFrom(a.Unmap(), bits))
	}
	return list, err
}

// ofVRF reports whether a routing table is a VRF's.
func (ls links) ofVRF(table int) bool {
	for _, l := range ls {
		if l.kind == "vrf" && l.table == table {
			return true
		}
	}
	return false
}

// judge returns what about a device itself keeps the kernel from adopting connections that arrive on it.
func (ls links) judge(device string) (found []Finding) {
	l := ls[device]
	if l == nil {
		return nil
	}
	if l.master != nil && l.master.kind == "bridge" {
		found = append(found, Finding{BridgePort, fmt.Sprintf("%s is a port of the bridge %s, which has the address: name %s in `interfaces`", l.name, l.master.name, l.master.name),
			"bridge link show dev " + l.name})
	}
	for _, o := range l.over {
		if o.kind == "macvlan" || o.kind == "ipvlan" || o.kind == "macvtap" || o.kind == "ipvtap" {
			found = append(found, Finding{VirtualTenant, fmt.Sprintf("%s shares %s (%s): what is for it must not be taken for this machine's", o.name, l.name, o.kind),
				"ip -d link show dev " + o.name})
		}
	}
	if l.layerThree {
		found = append(found, Finding{LayerThree, fmt.Sprintf("%s carries no Ethernet header (%s): no SYN is seen on it", l.name, l.kind), "ip -d link show dev " + l.name})
	}
	return found
}

// inputDevice is what rules call the device that packets come in by: another than the one
// that was named if something lies above it.
func (ls links) inputDevice(device string) (name string, index uint32) {
	l := ls[device]
	if l == nil || l.master != nil || len(l.over) > 0 {
		return "", 0
	}
	return l.name, uint32(l.index)
}
