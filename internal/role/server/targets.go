// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/instance"
	"tidegate/internal/plane"
)

// ownWindow is the window of our own SYN-ACKs, as edges announce it.
const ownWindow = 64240

// setOwn writes the settings for our own answers to SYNs, used when no edge is in front.
func (n *node) setOwn() error {
	mtu := 65535
	for _, name := range n.cfg.Interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		mtu = min(mtu, max(dev.Attrs().MTU, 576))
	}
	n.mtu = uint16(mtu)
	return n.plane.SetOwnMACs(n.cfg.Interfaces)
}

// setEdges writes where confirmations go; routes may change.
func (n *node) setEdges() error {
	for _, e := range n.cfg.Tagged.Edges {
		if err := n.plane.SetEdge(e.ID, e.V4, e.V6, outputTo(e.V4), outputTo(e.V6)); err != nil {
			return err
		}
	}
	return nil
}

// outputTo is the interface of the route to an address; 0 if there is none.
func outputTo(a netip.Addr) int {
	if !a.IsValid() {
		return 0
	}
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 {
		return 0
	}
	return routes[0].LinkIndex
}

// targets are the services, or the pieces into which they were divided.
func (n *node) targets() []plane.Target {
	var targets []plane.Target
	if n.auto() {
		for i := range n.pieces {
			targets = append(targets, n.target(&n.pieces[i]))
		}
		return targets
	}
	for i := range n.cfg.Services {
		targets = append(targets, n.translated(&n.cfg.Services[i]))
	}
	return targets
}

// translated is a whole service, translated for wherever its listeners are.
func (n *node) translated(svc *config.Service) plane.Target {
	modes := map[config.Mode]uint8{config.ModeMonitor: plane.ModeMonitor, config.ModeAlways: plane.ModeAlways, config.ModeAuto: plane.ModeAlways}
	t := plane.Target{ID: n.numbers.ID(svc.Name), Prefixes: svc.Prefixes, Ports: portPairs(svc.Ports),
		Service: plane.Service{Wscale: config.SplitWScale, Sack: 1, Timestamps: 1, Ecn: 1, Mode: modes[svc.Mode], Verify: 1, // in every mode: the cookies are of edges, whose mode is their own
			MssV4: n.mtu - 40, MssV6: n.mtu - 60, Window: ownWindow}} // the last three of our own answers to SYNs
	if instance.LabelsFlows() {
		t.Service.FlowKey = n.flowKey
	}
	if svc.Offer != nil {
		t.Service.Wscale = svc.Offer.WScale
	}
	if n.cfg.Server.Layout == config.LayoutSmartcookie { // which cannot restore them
		t.Service.Sack, t.Service.Timestamps, t.Service.Ecn = 0, 0, 0
	}
	if !svc.MSS.Auto {
		t.Service.MssV4, t.Service.MssV6 = uint16(svc.MSS.Value), uint16(svc.MSS.Value)
	}
	if !svc.Window.Auto {
		t.Service.Window = uint16(svc.Window.Value)
	}
	if !svc.WScale.Auto {
		t.Service.Wscale = uint8(svc.WScale.Value)
	}
	return t
}
