// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/config"
)

// Devices of each kind, made in a network namespace: check reports them, and the advised alternative has no problem itself.
func TestDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making devices needs root")
	}
	type device = netlink.Link
	named := func(name string) netlink.LinkAttrs { return netlink.LinkAttrs{Name: name} }
	bond := netlink.NewLinkBond(named("bond0"))
	bond.Mode = netlink.BOND_MODE_ACTIVE_BACKUP
	for name, c := range map[string]struct {
		above   device // made on top of near, or nil
		master  bool   // near becomes its port
		look    string
		status  Status // empty: nothing is wrong
		text    string
		instead string // the advised alternative
	}{
		"veth":             {look: "near"},
		"port of a bridge": {above: &netlink.Bridge{LinkAttrs: named("br0")}, master: true, look: "near", status: Fail, text: "name br0 in `interfaces`", instead: "br0"},
		"port of a bond":   {above: bond, master: true, look: "near", status: Fail, text: "name bond0 in `interfaces`", instead: "bond0"},
		"VLAN":             {above: &netlink.Vlan{LinkAttrs: named("near.5"), VlanId: 5}, look: "near.5", status: Warn, text: "name near in `interfaces`, and run `ethtool -K near rxvlan off`", instead: "near"},
		"tun":              {above: &netlink.Tuntap{LinkAttrs: named("tun0"), Mode: netlink.TUNTAP_MODE_TUN}, look: "tun0", status: Fail, text: "no SYN is seen"},
		"tap":              {above: &netlink.Tuntap{LinkAttrs: named("tap0"), Mode: netlink.TUNTAP_MODE_TAP}, look: "tap0"},
		"VRF":              {above: &netlink.Vrf{LinkAttrs: named("vrf0"), Table: 7}, master: true, look: "near"},
	} {
		t.Run(name, func(t *testing.T) {
			var rows, advised []Check
			done := make(chan error)
			go func() {
				runtime.LockOSThread() // for good: the thread ends in a network namespace of its own
				done <- func() error {
					if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
						return err
					}
					attrs := named("near")
					attrs.NumRxQueues, attrs.NumTxQueues = runtime.NumCPU(), runtime.NumCPU()
					if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far"}); err != nil {
						return err
					}
					near, err := netlink.LinkByName("near")
					if err != nil {
						return err
					}
					if c.above != nil {
						if v, is := c.above.(*netlink.Vlan); is {
							v.ParentIndex = near.Attrs().Index
						}
						if err := netlink.LinkAdd(c.above); err != nil {
							return err
						}
					}
					if c.master {
						if err := netlink.LinkSetMaster(near, c.above); err != nil {
							return err
						}
					}
					see := func(name string) []Check {
						l, err := net.InterfaceByName(name)
						if err != nil {
							t.Error(err)
							return nil
						}
						n := lookAt(l)
						n.role = config.RoleHost
						return doctor(n, config.XDPAuto, config.DispatcherAuto, true)
					}
					rows = see(c.look)
					for _, command := range regexp.MustCompile("`(ethtool [^`]*)`").FindAllStringSubmatch(c.text, -1) {
						words := strings.Fields(command[1])
						if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
							t.Errorf("%s: %v: %s", command[1], err, out)
						}
					}
					if c.instead != "" {
						advised = see(c.instead)
					}
					return nil
				}()
			}()
			err := <-done
			if errors.Is(err, unix.EOPNOTSUPP) && os.Getenv("TIDEGATE_TEST_MODULES") == "" {
				t.Skipf("this kernel has no device of this kind (%v); test/kernel/run runs this test where it has", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if (len(rows) == 0) != (c.status == "") || len(rows) > 1 {
				t.Fatalf("%+v", rows)
			}
			for _, row := range rows {
				want(t, row, c.status, c.text)
			}
			for _, row := range advised {
				if row.Status != OK {
					t.Errorf("%s, which is advised: %+v", c.instead, row)
				}
			}
		})
	}
}
