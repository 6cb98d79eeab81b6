// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"

	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// The host role protects this machine. Where it forwards for others (a router, a container or VM host, a
// bridge), a SYN to port 80 may be for another machine: then services are narrowed to the machine's own
// addresses, as its local routing table has them.

// forwards reports whether packets for other machines can come in through the interfaces.
func forwards(interfaces []string) bool {
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		if v, err := instance.SysctlInts(name, 1); err == nil && v[0] != 0 {
			return true
		}
	}
	for _, name := range interfaces {
		for _, conf := range []string{"net/ipv4/conf/", "net/ipv6/conf/"} {
			if v, err := instance.SysctlInts(conf+name+"/forwarding", 1); err == nil && v[0] != 0 {
				return true
			}
		}
		if _, err := os.Stat(filepath.Join("/sys/class/net", name, "brport")); err == nil {
			return true
		}
		if l, err := netlink.LinkByName(name); err == nil && l.Attrs().MasterIndex != 0 {
			return true // of a bridge, a bond, a VRF: sysfs does not show this in every namespace
		}
	}
	return false
}

// onlyLocal narrows targets to local. A target with several prefixes becomes
// several, the widest first: where two narrow to the same address, the one
// configured more narrowly is written last and stays.
func onlyLocal(targets []plane.Target, local []netip.Prefix) []plane.Target {
	type part struct {
		target plane.Target
		bits   int
	}
	var parts []part
	for _, t := range targets {
		for _, p := range t.Prefixes {
			narrow := t
			narrow.Prefixes = intersect(p, local)
			parts = append(parts, part{narrow, p.Bits()})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.bits, b.bits) })
	narrowed := make([]plane.Target, len(parts))
	for i, p := range parts {
		narrowed[i] = p.target
	}
	return narrowed
}

// intersect lists what p has in common with each of local.
func intersect(p netip.Prefix, local []netip.Prefix) []netip.Prefix {
	var common []netip.Prefix
	for _, l := range local {
		if !p.Overlaps(l) {
			continue
		}
		if l.Bits() > p.Bits() {
			common = append(common, l)
		} else {
			common = append(common, p)
		}
	}
	return common
}

// watchLocal checks whether a change of the machine's addresses has changed what is to be
// protected.
func (g *gate) watchLocal() (changed bool) {
	var now []netip.Prefix
	if g.system.forwards {
		var err error
		if now, err = instance.LocalPrefixes(); err != nil {
			g.log.Error("cannot read this machine's addresses", "error", err)
			return false
		}
		if now == nil {
			now = []netip.Prefix{} // forwarding, and no address: protect nothing
		}
	}
	if (now == nil) == (g.local == nil) && slices.Equal(now, g.local) {
		return false
	}
	g.local, g.untold = now, now != nil
	return true
}

// tellLocal logs once which addresses are protected, when they are.
func (g *gate) tellLocal() {
	if g.untold {
		g.log.Info("this machine forwards for others: only its own addresses are protected", "addresses", fmt.Sprint(g.local))
		g.untold = false
	}
}
