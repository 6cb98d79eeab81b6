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

// BondsVar names an environment variable with names of ports, separated by commas, that NewVeth makes bonds with one member: so whatever
// runs in the lab runs on bonds, too.
const BondsVar = "TIDEGATE_LAB_BONDS"

func isBonded(name string) bool {
	return slices.Contains(strings.Split(os.Getenv(BondsVar), ","), name)
}

// bond puts a bond of that name in the place of a device, and the device into it. To be called in the device's namespace.
func bond(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	over := netlink.NewLinkBond(netlink.LinkAttrs{Name: name, HardwareAddr: l.Attrs().HardwareAddr})
	over.Mode, over.Miimon = netlink.BOND_MODE_ACTIVE_BACKUP, 100
	err = errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, name+"-m"))
	if err == nil {
		err = netlink.LinkAdd(over)
	}
	if err == nil {
		err = errors.Join(netlink.LinkSetMaster(l, over), netlink.LinkSetUp(l))
	}
	if err != nil {
		return fmt.Errorf("bond %s: %w", name, err)
	}
	return nil
}
