// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

const dpdkFile = `role: proxy
plane: dpdk
forwarding: router
interfaces: [wan, lan]
secret_file: s
dpdk:
  cores: "1-2,4"
  memory_mib: 512
  huge_pages: true
  devices: ["0000:03:00.0", "0000:03:00.1"]
  routes: ["192.0.2.0/24 via lan 02:00:00:00:00:01", "::/0 via wan 02:00:00:00:00:02"]
  addresses: ["198.51.100.1 on wan"]
  white_bitmap: true
  idle_us: 0
services:
  - {name: web, ports: [80]}
`

func TestDPDK(t *testing.T) {
	c, err := Parse("f", []byte(dpdkFile))
	if err != nil {
		t.Fatal(err)
	}
	d := c.Proxy.DPDK
	if c.Plane != PlaneDPDK || d.Cores != "1-2,4" || d.MemoryMiB != 512 || !d.HugePages || !d.WhiteBitmap ||
		len(d.Devices) != 2 || len(d.Routes) != 2 || d.Routes[1].Interface != "wan" || d.Routes[0].MAC[5] != 1 ||
		len(d.Addresses) != 1 || d.IdleUs != 0 {
		t.Errorf("%+v", c.Proxy)
	}
}

func TestDPDKRefuses(t *testing.T) {
	for _, change := range [][2]string{
		{"plane: dpdk", "plane: p4"},
		{"plane: dpdk\n", ""},
		{`"1-2,4"`, `"all"`},
		{`, "0000:03:00.1"]`, "]"},
		{"via lan", "via dmz"},
		{"02:00:00:00:00:01", "02:00"},
		{"198.51.100.1 on wan", "2001:db8::1 on wan"},
		{"true", "maybe"},
		{"idle_us", "idle"},
		{"role: proxy", "role: host"},
	} {
		text := strings.Replace(dpdkFile, change[0], change[1], 1)
		if text == dpdkFile {
			t.Fatalf("%q: nothing changed", change[0])
		}
		if _, err := Parse("f", []byte(text)); err == nil {
			t.Errorf("%q for %q: accepted", change[1], change[0])
		}
	}
}
