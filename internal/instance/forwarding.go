// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"tidegate/internal/config"
)

// Forwarding is the settings of the machine that a forwarding proxy or edge needs.
type Forwarding struct {
	Kind       config.Forwarding
	Interfaces []string
	Log        *slog.Logger
	Promisc    []string // interfaces made promiscuous by Prepare, or by that of an earlier process of the instance
	fresh      []string // by this process
}

// OwnPrefixes are the destinations that a router accepts as its own, less loopback: packets to them are not
// forwarded to a server. A bridge has none in the traffic that passes it.
func OwnPrefixes(kind config.Forwarding) ([]netip.Prefix, error) {
	if kind == config.ForwardBridge {
		return nil, nil
	}
	return LocalPrefixes()
}

// Prepare: a bridge must receive frames for others; a router's kernel
// must forward.
func (f *Forwarding) Prepare() error {
	if f.Kind == config.ForwardRouter {
		for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
			text, err := os.ReadFile("/proc/sys/" + name)
			if err == nil && strings.TrimSpace(string(text)) == "0" {
				f.Log.Warn("this machine does not forward: enable it with sysctl, or no packet of this family reaches a server",
					"sysctl", strings.ReplaceAll(name, "/", ".")+"=0")
			}
		}
		return nil
	}
	for _, name := range f.Interfaces {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		if dev.Attrs().Promisc != 0 {
			continue
		}
		if err := netlink.SetPromiscOn(dev); err != nil {
			return fmt.Errorf("interface %s: promiscuous mode: %w", name, err)
		}
		f.fresh = append(f.fresh, name)
		if !slices.Contains(f.Promisc, name) {
			f.Promisc = append(f.Promisc, name)
		}
	}
	return nil
}

// Undo reverts what this process's Prepare has done.
func (f *Forwarding) Undo() error { return endPromiscuous(f.fresh) }

// PromiscuousBy are the interfaces that an earlier process of an instance has made promiscuous.
func PromiscuousBy(stateDir, instance string) []string {
	s, err := readState(StatePath(stateDir, instance))
	if err != nil {
		return nil
	}
	return s.Promisc
}
