// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"tidegate/internal/adopt/listeners"
	"tidegate/internal/config"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func portRange(first, last uint16) config.PortRange {
	return config.PortRange{First: first, Last: last}
}

func TestChoose(t *testing.T) {
	anywhere := netip.IPv4Unspecified()
	one := netip.MustParseAddr("192.0.2.1")
	web := config.Service{Name: "web", Prefixes: prefixes("192.0.2.0/24"), Ports: []config.PortRange{portRange(80, 82)}}
	for _, c := range []struct {
		name     string
		facts    facts
		services []config.Service
		want     []string
	}{
		{"a guest's addresses", facts{local: prefixes("198.51.100.1/32")}, []config.Service{web},
			[]string{"web 192.0.2.0/24 [80-82] translate"}},
		{"plain, MPTCP and nobody", facts{local: prefixes("192.0.2.1/32"), sockets: []listeners.Listener{
			{Addr: anywhere, Port: 80}, {Addr: one, Port: 81, MPTCP: true}}}, []config.Service{web},
			[]string{"web 192.0.2.0/24 [80-82] translate", "web 192.0.2.1/32 [80] adopt", "web 192.0.2.1/32 [81] translate", "web 192.0.2.1/32 [82] translate"}},
		{"two listeners of one port, of which one is MPTCP", facts{local: prefixes("192.0.2.1/32"), sockets: []listeners.Listener{
			{Addr: one, Port: 80, MPTCP: true}, {Addr: anywhere, Port: 80}}}, []config.Service{web},
			[]string{"web 192.0.2.0/24 [80-82] translate", "web 192.0.2.1/32 [80] translate", "web 192.0.2.1/32 [81-82] translate"}},
		{"another listener on each address", facts{local: prefixes("192.0.2.1/32", "192.0.2.2/32"), sockets: []listeners.Listener{
			{Addr: one, Port: 80, MPTCP: true}, {Addr: netip.MustParseAddr("192.0.2.2"), Port: 80}}},
			[]config.Service{{Name: "web", Prefixes: web.Prefixes, Ports: []config.PortRange{portRange(80, 80)}}},
			[]string{"web 192.0.2.0/24 [80] translate", "web 192.0.2.1/32 [80] translate", "web 192.0.2.2/32 [80] adopt"}},
		{"in doubt, which the adopting gate keeps", facts{local: prefixes("192.0.2.1/32"), doubted: map[netip.AddrPort]string{netip.AddrPortFrom(anywhere, 80): "no socket"},
			sockets: []listeners.Listener{{Addr: anywhere, Port: 80}, {Addr: anywhere, Port: 81}, {Addr: anywhere, Port: 82}}}, []config.Service{web},
			[]string{"web 192.0.2.0/24 [80-82] translate", "web 192.0.2.1/32 [80] adopt", "web 192.0.2.1/32 [81 82] adopt"}},
		{"SYN cookies are off", facts{noCookies: true, local: prefixes("192.0.2.1/32"), sockets: []listeners.Listener{{Addr: anywhere, Port: 80}}},
			[]config.Service{web}, []string{"web 192.0.2.0/24 [80-82] translate", "web 192.0.2.1/32 [80] translate", "web 192.0.2.1/32 [81-82] translate"}},
		{"an old kernel", facts{unable: "old", local: prefixes("192.0.2.1/32"), sockets: []listeners.Listener{{Addr: anywhere, Port: 80}}},
			[]config.Service{web}, []string{"web 192.0.2.0/24 [80-82] translate"}},
		{"the highest port", facts{local: prefixes("192.0.2.1/32"), sockets: []listeners.Listener{{Addr: anywhere, Port: 65535}}},
			[]config.Service{{Name: "web", Prefixes: web.Prefixes, Ports: []config.PortRange{portRange(65534, 65535)}}},
			[]string{"web 192.0.2.0/24 [65534-65535] translate", "web 192.0.2.1/32 [65534] translate", "web 192.0.2.1/32 [65535] adopt"}},
		{"the narrower service comes last and stays", facts{local: prefixes("192.0.2.1/32"), sockets: []listeners.Listener{{Addr: anywhere, Port: 80}}},
			[]config.Service{{Name: "narrow", Prefixes: prefixes("192.0.2.1/32"), Ports: []config.PortRange{portRange(80, 80)}},
				{Name: "wide", Prefixes: prefixes("0.0.0.0/0"), Ports: []config.PortRange{portRange(80, 80)}}},
			[]string{"wide 0.0.0.0/0 [80] translate", "wide 192.0.2.1/32 [80] adopt", "narrow 192.0.2.1/32 [80] translate", "narrow 192.0.2.1/32 [80] adopt"}},
	} {
		var got []string
		for _, p := range choose(c.services, c.facts) {
			got = append(got, fmt.Sprintf("%s %s %v %s", p.service.Name, p.prefix, p.ports, p.takeover))
			if p.why == "" {
				t.Errorf("%s: %s: no reason", c.name, got[len(got)-1])
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// The adopting gate has a piece of every service, whatever there is to adopt, and one
// for each set of ports.
func TestAdopted(t *testing.T) {
	services := []config.Service{
		{Name: "a", Prefixes: prefixes("192.0.2.0/24"), Ports: []config.PortRange{portRange(80, 81)}},
		{Name: "b", Prefixes: prefixes("192.0.2.0/24"), Ports: []config.PortRange{portRange(90, 90)}},
	}
	f := facts{local: prefixes("192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32"), sockets: []listeners.Listener{
		{Addr: netip.IPv4Unspecified(), Port: 80}, {Addr: netip.MustParseAddr("192.0.2.3"), Port: 81}}}
	var got []string
	for _, s := range adopted(services, choose(services, f)) {
		got = append(got, fmt.Sprintf("%s %v %v", s.Name, s.Prefixes, s.Ports))
	}
	want := []string{"a [192.0.2.1/32 192.0.2.2/32] [80]", "a#1 [192.0.2.3/32] [80 81]", "b [] []"}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// Where adoptions have failed, the operator reads that connections are translated, and why, although the adopting gate keeps the listener
// and tries again. A listener of one family, or of one address, says nothing of the others.
func TestChoicesInDoubt(t *testing.T) {
	web := config.Service{Name: "web", Prefixes: prefixes("0.0.0.0/0", "::/0"), Ports: []config.PortRange{portRange(80, 80)}}
	f := facts{local: prefixes("192.0.2.1/32", "192.0.2.2/32", "2001:db8::1/128"), sockets: []listeners.Listener{{Addr: netip.IPv6Unspecified(), Port: 80}}}
	for _, c := range []struct {
		doubted netip.Addr
		want    []string // addresses that are translated for
	}{
		{netip.IPv4Unspecified(), []string{"192.0.2.1/32", "192.0.2.2/32"}},
		{netip.IPv6Unspecified(), []string{"2001:db8::1/128"}},
		{netip.MustParseAddr("192.0.2.2"), []string{"192.0.2.2/32"}},
		{netip.MustParseAddr("192.0.2.3"), nil},
	} {
		f.doubted = map[netip.AddrPort]string{netip.AddrPortFrom(c.doubted, 80): "no socket"}
		var got []string
		for _, choice := range choices(choose([]config.Service{web}, f)) {
			if choice.Why == "no socket" && choice.How == "translate" {
				got = append(got, choice.Addresses...)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("doubt at %s: translated for %q, want %q", c.doubted, got, c.want)
		}
	}
}
