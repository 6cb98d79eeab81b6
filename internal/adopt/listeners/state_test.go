// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"net/netip"
	"reflect"
	"testing"

	"tidegate/internal/config"
)

func at(addr string, port uint16) Listener {
	return Listener{Addr: netip.MustParseAddr(addr), Port: port}
}

func with(l Listener, change func(*Listener)) Listener {
	change(&l)
	return l
}

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestState(t *testing.T) {
	v6only := func(l *Listener) { l.V6Only = true }
	mptcp := func(l *Listener) { l.MPTCP = true }
	all := prefixes("0.0.0.0/0", "::/0")
	web := []config.PortRange{{First: 80, Last: 80}}
	for _, tc := range []struct {
		name     string
		ls       []Listener
		prefixes []netip.Prefix
		ports    []config.PortRange
		status   Status
		found    int
		missing  []config.PortRange
	}{
		{"nothing", nil, all, web, None, 0, web},
		{"wildcard v4", []Listener{at("0.0.0.0", 80)}, all, web, OK, 1, nil},
		{"wildcard v4 for v6", []Listener{at("0.0.0.0", 80)}, prefixes("2001:db8::/32"), web, None, 0, web},
		{"dual stack for v4", []Listener{at("::", 80)}, prefixes("192.0.2.0/24"), web, OK, 1, nil},
		{"v6 only for v4", []Listener{with(at("::", 80), v6only)}, prefixes("192.0.2.0/24"), web, None, 0, web},
		{"mapped address", []Listener{at("::ffff:192.0.2.1", 80)}, prefixes("192.0.2.0/24"), web, OK, 1, nil},
		{"inside the prefix", []Listener{at("192.0.2.1", 80)}, prefixes("192.0.2.0/24"), web, OK, 1, nil},
		{"outside the prefix", []Listener{at("198.51.100.1", 80)}, prefixes("192.0.2.0/24"), web, None, 0, web},
		{"loopback is not reachable", []Listener{at("127.0.0.1", 80), at("::1", 80)}, all, web, None, 0, web},
		{"loopback when meant", []Listener{at("127.0.0.1", 80)}, prefixes("127.0.0.0/8"), web, OK, 1, nil},
		{"other port", []Listener{at("0.0.0.0", 81)}, all, web, None, 0, web},
		{"mptcp", []Listener{with(at("0.0.0.0", 80), mptcp)}, all, web, MPTCP, 1, nil},
		{"bound to a device above", []Listener{with(at("0.0.0.0", 80), func(l *Listener) { l.Above = "vrf0" })}, all, web, Above, 1, nil},
		{"mptcp beside plain", []Listener{with(at("::", 80), mptcp), at("0.0.0.0", 80)}, all, web, MPTCP, 2, nil},
		{"holes", []Listener{at("0.0.0.0", 8003), at("0.0.0.0", 8000), at("::", 8003)}, all,
			[]config.PortRange{{First: 8000, Last: 8005}}, OK, 3, []config.PortRange{{First: 8001, Last: 8002}, {First: 8004, Last: 8005}}},
		{"the last port", []Listener{at("0.0.0.0", 65535)}, all, []config.PortRange{{First: 65534, Last: 65535}}, OK, 1,
			[]config.PortRange{{First: 65534, Last: 65534}}},
	} {
		got := State(tc.ls, tc.prefixes, tc.ports)
		if got.Status != tc.status || len(got.Listeners) != tc.found || !reflect.DeepEqual(got.Missing, tc.missing) {
			t.Errorf("%s: %s, %v, missing %v", tc.name, got.Status, got.Listeners, got.Missing)
		}
	}
}
