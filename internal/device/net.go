// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Addresses as in lwip/app/app.h. The lab's end is the device's gateway,
// so that answers to spoofed sources end there: nothing in the
// namespace forwards.
var (
	deviceMAC = net.HardwareAddr{0x02, 0x54, 0x47, 0, 0, 2}

	device4, lab4 = netip.MustParseAddr("198.18.7.2"), netip.MustParsePrefix("198.18.7.1/24")
	device6, lab6 = netip.MustParseAddr("fd7d:7467:7::2"), netip.MustParsePrefix("fd7d:7467:7::1/64")
)

const (
	tapName = "tg-device"

	sinkPort   = 5001
	httpPort   = 80
	beaconPort = 4999
)

// Net is one namespace with a tap in it, behind which a device may run.
type Net struct {
	NS    *rig.Namespace
	index int
	mac   net.HardwareAddr
	alias string
}

// serial distinguishes this process's namespaces: several devices may run at once.
var serial atomic.Uint32

// NewNet makes them, after removing what dead owners left.
func NewNet() (n *Net, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("the lab needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN): run it with sudo")
	}
	if _, err := rig.Clean(); err != nil {
		return nil, fmt.Errorf("clean up after dead labs: %w", err)
	}
	ns, err := rig.NewNamespace(fmt.Sprintf("device%d", serial.Add(1)))
	if err != nil {
		return nil, err
	}
	n = &Net{NS: ns, alias: "tidegate-lab " + ns.Name}
	if err := ns.Do(n.setUp); err != nil {
		return nil, errors.Join(fmt.Errorf("tap in %s: %w", ns.Name, err), ns.Close())
	}
	return n, nil
}

// setUp runs inside the namespace.
func (n *Net) setUp() error {
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: tapName}, Mode: netlink.TUNTAP_MODE_TAP}
	if err := netlink.LinkAdd(tap); err != nil {
		return err
	}
	l, err := netlink.LinkByName(tapName)
	if err != nil {
		return err
	}
	n.index, n.mac = l.Attrs().Index, l.Attrs().HardwareAddr
	errs := []error{netlink.LinkSetAlias(l, n.alias)}
	for _, p := range []netip.Prefix{lab4, lab6} {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if p.Addr().Is6() {
			a.Flags = unix.IFA_F_NODAD
		}
		errs = append(errs, netlink.AddrAdd(l, a))
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(append(errs, netlink.LinkSetUp(lo), netlink.LinkSetUp(l))...)
}

// verify checks, on the thread that is about to send, that it is inside the
// namespace made by this process and that the interface is the tap made here.
func (n *Net) verify() error {
	if !n.NS.Current() {
		return fmt.Errorf("%s: thread is outside %s: %w", tapName, n.NS.Name, rig.ErrForeignInterface)
	}
	l, err := netlink.LinkByIndex(n.index)
	if err != nil {
		return err
	}
	if l.Type() != "tuntap" || l.Attrs().Name != tapName || l.Attrs().Alias != n.alias {
		return fmt.Errorf("%s in %s: %w", l.Attrs().Name, n.NS.Name, rig.ErrForeignInterface)
	}
	return nil
}

// Close removes the namespace and with it the tap.
func (n *Net) Close() error { return n.NS.Close() }

// target is an address and port of the device.
func target(ipv6 bool, port uint16) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(device6, port)
	}
	return netip.AddrPortFrom(device4, port)
}
