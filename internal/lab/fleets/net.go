// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/labbpf"
	"tidegate/internal/lab/rig"
)

// network is a star of namespaces: a hub, where clients and the flood are, and around it, each behind a veth of its own, gates, NATS servers and routers.
// The hub forwards; answers to forged sources end there, in a route that discards.
type network struct {
	owner   rig.Owner
	hub     *rig.Namespace
	objs    labbpf.LabFloodObjects
	closers []func() error
	hosts   []*host
}

// host is one end of the star.
type host struct {
	ns       *rig.Namespace
	addr     netip.Addr
	near     netip.Addr // the hub's address on the link
	hubPort  *rig.Port
	ownPort  *rig.Port
	instance string
}

// maxHosts is how many links have addresses.
const maxHosts = 64

func newNetwork(o rig.Owner) (n *network, err error) {
	n = &network{owner: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	if n.hub, err = rig.MakeNamespace(o, "hub"); err != nil {
		return n, err
	}
	n.closers = append(n.closers, n.hub.Close)
	if err := n.hub.SetSysctls(append(rig.BaseSysctls(), [2]string{"net.ipv4.ip_forward", "1"})...); err != nil {
		return n, err
	}
	if err := labbpf.LoadLabFloodObjects(&n.objs, nil); err != nil {
		return n, fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	n.closers = append(n.closers, n.objs.Close)
	return n, n.hub.Do(func() error {
		if _, err := rig.LoUp(); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: rig.IpNet(netip.MustParsePrefix("0.0.0.0/0")), Type: unix.RTN_BLACKHOLE})
	})
}

// add makes a host.
func (n *network) add(name string) (*host, error) {
	k := len(n.hosts)
	if k >= maxHosts {
		return nil, fmt.Errorf("more than %d hosts", maxHosts)
	}
	h := &host{near: netip.AddrFrom4([4]byte{198, 18, byte(64 + k), 1}), addr: netip.AddrFrom4([4]byte{198, 18, byte(64 + k), 2}), instance: rig.InstPrefix + n.owner.String() + "-" + name}
	var err error
	if h.ns, err = rig.MakeNamespace(n.owner, name); err != nil {
		return nil, err
	}
	n.closers = append(n.closers, h.ns.Close)
	if err := h.ns.SetSysctls(append(rig.BaseSysctls(), [2]string{"net.ipv4.tcp_syncookies", "1"})...); err != nil {
		return nil, err
	}
	if h.hubPort, h.ownPort, err = rig.NewVeth(n.owner, n.hub, "to-"+name, h.ns, "tg-net"); err != nil {
		return nil, err
	}
	err = errors.Join(
		n.hub.Do(func() error { return rig.AddAddr(h.hubPort.Index, netip.PrefixFrom(h.near, 30)) }),
		h.ns.Do(func() error {
			if _, err := rig.LoUp(); err != nil {
				return err
			}
			return errors.Join(rig.AddAddr(h.ownPort.Index, netip.PrefixFrom(h.addr, 30)), rig.AddRoute(h.ownPort.Index, netip.MustParsePrefix("0.0.0.0/0"), h.near))
		}))
	if err != nil {
		return nil, err
	}
	// What a gate sends by XDP_TX arrives only where a program is attached.
	l, err := h.hubPort.AttachXDP(n.objs.TgLabPass)
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, l.Close)
	n.hosts = append(n.hosts, h)
	return h, errors.Join(h.ownPort.EnableGRO(), h.hubPort.DisableTxChecksum(), h.ownPort.DisableTxChecksum(), h.hubPort.AwaitUp(), h.ownPort.AwaitUp())
}

func (n *network) close() error {
	var errs []error
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	return errors.Join(errs...)
}
