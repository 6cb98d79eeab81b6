// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"testing"

	"github.com/vishvananda/netlink"
)

// Listeners bound to a device: of what packets of an interface pass, all but the interface itself lie above it.
func TestAbove(t *testing.T) {
	at := func(index, parent, master int, name string) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, ParentIndex: parent, MasterIndex: master, Name: name}
	}
	links := []netlink.Link{
		&netlink.Device{LinkAttrs: at(2, 0, 9, "eth0")}, &netlink.Device{LinkAttrs: at(3, 0, 0, "eth1")},
		&netlink.Vrf{LinkAttrs: at(9, 0, 0, "vrf0"), Table: 7}, &netlink.Vlan{LinkAttrs: at(5, 2, 8, "eth0.7")},
		&netlink.Bridge{LinkAttrs: at(8, 0, 0, "br0")}, &netlink.Veth{LinkAttrs: at(6, 3, 0, "veth0")},
	}
	for _, c := range []struct {
		interfaces []string
		bound      int
		there      bool
		above      string
	}{
		{[]string{"eth0"}, 0, true, ""},
		{[]string{"eth0"}, 2, true, ""},
		{[]string{"eth0"}, 9, true, "vrf0"},
		{[]string{"eth0"}, 5, true, "eth0.7"},
		{[]string{"eth0"}, 8, true, "br0"}, // above a device above it
		{[]string{"eth0"}, 3, false, ""},
		{[]string{"eth1"}, 6, false, ""}, // a veth's peer is not above it
		{[]string{"eth0", "eth1"}, 3, true, ""},
		{[]string{"eth0", "eth0.7"}, 5, true, "eth0.7"}, // the program below sees its packets first
		{[]string{"eth0.7"}, 5, true, ""},
	} {
		got := reachable([]Listener{{Port: 80, Ifindex: uint32(c.bound)}}, c.interfaces, links)
		if len(got) == 1 != c.there || c.there && got[0].Above != c.above {
			t.Errorf("bound to %d, tidegate on %v: %+v", c.bound, c.interfaces, got)
		}
	}
}
