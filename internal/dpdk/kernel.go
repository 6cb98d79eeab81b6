// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Where DPDK works on kernel interfaces (af_packet), the kernel keeps
// addresses, neighbours and routes (kernelroutes.go, neighbours.go), and answers ARP and
// neighbour discovery; but it must not forward itself.

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

// KeepNeighbours records the interfaces' permanent neighbours, and
// returns a function that sets them again: DPDK's af_packet driver sets a port's MAC
// address when it starts, to the same value, and the kernel then forgets all of them.
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

// KernelForwards reports whether this network namespace forwards packets itself: then
// each packet would be forwarded twice.
func KernelForwards() bool {
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		text, err := os.ReadFile("/proc/sys/" + name)
		if err == nil && strings.TrimSpace(string(text)) != "0" {
			return true
		}
	}
	return false
}

// StopMerging makes the kernel pass frames of an interface on as a wire has them: segments
// that it has merged, or that a sender on this machine has left for TSO, are longer
// than DPDK's buffers, and than the next wire. It lasts until stop is called.
func StopMerging(name string) (stop func() error, err error) {
	if err := stopGRO(name); err != nil {
		return nil, err
	}
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
	}
	if dev.Type() != "veth" {
		return func() error { return nil }, nil
	}
	// The far end of a veth leaves segments uncut unless this end has an XDP program.
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Name: "tg_pass", License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()}})
	if err != nil {
		return nil, fmt.Errorf("interface %s: XDP program: %w", name, err)
	}
	defer prog.Close()
	at, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: dev.Attrs().Index, Flags: link.XDPDriverMode})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return func() error { return nil }, nil // another program has the same effect
	}
	if err != nil {
		return nil, fmt.Errorf("interface %s: XDP program: %w", name, err)
	}
	return at.Close, nil
}

const xdpPass = 2 // enum xdp_action

// stopGRO disables GRO.
func stopGRO(name string) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Change(name, map[string]bool{"rx-gro": false}); err != nil {
		return fmt.Errorf("interface %s: GRO cannot be switched off: %w", name, err)
	}
	return nil
}
