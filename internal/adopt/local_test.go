// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"net/netip"
	"reflect"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

func prefixList(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestOnlyLocal(t *testing.T) {
	local := prefixList("192.0.2.1/32", "198.51.100.0/24", "2001:db8::1/128")
	got := onlyLocal([]plane.Target{
		{ID: 1, Prefixes: prefixList("192.0.2.1/32")}, // an exception from the next
		{ID: 2, Prefixes: prefixList("0.0.0.0/0", "::/0")},
		{ID: 3, Prefixes: prefixList("198.51.100.7/32", "203.0.113.0/24")},
	}, local)
	want := []plane.Target{
		{ID: 2, Prefixes: prefixList("192.0.2.1/32", "198.51.100.0/24")},
		{ID: 2, Prefixes: prefixList("2001:db8::1/128")},
		{ID: 3}, // nothing of 203.0.113.0/24 is ours
		{ID: 1, Prefixes: prefixList("192.0.2.1/32")},
		{ID: 3, Prefixes: prefixList("198.51.100.7/32")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestSplitPorts(t *testing.T) {
	served, unserved := splitPorts([]config.PortRange{{First: 80, Last: 85}, {First: 65535, Last: 65535}},
		[]config.PortRange{{First: 80, Last: 80}, {First: 83, Last: 84}})
	if want := [][2]uint16{{81, 82}, {85, 85}, {65535, 65535}}; !reflect.DeepEqual(served, want) {
		t.Errorf("served %v, want %v", served, want)
	}
	if want := [][2]uint16{{80, 80}, {83, 84}}; !reflect.DeepEqual(unserved, want) {
		t.Errorf("unserved %v, want %v", unserved, want)
	}
}
