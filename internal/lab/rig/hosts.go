// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/labbpf"
)

// Hosts is a lab without a flood: a client and a server, each with a network
// stack of its own, joined by one veth.
//
//	client (tg-client) --- (tg-server) server
//
// The far end has a program, so that what the gate sends by XDP_TX arrives, and
// the client fills in its checksums, as in frames from a wire.
type Hosts struct {
	Client, Server         *Namespace
	ClientPort, ServerPort *Port

	// Instance is a name for a gate that Clean recognizes as this process's.
	Instance string

	tag     string
	closers []func() error
}

// Addresses of Hosts, by family.
var (
	hostsServer4, hostsClient4 = netip.MustParsePrefix("198.18.3.1/24"), netip.MustParsePrefix("198.18.3.2/24")
	hostsServer6, hostsClient6 = netip.MustParsePrefix("fd7d:7467:4::1/64"), netip.MustParsePrefix("fd7d:7467:4::2/64")
)

// NewHosts makes a pair of hosts; tag distinguishes those of one process.
func NewHosts(tag string) (h *Hosts, err error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	h = &Hosts{Instance: InstPrefix + o.String() + "-" + tag, tag: tag}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
			h = nil
		}
	}()
	for role, at := range map[string]**Namespace{"client": &h.Client, "server": &h.Server} {
		n, err := MakeNamespace(o, role+"-"+tag)
		if err != nil {
			return h, err
		}
		*at = n
		h.closers = append(h.closers, n.Close)
		if err := n.SetSysctls(BaseSysctls()...); err != nil {
			return h, err
		}
	}
	if h.ClientPort, h.ServerPort, err = NewVeth(o, h.Client, "tg-client", h.Server, "tg-server"); err != nil {
		return h, err
	}
	err = errors.Join(
		addressHost(h.ClientPort, h.ServerPort, hostsClient4, hostsServer4, hostsClient6, hostsServer6),
		addressHost(h.ServerPort, h.ClientPort, hostsServer4, hostsClient4, hostsServer6, hostsClient6))
	if err != nil {
		return h, err
	}
	if err := h.attachPrograms(); err != nil {
		return h, err
	}
	return h, errors.Join(h.ClientPort.AwaitUp(), h.ServerPort.AwaitUp())
}

// AddNamespace makes another namespace, which is closed with the hosts.
func (h *Hosts) AddNamespace(role string) (*Namespace, error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	n, err := MakeNamespace(o, role+"-"+h.tag)
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, n.Close)
	return n, n.SetSysctls(BaseSysctls()...)
}

// AwaitUp waits until the port's link is up.
func (p *Port) AwaitUp() error {
	if err := p.NS.Do(func() error { return AwaitUp(p.Index) }); err != nil {
		return fmt.Errorf("%s in %s: %w", p.Name, p.NS.Name, err)
	}
	return nil
}

// AwaitUp waits until the kernel has noticed the carrier of a link of this thread's namespace: until then its
// queue drops every frame, and tells nobody (linkwatch, noop_qdisc).
func AwaitUp(index int) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l, err := netlink.LinkByIndex(index)
		if err != nil || l.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the link is not up but %s", l.Attrs().OperState)
		}
	}
}

// ServerAddr is the server's address of a family.
func (h *Hosts) ServerAddr(ipv6 bool) netip.Addr {
	if ipv6 {
		return hostsServer6.Addr()
	}
	return hostsServer4.Addr()
}

// ClientAddr is the client's address of a family.
func (h *Hosts) ClientAddr(ipv6 bool) netip.Addr {
	if ipv6 {
		return hostsClient6.Addr()
	}
	return hostsClient4.Addr()
}

// SetSysctl writes one sysctl of the namespace.
func (n *Namespace) SetSysctl(name, value string) error {
	return n.SetSysctls([2]string{name, value})
}

// SetMTU sets the MTU of the port.
func (p *Port) SetMTU(mtu int) error {
	return p.NS.Do(func() error { return netlink.LinkSetMTU(linkRef(p.Index), mtu) })
}

func addressHost(own, peer *Port, own4, peer4, own6, peer6 netip.Prefix) error {
	return own.NS.Do(func() error {
		if _, err := LoUp(); err != nil {
			return err
		}
		errs := []error{AddAddr(own.Index, own4), addNeigh(own.Index, peer4.Addr(), peer.MAC)}
		if HaveIPv6() {
			errs = append(errs, AddAddr(own.Index, own6), addNeigh(own.Index, peer6.Addr(), peer.MAC))
		}
		return errors.Join(errs...)
	})
}

func (h *Hosts) attachPrograms() error {
	var objs labbpf.LabFloodObjects
	if err := labbpf.LoadLabFloodObjects(&objs, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	h.closers = append(h.closers, objs.Close)
	l, err := h.ClientPort.AttachXDP(objs.TgLabPass)
	if err != nil {
		return err
	}
	h.closers = append(h.closers, l.Close)
	return errors.Join(h.ServerPort.EnableGRO(), h.ClientPort.DisableTxChecksum())
}

// Close takes everything down in reverse order and reports every failure.
func (h *Hosts) Close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i]())
	}
	h.closers = nil
	return errors.Join(errs...)
}
