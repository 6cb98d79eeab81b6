// SPDX-License-Identifier: Apache-2.0

package replyroute

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// kernel is the kernel's state.
type kernel struct {
	links      map[int]link
	strict     map[int]bool // rp_filter of IPv4
	rules      map[Family][]rule
	rulesError map[Family]string // why there are none
	tables     map[Family]map[uint32]map[netip.Prefix][]netlink.Route
	tooMany    map[Family]bool // routes: these are not all
	neighbours map[place]neighbour
	remembered map[place]memory // neighbours that it no longer has
}

type link struct {
	name            string
	kind            string
	master, parent  int
	parentElsewhere bool // in another network namespace
	vid             int
	table           uint32 // of a VRF
	ethernet        bool
}

type place struct {
	dev  int
	addr netip.Addr
}

type neighbour struct {
	Neighbour
	valid bool // it has a MAC address
}

// memory is what was last known of a neighbour.
type memory struct {
	Neighbour
	since time.Time // when it was first missed
}

// lost returns the neighbours that the kernel had, at most `remember` ago, and has no longer.
func lost(last, k *kernel, now time.Time) map[place]memory {
	if last == nil {
		return nil
	}
	found := map[place]memory{}
	keep := func(at place, m memory) {
		if k.neighbours[at].valid || k.links[at.dev].name == "" || now.Sub(m.since) >= remember || len(found) == MaxNeighbours {
			return
		}
		m.Sure = false
		found[at] = m
	}
	for at, m := range last.remembered {
		keep(at, m)
	}
	for at, n := range last.neighbours {
		if n.valid {
			keep(at, memory{n.Neighbour, now})
		}
	}
	return found
}

// families by number.
var netlinkFamily = map[Family]int{4: netlink.FAMILY_V4, 6: netlink.FAMILY_V6}

// read reads everything, or only neighbours if the rest is already in before.
func read(before *kernel) (k *kernel, err error) {
	k = &kernel{}
	if before != nil {
		*k = *before
	} else if err := k.readTables(); err != nil {
		return nil, err
	}
	return k, k.readNeighbours()
}

func (k *kernel) readTables() error {
	k.links, k.strict = map[int]link{}, map[int]bool{}
	list, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list of interfaces: %w", err)
	}
	for _, l := range list {
		at := l.Attrs()
		entry := link{name: at.Name, kind: l.Type(), master: at.MasterIndex, parent: at.ParentIndex,
			parentElsewhere: at.NetNsID >= 0, ethernet: len(at.HardwareAddr) == 6 && at.EncapType == "ether"}
		if v, ok := l.(*netlink.Vlan); ok {
			entry.vid = v.VlanId
		}
		if v, ok := l.(*netlink.Vrf); ok {
			entry.table = v.Table
		}
		if entry.kind == "veth" { // its peer is not a parent
			entry.parent = 0
		}
		k.links[at.Index] = entry
		k.strict[at.Index] = max(rpFilter("all"), rpFilter(at.Name)) == 1
	}
	k.rules, k.rulesError = map[Family][]rule{}, map[Family]string{}
	k.tables, k.tooMany = map[Family]map[uint32]map[netip.Prefix][]netlink.Route{}, map[Family]bool{}
	for _, f := range Families {
		if k.rules[f], err = readRules(f); err != nil {
			k.rulesError[f] = err.Error()
		}
		if err := k.readRoutes(f); err != nil {
			return err
		}
	}
	return nil
}

// rpFilter is the sysctl of an interface, or of all.
func rpFilter(name string) int {
	text, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", name, "rp_filter"))
	if err != nil || len(text) == 0 {
		return 0
	}
	return int(strings.TrimSpace(string(text))[0] - '0')
}

// readRoutes stops when there are too many.
func (k *kernel) readRoutes(f Family) error {
	tables, n := map[uint32]map[netip.Prefix][]netlink.Route{}, 0
	k.tables[f] = tables
	ofVRF := map[uint32]bool{}
	for _, l := range k.links {
		if l.kind == "vrf" {
			ofVRF[l.table] = true
		}
	}
	err := netlink.RouteListFilteredIter(netlinkFamily[f], &netlink.Route{Table: unix.RT_TABLE_UNSPEC},
		netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if r.Table == unix.RT_TABLE_LOCAL || r.Tos != 0 || r.Type == unix.RTN_MULTICAST || ofVRF[uint32(r.Table)] && ofMachine(r.Type) {
				return true
			}
			prefix, ok := prefixOf(r, f)
			if !ok {
				return true
			}
			if n++; n > MaxRoutes {
				k.tooMany[f] = true
				return false
			}
			t := uint32(r.Table)
			if tables[t] == nil {
				tables[t] = map[netip.Prefix][]netlink.Route{}
			}
			tables[t][prefix] = append(tables[t][prefix], r)
			return true
		})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // changes during the dump are notified
		return fmt.Errorf("routes: %w", err)
	}
	return nil
}

// ofMachine reports whether routes of a type lead to no client, but to this machine or to everybody: a VRF's table has them among
// its others, where without a VRF the table of local routes has them.
func ofMachine(kind int) bool {
	return kind == unix.RTN_LOCAL || kind == unix.RTN_BROADCAST || kind == unix.RTN_ANYCAST
}

func prefixOf(r netlink.Route, f Family) (netip.Prefix, bool) {
	if r.Dst == nil {
		if f == 4 {
			return netip.PrefixFrom(netip.IPv4Unspecified(), 0), true
		}
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0), true
	}
	addr, ok := netip.AddrFromSlice(r.Dst.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := r.Dst.Mask.Size()
	if f == 4 {
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, ones).Masked(), true
}

const (
	nudSure  = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE
	nudValid = nudSure | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
)

func (k *kernel) readNeighbours() error {
	k.neighbours = map[place]neighbour{}
	for _, f := range Families {
		list, err := netlink.NeighListExecute(netlink.Ndmsg{Family: uint8(netlinkFamily[f])})
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("neighbours: %w", err)
		}
		for _, n := range list {
			addr, ok := netip.AddrFromSlice(n.IP)
			if !ok || addr.IsMulticast() || len(n.HardwareAddr) != 6 && n.State&nudValid != 0 {
				continue
			}
			at := place{n.LinkIndex, addr.Unmap()}
			entry := neighbour{Neighbour{Dev: at.dev, Addr: at.addr, Sure: n.State&nudSure != 0}, n.State&nudValid != 0}
			if entry.valid {
				entry.MAC = [6]byte(n.HardwareAddr)
			}
			k.neighbours[at] = entry
		}
	}
	return nil
}

// Resolve makes the kernel resolve a neighbour, or confirm it, as traffic to it would.
func Resolve(n Neighbour) error {
	const use = 1 // NTF_USE
	family := unix.AF_INET
	if n.Addr.Is6() {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK)
	req.AddData(&netlink.Ndmsg{Family: uint8(family), Index: uint32(n.Dev), Flags: use})
	req.AddData(nl.NewRtAttr(unix.NDA_DST, n.Addr.AsSlice()))
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("asking for the neighbour %s: %w", n.Addr, err)
	}
	return nil
}
