// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"net/netip"
	"testing"

	"tidegate/internal/config"
)

func TestTable(t *testing.T) {
	v6only := func(l *Listener) { l.V6Only = true }
	mptcp := func(l *Listener) { l.MPTCP = true }
	all4, all6 := prefixes("0.0.0.0/0"), prefixes("::/0")
	one, two := prefixes("192.0.2.1/32"), prefixes("192.0.2.1/32", "192.0.2.2/32")
	for _, tc := range []struct {
		name     string
		ls       []Listener
		prefixes []netip.Prefix
		ports    []uint16
		want     Kind
	}{
		{"nothing", nil, all4, []uint16{80}, Nobody},
		{"no prefix of the family", []Listener{at("::", 80)}, nil, []uint16{80}, Nobody},
		{"dual stack, IPv4", []Listener{at("::", 80)}, all4, []uint16{80}, Plain},
		{"dual stack, IPv6", []Listener{at("::", 80)}, all6, []uint16{80}, Plain},
		{"IPv6 only, IPv4", []Listener{with(at("::", 80), v6only)}, all4, []uint16{80}, Nobody},
		{"IPv4 only, IPv6", []Listener{at("0.0.0.0", 80)}, all6, []uint16{80}, Nobody},
		{"one address of many", []Listener{at("192.0.2.1", 80)}, all4, []uint16{80}, Varies},
		{"just that address", []Listener{at("192.0.2.1", 80)}, one, []uint16{80}, Plain},
		{"another address", []Listener{at("192.0.2.2", 80)}, one, []uint16{80}, Nobody},
		{"one of two addresses", []Listener{at("192.0.2.2", 80)}, two, []uint16{80}, Varies},
		{"mapped address", []Listener{at("::ffff:192.0.2.1", 80)}, one, []uint16{80}, Plain},
		{"wildcard and an address alike", []Listener{at("0.0.0.0", 80), at("192.0.2.1", 80)}, all4, []uint16{80}, Plain},
		{"wildcard and an MPTCP address", []Listener{at("0.0.0.0", 80), with(at("192.0.2.1", 80), mptcp)}, all4, []uint16{80}, Varies},
		{"the address decides, not the wildcard", []Listener{with(at("0.0.0.0", 80), mptcp), at("192.0.2.1", 80)}, one, []uint16{80}, Plain},
		{"one of two ports", []Listener{at("0.0.0.0", 80)}, all4, []uint16{80, 81}, Varies},
		{"two ports", []Listener{at("0.0.0.0", 80), at("0.0.0.0", 81)}, all4, []uint16{80, 81}, Plain},
		{"MPTCP on one of two ports", []Listener{at("0.0.0.0", 80), with(at("0.0.0.0", 81), mptcp)}, all4, []uint16{80, 81}, Varies},
		{"all MPTCP", []Listener{with(at("::", 80), mptcp)}, all4, []uint16{80}, Unfit},
		{"a group with an MPTCP member", []Listener{at("0.0.0.0", 80), with(at("::", 80), mptcp)}, all4, []uint16{80}, Unfit},
		{"no client comes to loopback", []Listener{at("0.0.0.0", 80), with(at("127.0.0.1", 80), mptcp)}, all4, []uint16{80}, Plain},
		{"a port that is not wanted", []Listener{at("0.0.0.0", 8080)}, all4, []uint16{8080}, Nobody},
	} {
		table := Places(tc.ls, func(port uint16) bool { return port < 8080 })
		if got := table.Kind(tc.prefixes, tc.ports); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	l, other := at("::", 80), at("0.0.0.0", 80)
	l.Cookie, other.Cookie = 7, 8
	places := Places([]Listener{l, other}, func(uint16) bool { return true }).All()
	if h := places[netip.MustParseAddrPort("[::]:80")]; len(h) != 1 || h.Cookie() != 7 {
		t.Errorf("IPv6: %v", h)
	}
	if h := places[netip.MustParseAddrPort("0.0.0.0:80")]; len(h) != 2 || h.Cookie() != 0 {
		t.Errorf("IPv4, two sockets: %v", h)
	}
	web := []config.PortRange{{First: 80, Last: 80}}
	for place, want := range map[string]bool{"0.0.0.0:80": true, "192.0.2.9:80": true, "198.51.100.1:80": false,
		"0.0.0.0:81": false, "[::]:80": false} {
		if got := ServedBy(netip.MustParseAddrPort(place), netip.MustParsePrefix("192.0.2.0/24"), web); got != want {
			t.Errorf("%s: %v", place, got)
		}
	}
}
