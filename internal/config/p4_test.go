// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const switchFile = `role: proxy
plane: p4
interfaces: [sw1, sw2]
inside: [sw2]
secret_file: s
p4:
  notifications: /n
  macs: ["02:00:00:00:00:01 on sw1"]
  port_macs: ["sw2 from 02:00:00:00:00:02 to 02:00:00:00:00:03"]
services:
  - {name: web, ports: [80], strategy: auth-full}
  - {name: api, ports: ["8000-8001"], strategy: auth-full}
`

func TestP4(t *testing.T) {
	c, err := Parse("f", []byte(switchFile))
	if err != nil {
		t.Fatal(err)
	}
	if c.Plane != PlaneP4 || c.P4.MACLimit != 1024 || c.P4.Whitelist != P4WhitelistTable || len(c.Proxy.Inside) != 1 || c.P4.PortMACs[0].Interface != "sw2" {
		t.Errorf("%+v", c)
	}
	quiet := strings.Replace(strings.Replace(switchFile, "  notifications: /n\n", "  whitelist: bloom\n", 1), "  macs:", "  mac_age: 1m\n  macs:", 1)
	if c, err := Parse("f", []byte(quiet)); err != nil || c.P4.MACLimit != 0 {
		t.Errorf("without notifications: %+v, %v; no address can be learned", c, err)
	}
	many := "services:\n"
	for i := range 64 {
		many += fmt.Sprintf("  - {name: s%d, ports: [%d], strategy: auth-full}\n", i, i+1)
	}
	for _, c := range []struct{ old, new, want string }{
		{"interfaces: [sw1, sw2]", "interfaces: [sw1]", "sw2 is not one of interfaces"},
		{"inside: [sw2]\n", "", "inside: is missing"},
		{"inside: [sw2]", "inside: [sw1, sw2]", "no interface is left for clients"},
		{"api, ports: [\"8000-8001\"], strategy: auth-full", "api, ports: [81], strategy: cookie", "one program on a switch has one strategy"},
		{"notifications: /n", "mac_limit: 0", "p4.notifications: is missing"},
		{"notifications: /n", "mac_limit: 9", "addresses are learned from notifications"},
		{"notifications: /n", "thrift: here", `"here" is not an address and port`},
		{"notifications: /n", "mtu: 1500", "p4.mtu: belongs to role: edge"},
		{"01 on sw1", "01 on sw9", "is not a MAC address at a port"},
		{"from 02:00:00:00:00:02", "from 02", "is not a port"},
		{"8000-8001", "8000-20000", "and the switch's table holds 4096"},
		{switchFile[strings.Index(switchFile, "services:"):], many, "64 services are too many for plane: p4"},
		{"plane: p4", "plane: p4\nkey_horizon: 10m", "out of range; use 16s to 8m32s"},
		{"role: proxy", "role: host", "plane: belongs to roles proxy and edge"},
	} {
		text := strings.Replace(switchFile, c.old, c.new, 1)
		if text == switchFile {
			t.Fatalf("%q: nothing changed", c.old)
		}
		if _, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.new, err, c.want)
		}
	}
	cookie := strings.ReplaceAll(switchFile, "auth-full", "cookie")
	if _, err := Parse("f", []byte(strings.Replace(cookie, "notifications: /n", "notifications: /n\n  whitelist: bloom", 1))); err == nil || !strings.Contains(err.Error(), "means nothing under strategy cookie") {
		t.Errorf("whitelist under cookie: %v", err)
	}
}

// What the planes do not support, as documented for operators: a field that the table gives to a plane by mistake
// would be accepted there and ignored.
func TestPlanesLackTheseFields(t *testing.T) {
	for plane, names := range map[Plane][]string{
		PlaneP4: {"clock_skew", "drain", "xdp_mode", "forwarding", "fast_path", "max_flows", "max_sources", "cache_entries", "whitelist_v4", "source_prefix_v4", "source_prefix_v6",
			"report_to", "dpdk", "filter_bits", "offers", "peers", "services.signed", "services.signed_rate", "services.defer_accept"},
		PlaneDPDK: {"xdp_mode", "fast_path", "whitelist_v4", "p4", "inside"},
		PlaneXDP:  {"dpdk", "p4"},
	} {
		for _, name := range names {
			for _, role := range forwarders {
				if !slices.Contains(rolesOf(name), role) || !slices.Contains(fieldOf("plane", role, plane).Words, string(plane)) {
					continue
				}
				if planes := planesOf(name, role); len(planes) == 0 || slices.Contains(planes, plane) {
					t.Errorf("role %s, plane %s has %s", role, plane, name)
				}
			}
		}
	}
}
