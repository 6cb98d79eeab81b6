// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// family is a network protocol.
type family uint8

const (
	ipv4 family = unix.NFPROTO_IPV4
	ipv6 family = unix.NFPROTO_IPV6
)

func familyOf(a netip.Addr) family {
	if a.Is4() || a.Is4In6() {
		return ipv4
	}
	return ipv6
}

// legacyTool is the program that shows the family's legacy tables, whichever iptables is the default.
func (f family) legacyTool() string {
	if f == ipv4 {
		return "iptables-legacy"
	}
	return "ip6tables-legacy"
}

// nftFamily is the family of an nftables table.
type nftFamily uint8

func (n nftFamily) String() string {
	switch n {
	case unix.NFPROTO_INET:
		return "inet"
	case unix.NFPROTO_IPV4:
		return "ip"
	case unix.NFPROTO_IPV6:
		return "ip6"
	case unix.NFPROTO_ARP:
		return "arp"
	case unix.NFPROTO_BRIDGE:
		return "bridge"
	case unix.NFPROTO_NETDEV:
		return "netdev"
	}
	return "family?"
}

// sees says whether a table of this family sees packets of another at the hooks of IP.
func (n nftFamily) sees(f family) bool { return n == unix.NFPROTO_INET || n == nftFamily(f) }
