// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

const bgpFile = `role: host
interfaces: [eth0]
secret_file: s
bgp: {as: 64512, router_id: 192.0.2.10, own: [203.0.113.0/24, "2001:db8::/48"], offenders: flow, communities: ["64500:1"], service_prefixes: [203.0.113.0/25]}
bgp_peers: [{address: 192.0.2.1, as: 4200000000, hops: 2, ttl_security: yes, flowspec: yes, password_file: p}, {address: "2001:db8:1::1", as: 64500}]
services: [{name: web, ports: [80]}]
`

func TestBGP(t *testing.T) {
	c, err := Parse("/etc/h.yaml", []byte(bgpFile))
	if err != nil {
		t.Fatal(err)
	}
	b := c.BGP
	if b.AS != 64512 || b.HoldTime != 30*time.Second || b.Offenders != OffendersFlow || b.Communities[0] != 64500<<16|1 || b.NextHop6 != netip.MustParseAddr("100::1") {
		t.Errorf("%+v", b)
	}
	want := BGPPeer{Address: netip.MustParseAddr("192.0.2.1"), Port: 179, AS: 4200000000, Password: "/etc/p", Hops: 2, GTSM: true, Flow: true}
	if len(b.Peers) != 2 || b.Peers[0] != want {
		t.Errorf("%+v", b.Peers)
	}
	for name, tt := range map[string]struct{ old, new, says string }{
		"no peers":               {"bgp_peers: [", "#", "bgp_peers: is missing"},
		"peers alone":            {"bgp: {", "#", "bgp_peers: needs `bgp`"},
		"nothing is ours":        {`own: [203.0.113.0/24, "2001:db8::/48"], `, "", "bgp.own: is missing"},
		"another's prefix":       {"service_prefixes: [203.0.113.0/25]", "service_prefixes: [203.0.112.0/23]", "203.0.112.0/23 is not within bgp.own"},
		"no AS":                  {"as: 64512, ", "", "bgp.as: is missing"},
		"an AS too large":        {"as: 64512", "as: 4294967295", "bgp.as"},
		"IPv6 identifier":        {"router_id: 192.0.2.10", `router_id: "2001:db8::1"`, "bgp.router_id"},
		"nobody takes flows":     {"flowspec: yes", "flowspec: no", "flow needs a peer with flowspec: yes"},
		"twice":                  {`address: "2001:db8:1::1"`, "address: 192.0.2.1", "192.0.2.1 is named twice"},
		"families":               {"hops: 2", `local_address: "2001:db8::2"`, "of different families"},
		"community of 17 bits":   {"64500:1", "65536:1", "bgp.communities"},
		"community without part": {"64500:1", "64500", "bgp.communities"},
	} {
		text := strings.Replace(bgpFile, tt.old, tt.new, 1)
		if text == bgpFile {
			t.Fatalf("%s: nothing was replaced", name)
		}
		if _, err := Parse("h.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
}
