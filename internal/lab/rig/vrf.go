// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// VRFsVar names an environment variable with names of ports, separated by commas, that NewVeth puts into a VRF, one for all such
// ports of a namespace: so a box's ports and routes are in a VRF, and whatever runs on the box is not.
const VRFsVar = "TIDEGATE_LAB_VRFS"

// vrfTable has the routes of a namespace's VRF.
const vrfTable = 77

func isInVRF(name string) bool {
	return slices.Contains(strings.Split(os.Getenv(VRFsVar), ","), name)
}

// enslave puts a device into its namespace's VRF, which it makes first. To be called in the device's namespace, before the
// device has addresses.
func enslave(l netlink.Link) error {
	v, err := netlink.LinkByName("tg-vrf")
	if err != nil {
		made := &netlink.Vrf{LinkAttrs: netlink.LinkAttrs{Name: "tg-vrf"}, Table: vrfTable}
		if err := netlink.LinkAdd(made); err != nil {
			return fmt.Errorf("VRF: %w", err)
		}
		v = made
	}
	if err := errors.Join(netlink.LinkSetUp(v), netlink.LinkSetMaster(l, v)); err != nil {
		return fmt.Errorf("VRF of %s: %w", l.Attrs().Name, err)
	}
	return nil
}

// tableOf is the table that routes by a device belong to; 0 is the main one.
func tableOf(ifindex int) int {
	if l, err := netlink.LinkByIndex(ifindex); err == nil && isInVRF(l.Attrs().Name) {
		return vrfTable
	}
	return 0
}
