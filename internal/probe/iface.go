// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"tidegate/internal/config"
)

// From linux/netdev.h: the generic netlink family that reports XDP features.
const (
	netdevFamily       = "netdev"
	netdevVersion      = 1
	netdevCmdDevGet    = 1
	netdevAttrIfindex  = 1
	netdevAttrFeatures = 3
	xdpFeatureBasic    = 1 << 0 // ABORTED, DROP, PASS, TX
	xdpFeatureRedirect = 1 << 1

	// nativeMTUMax is the biggest MTU that a driver with one page per frame
	// takes: 4096 less XDP headroom 256, skb_shared_info 320 and Ethernet with
	// two VLAN tags 22.
	nativeMTUMax = 4096 - 256 - 320 - 22

	vlanFeature = "rx-vlan-hw-parse" // the kernel's name; ethtool -K calls it rxvlan
)

// nic is the state of one interface.
type nic struct {
	name       string
	up         bool
	mtu        int
	xdpKnown   bool // the kernel reported the driver's XDP features
	nativeXDP  bool
	redirects  bool // in native XDP
	vlanStrips bool // the NIC removes VLAN tags before XDP sees the frame
	device     device
	role       string // what looks at it
}

// ends: connections end on this machine.
func (n nic) ends() bool { return n.role == config.RoleHost || n.role == config.RoleServer }

// looksFar: `xdp_mode: auto` chooses by the far end of a veth (internal/plane/farend.go). A server's takes native XDP all the same, for
// an edge's frames.
func (n nic) looksFar() bool { return n.role != config.RoleServer }

// interfaceChecks checks the named interfaces, or all that are up, for a role.
func interfaceChecks(names []string, mode config.XDPMode, use config.Dispatcher, role string) []Check {
	required := names != nil
	if !required {
		names = upInterfaces()
	}
	var list []Check
	for _, name := range names {
		link, err := net.InterfaceByName(name)
		if err != nil {
			list = append(list, Check{Name: "interface " + name, Status: Fail, Found: "does not exist here",
				Means: "`tidegate run` refuses to start", Fix: "correct `interfaces:`, see `ip link` for the names in this network namespace"})
			continue
		}
		n := lookAt(link)
		n.role = role
		list = append(list, judgeNIC(n, mode))
		list = append(list, doctor(n, mode, use, required)...)
	}
	if len(list) == 0 {
		list = append(list, Check{Name: "interfaces", Status: Warn, Found: "none is up but lo",
			Means: "there is nothing to protect", Fix: "run `ip link set IFACE up`"})
	}
	return list
}

func upInterfaces() []string {
	links, _ := net.Interfaces()
	var names []string
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 {
			names = append(names, l.Name)
		}
	}
	return names
}

func lookAt(link *net.Interface) nic {
	n := nic{name: link.Name, up: link.Flags&net.FlagUp != 0, mtu: link.MTU}
	if bits, err := xdpFeatures(link.Index); err == nil {
		n.xdpKnown, n.nativeXDP, n.redirects = true, bits&xdpFeatureBasic != 0, bits&xdpFeatureRedirect != 0
		n.device.inPieces = bits&xdpFeatureRxSG != 0
	}
	n.device.examine(link)
	n.vlanStrips = featureOn(link.Name, vlanFeature)
	return n
}

// featureOn reports whether an offload is on, by the kernel's name for it.
func featureOn(link, feature string) bool {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return false
	}
	defer e.Close()
	on, err := e.Features(link)
	return err == nil && on[feature]
}

// judgeNIC reports the worst problem of an interface; one row each keeps
// the table short.
func judgeNIC(n nic, mode config.XDPMode) Check {
	c := Check{Name: "interface " + n.name, Status: OK}
	xdp := "native XDP"
	switch {
	case !n.xdpKnown:
		xdp = "native XDP not known"
	case !n.nativeXDP:
		xdp = "generic XDP only"
	case n.device.farAway && mode == config.XDPAuto && n.looksFar():
		xdp = "native XDP if the far end of this veth runs an XDP program, else generic"
	}
	c.Found = fmt.Sprintf("%s, MTU %d%s", xdp, n.mtu, n.device.overview())
	warn := func(status Status, found, means, fix string) Check {
		c.Status, c.Means, c.Fix = status, means, fix
		c.Found += found
		return c
	}
	native := n.nativeXDP && mode != config.XDPGeneric
	if facts := onRecord[n.device.driver]; facts.hidesXDP && !n.nativeXDP && n.device.merging(facts) != "" {
		return c // the doctor reports what hides it
	}
	switch {
	case n.xdpKnown && !n.nativeXDP && mode == config.XDPNative:
		return warn(Fail, "", "`tidegate run` refuses to start", "set `xdp_mode: auto`, or use a NIC whose driver has XDP")
	case !n.up:
		return warn(Warn, ", down", "no packet comes through it", fmt.Sprintf("run `ip link set %s up`", n.name))
	case n.vlanStrips:
		return warn(Warn, ", strips VLAN tags", "tagged SYNs would be answered without their tag; untagged ones are not affected",
			fmt.Sprintf("if there are VLANs on it, run `ethtool -K %s rxvlan off`", n.name))
	case native && n.mtu > nativeMTUMax && !n.device.inPieces && onRecord[n.device.driver].source == "":
		return warn(Warn, "", "many drivers refuse native XDP at this MTU",
			fmt.Sprintf("if the start fails, run `ip link set %s mtu %d` or set `xdp_mode: generic`", n.name, nativeMTUMax))
	case n.xdpKnown && !n.nativeXDP && n.device.kind == "bridge": // a bridge has no more, and its ports do not have its address
	case n.xdpKnown && !n.nativeXDP:
		return warn(Warn, "", "every SYN costs an skb: far fewer are absorbed per second", "use a NIC whose driver has XDP")
	}
	return c
}

// genlHeader is struct genlmsghdr: command, version, two zero bytes. nl.Genlmsg
// of netlink v1.3.1 leaves those two to chance, and strict families refuse that.
type genlHeader struct{ command, version byte }

func (h genlHeader) Len() int          { return nl.SizeofGenlmsg }
func (h genlHeader) Serialize() []byte { return []byte{h.command, h.version, 0, 0} }

// xdpFeatures reads from the kernel (6.3 and newer) which XDP features a driver has.
func xdpFeatures(ifindex int) (uint64, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return 0, err
	}
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	req.AddData(genlHeader{netdevCmdDevGet, netdevVersion})
	req.AddData(nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(ifindex))))
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, err
	}
	for _, m := range msgs {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, err
		}
		for _, a := range attrs {
			if a.Attr.Type == netdevAttrFeatures && len(a.Value) >= 8 {
				return binary.NativeEndian.Uint64(a.Value), nil
			}
		}
	}
	return 0, fmt.Errorf("the kernel does not tell the XDP features of interface %d", ifindex)
}
