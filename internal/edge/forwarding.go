package edge

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
	"tidegate/internal/plane"
)

// What our SYN-ACKs say where the configuration says `auto`: what Linux servers say
// that nobody has tuned. The server role takes the same window scale for granted.
const (
	defaultWScale = config.SplitWScale
	defaultWindow = 64240
)

// targets lays the services out for the packet path.
func (b *box) targets() ([]plane.Target, error) {
	mtu := 65535
	for _, name := range b.cfg.Interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		mtu = min(mtu, max(dev.Attrs().MTU, 576))
	}
	modes := map[config.Mode]uint8{config.ModeMonitor: plane.ModeMonitor, config.ModeAlways: plane.ModeAlways}
	targets := make([]plane.Target, 0, len(b.cfg.Services))
	for _, svc := range b.cfg.Services {
		t := plane.Target{ID: b.numbers.ID(svc.Name), Prefixes: svc.Prefixes}
		for _, r := range svc.Ports {
			t.Ports = append(t.Ports, [2]uint16{r.First, r.Last})
		}
		t.Service = plane.Service{MssV4: uint16(mtu - 40), MssV6: uint16(mtu - 60), Window: defaultWindow,
			Wscale: defaultWScale, Sack: flag(b.cfg.Edge.SACK), Timestamps: flag(b.cfg.Edge.Timestamps),
			Ecn: flag(b.cfg.Edge.ECN), Mode: modes[svc.Mode]}
		b.roomForTags(&t.Service)
		if !svc.MSS.Auto {
			t.Service.MssV4, t.Service.MssV6 = uint16(svc.MSS.Value), uint16(svc.MSS.Value)
		}
		if !svc.WScale.Auto {
			t.Service.Wscale = uint8(svc.WScale.Value)
		}
		if !svc.Window.Auto {
			t.Service.Window = uint16(svc.Window.Value)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
