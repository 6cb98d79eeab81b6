// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"

	"github.com/vishvananda/netlink"

	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// own holds the addresses of frames and packets to this machine: everything else is left to the kernel,
// which drops it or passes it to a container, a virtual machine, a peer.
type own struct {
	ports []plane.OwnPort
	local []netip.Prefix
}

// readOwn asks the kernel. An interface takes frames to its own MAC address, to its master's
// (a bridge, a bond), and to those of devices stacked on it in this network namespace (VLANs,
// macvlan devices of VRRP). A macvlan child in another namespace is not among them.
func readOwn(interfaces []string) (o own, err error) {
	if o.local, err = instance.LocalPrefixes(); err != nil {
		return o, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return o, fmt.Errorf("list of interfaces: %w", err)
	}
	for _, l := range links {
		at := l.Attrs()
		if !slices.Contains(interfaces, at.Name) {
			continue
		}
		p := plane.OwnPort{Index: at.Index, Loopback: at.Flags&net.FlagLoopback != 0, MACs: []net.HardwareAddr{at.HardwareAddr}}
		for _, other := range links {
			o := other.Attrs()
			above := o.ParentIndex == at.Index && o.NetNsID < 0 || at.MasterIndex != 0 && o.Index == at.MasterIndex
			if above && len(o.HardwareAddr) == 6 && !slices.ContainsFunc(p.MACs, func(m net.HardwareAddr) bool { return slices.Equal(m, o.HardwareAddr) }) {
				p.MACs = append(p.MACs, o.HardwareAddr)
			}
		}
		o.ports = append(o.ports, p)
	}
	return o, nil
}

// watchReplies checks where answers go, and updates the packet path.
func (g *gate) watchReplies() {
	if !g.plane.AnswersSYNs() {
		return
	}
	if g.replies == nil {
		g.replies = instance.NewReplies(g.log)
	}
	if g.replies.Tell(g.plane, g.cfg.Interfaces) && g.modes != nil {
		if err := g.writeState(); err != nil {
			g.log.Error("writing the state file", "error", err)
		}
	}
}

// gatewaysChanged reports whether the packet path needs another gateway (watchOwn).
func (g *gate) gatewaysChanged() bool {
	return slices.ContainsFunc(g.own.ports, func(p plane.OwnPort) bool {
		return !reflect.DeepEqual(p.Gateway, g.replies.Gateway(p.Index))
	})
}

// watchOwn checks whether addresses have changed, and updates the packet path.
func (g *gate) watchOwn() error {
	now, err := readOwn(g.cfg.Interfaces)
	if err != nil {
		return fmt.Errorf("looking for this machine's addresses: %w; those from before stay in use", err)
	}
	for i := range now.ports {
		now.ports[i].Gateway = g.replies.Gateway(now.ports[i].Index)
	}
	if g.settings.OnlyOwn == 1 && reflect.DeepEqual(now, g.own) {
		return nil
	}
	if err := g.plane.SetOwn(now.ports, now.local); err != nil {
		return err
	}
	g.own, g.settings.OnlyOwn = now, 1
	return nil
}
