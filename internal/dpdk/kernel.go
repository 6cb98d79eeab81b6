package dpdk

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Where DPDK works on interfaces of the kernel (af_packet), the kernel keeps
// addresses, neighbours and routes, and answers ARP and neighbour discovery; it must
// only not forward itself.

// KernelRoutes are the kernel's routes through the interfaces, whose neighbours it
// knows, as the program's router needs them. Ports are numbered as the interfaces.
func KernelRoutes(interfaces []string) (routes []Route, err error) {
	ports, neighbours := map[int]int{}, map[int]map[netip.Addr]net.HardwareAddr{}
	for i, name := range interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		index := dev.Attrs().Index
		ports[index] = i
		neighbours[index] = map[netip.Addr]net.HardwareAddr{}
		list, err := netlink.NeighList(index, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("neighbours of %s: %w", name, err)
		}
		for _, n := range list {
			a, ok := netip.AddrFromSlice(n.IP)
			if ok && len(n.HardwareAddr) == 6 && n.State&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 {
				a = a.Unmap()
				neighbours[index][a] = n.HardwareAddr
				routes = append(routes, Route{netip.PrefixFrom(a, a.BitLen()), i, n.HardwareAddr})
			}
		}
	}
	list, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	for _, r := range list {
		port, ours := ports[r.LinkIndex]
		gw, ok := netip.AddrFromSlice(r.Gw)
		if !ours || !ok {
			continue
		}
		mac, known := neighbours[r.LinkIndex][gw.Unmap()]
		if !known { // the kernel, which forwards nothing, has no reason to ask by itself
			_ = netlink.NeighSet(&netlink.Neigh{LinkIndex: r.LinkIndex, Family: familyOf(gw), IP: r.Gw,
				Flags: netlink.NTF_USE, State: netlink.NUD_NONE})
		}
		prefix, ok := destination(r.Dst, gw.Unmap())
		if known && ok {
			routes = append(routes, Route{prefix, port, mac})
		}
	}
	return routes, nil
}

// KernelLinks are the kernel's MTU and first global addresses of the interfaces, for the
// ICMP errors that the program's router sends.
func KernelLinks(interfaces []string) (links []Link, err error) {
	for i, name := range interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		link := Link{Port: i, MTU: dev.Attrs().MTU}
		list, err := netlink.AddrList(dev, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %w", name, err)
		}
		for _, l := range list {
			a, ok := netip.AddrFromSlice(l.IP)
			if a = a.Unmap(); !ok || !a.IsGlobalUnicast() {
				continue
			}
			if a.Is4() && !link.IPv4.IsValid() {
				link.IPv4 = a
			} else if a.Is6() && !link.IPv6.IsValid() {
				link.IPv6 = a
			}
		}
		links = append(links, link)
	}
	return links, nil
}

func familyOf(a netip.Addr) int {
	if a.Unmap().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// KeepNeighbours notes the neighbours of interfaces that somebody has set by hand, and
// gives a function that sets them again: DPDK's af_packet driver sets a port's MAC
// address when it starts, to what it is, and the kernel then forgets all of them.
func KeepNeighbours(interfaces []string) (restore func() error, err error) {
	var kept []netlink.Neigh
	for _, name := range interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		list, err := netlink.NeighList(dev.Attrs().Index, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("neighbours of %s: %w", name, err)
		}
		for _, n := range list {
			if n.State&netlink.NUD_PERMANENT != 0 {
				kept = append(kept, n)
			}
		}
	}
	return func() error {
		for i := range kept {
			if err := netlink.NeighSet(&kept[i]); err != nil {
				return fmt.Errorf("neighbour %s: %w", kept[i].IP, err)
			}
		}
		return nil
	}, nil
}

// destination is a route's prefix; a default route may have none.
func destination(dst *net.IPNet, gw netip.Addr) (netip.Prefix, bool) {
	if dst == nil {
		if gw.Is4() {
			return netip.PrefixFrom(netip.IPv4Unspecified(), 0), true
		}
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0), true
	}
	a, ok := netip.AddrFromSlice(dst.IP)
	ones, _ := dst.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones), ok
}

// KernelForwards says whether this network namespace forwards packets itself: then
// each would be forwarded twice.
func KernelForwards() bool {
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		if err == nil && strings.TrimSpace(string(text)) != "0" {
			return true
		}
	}
	return false
}

// StopMerging makes the kernel hand frames of an interface on as they came: segments
// that it has joined (GRO) are longer than DPDK's buffers, and than the next wire.
func StopMerging(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	arg := struct{ cmd, data uint32 }{unix.ETHTOOL_SGRO, 0}
	var req struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // the rest of the kernel's union
	}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	req.data = unsafe.Pointer(&arg)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("interface %s: GRO cannot be switched off: %w", name, errno)
	}
	return nil
}
