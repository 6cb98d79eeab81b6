// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The functions here act in the namespace of the calling thread.

// AddAddr gives an interface an address with its prefix length; an IPv6 one is usable at once, without duplicate detection.
func AddAddr(ifindex int, p netip.Prefix) error {
	a := &netlink.Addr{IPNet: IpNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if err := netlink.AddrAdd(linkRef(ifindex), a); err != nil {
		return fmt.Errorf("address %s: %w", p, err)
	}
	return nil
}

// AddRoute leads a prefix to a gateway on an interface. A route that exists is an error.
func AddRoute(ifindex int, to netip.Prefix, via netip.Addr) error {
	err := netlink.RouteAdd(&netlink.Route{LinkIndex: ifindex, Dst: IpNet(to), Gw: via.AsSlice(), Table: tableOf(ifindex)})
	if err != nil {
		return fmt.Errorf("route %s via %s: %w", to, via, err)
	}
	return nil
}

func addNeigh(ifindex int, ip netip.Addr, mac net.HardwareAddr) error {
	family := unix.AF_INET
	if ip.Is6() {
		family = unix.AF_INET6
	}
	err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex: ifindex, Family: family, State: unix.NUD_PERMANENT,
		IP: ip.AsSlice(), HardwareAddr: mac,
	})
	if err != nil {
		return fmt.Errorf("neighbour %s: %w", ip, err)
	}
	return nil
}

// IpNet is the prefix in the form of package net, with the bits of the host kept.
func IpNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func linkRef(ifindex int) netlink.Link {
	return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
}

// PathExists reports whether a path can be looked up; one that may not be counts as missing.
func PathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
