// SPDX-License-Identifier: Apache-2.0

package survey

import "testing"

// What devices are, and what shares them.
func TestLinks(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, `link add br0 type bridge
link add port0 type veth peer name up0
link set port0 master br0
link add child0 link up0 type macvlan
link add plain0 type veth peer name plain1
tuntap add tun0 mode tun
`, "ip", "-batch", "-")
	m := read(t, ns)
	for device, want := range map[string]string{"br0": "adopt", "port0": "translate bridge-port", "up0": "translate virtual-tenant",
		"child0": "adopt", "plain0": "adopt", "tun0": "translate layer-three", "nowhere0": "adopt"} {
		expectOf(t, m, to("192.0.2.1:80", device), want)
	}
}

// Rules may see packets arrive on a device above the named one: a condition on the
// named device is not taken for certain.
func TestDeviceOfRules(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, "link add plain0 type veth peer name up0\nlink add child0 link up0 type macvlan\n", "ip", "-batch", "-")
	run(t, ns, input("iifname \"plain0\" accept\niifname \"up0\" accept\niifname \"other0\" tcp flags syn drop\niifname \"child0\" tcp flags syn drop"), "nft", "-f", "-")
	m := read(t, ns)
	expectOf(t, m, to("192.0.2.1:80", "plain0"), "adopt")
	expectOf(t, m, to("192.0.2.1:80", "up0"), "translate virtual-tenant,syn-rule")
	expectOf(t, m, to("192.0.2.1:80"), "translate syn-rule")
}
