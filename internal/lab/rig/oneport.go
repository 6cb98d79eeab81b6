// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"tidegate/internal/lab/labbpf"
)

// Topologies in which attacker and clients are behind one port, so that their packets wait
// in one queue:
//
//	outside (tg-attack) --- (tg-flood) server
//	outside (tg-attack) --- (tg-flood) proxy (tg-inner) --- (tg-server) server
//
// In their Topology, Attacker and Client are the same, and so are FloodPort and LegitPort.

// NewOnePort makes the first topology.
func NewOnePort(o Owner) (t *Topology, err error) {
	t = &Topology{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
			t = nil
		}
	}()
	if err := t.makeNamespaces(o, map[string]**Namespace{"outside": &t.Attacker, "server": &t.Server}); err != nil {
		return t, err
	}
	if err := t.Server.SetBacklog(serverBacklog); err != nil {
		return t, err
	}
	if t.AttackerPort, t.FloodPort, err = NewVeth(o, t.Attacker, "tg-attack", t.Server, "tg-flood"); err != nil {
		return t, err
	}
	t.Client, t.ClientPort, t.LegitPort = t.Attacker, t.AttackerPort, t.FloodPort
	err = errors.Join(t.addressOutside(), t.Server.Do(func() error {
		lo, err := LoUp()
		if err != nil {
			return err
		}
		errs := []error{AddAddr(lo, netip.PrefixFrom(serviceIP4, 32)), t.addressFront()}
		if HaveIPv6() {
			errs = append(errs, AddAddr(lo, netip.PrefixFrom(serviceIP6, 128)))
		}
		return errors.Join(errs...)
	}))
	if err != nil {
		return t, err
	}
	return t, t.attachDoor()
}

// NewOnePortProxy makes the second topology.
func NewOnePortProxy(o Owner) (p *ProxyTopology, err error) {
	p = &ProxyTopology{Topology: &Topology{}, Instance: InstPrefix + o.String()}
	p.Box = p
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	if err := p.makeNamespaces(o, map[string]**Namespace{"outside": &p.Attacker, "proxy": &p.Proxy, "server": &p.Server}); err != nil {
		return p, err
	}
	forwarding := [][2]string{{"net.ipv4.ip_forward", "1"}}
	if HaveIPv6() {
		forwarding = append(forwarding, [2]string{"net.ipv6.conf.all.forwarding", "1"})
	}
	if err := errors.Join(p.Server.SetBacklog(serverBacklog), p.Proxy.SetSysctls(forwarding...)); err != nil {
		return p, err
	}
	if p.AttackerPort, p.FloodPort, err = NewVeth(o, p.Attacker, "tg-attack", p.Proxy, "tg-flood"); err != nil {
		return p, err
	}
	p.Client, p.ClientPort, p.LegitPort = p.Attacker, p.AttackerPort, p.FloodPort
	if p.ServerPort, p.InnerPort, err = NewVeth(o, p.Server, "tg-server", p.Proxy, "tg-inner"); err != nil {
		return p, err
	}
	err = errors.Join(p.addressOutside(), p.Proxy.Do(func() error {
		if _, err := LoUp(); err != nil {
			return err
		}
		return errors.Join(p.addressFront(), p.addressInner())
	}), p.addressServerEnd(innerServer4, innerProxy4.Addr(), innerServer6, innerProxy6.Addr(), p.InnerPort))
	if err != nil {
		return p, err
	}
	if err := p.attachDoor(); err != nil {
		return p, err
	}
	if p.serverEnd, err = p.ServerPort.AttachXDP(p.Programs.TgLabPass); err != nil {
		return p, err
	}
	p.OnClose(p.YieldServer)
	return p, errors.Join(p.InnerPort.EnableGRO(), p.ServerPort.DisableTxChecksum())
}

func (t *Topology) makeNamespaces(o Owner, roles map[string]**Namespace) error {
	for role, at := range roles {
		n, err := MakeNamespace(o, role)
		if err != nil {
			return err
		}
		*at = n
		t.OnClose(n.Close)
		if err := n.SetSysctls(BaseSysctls()...); err != nil {
			return err
		}
	}
	return nil
}

// addressOutside addresses the outside; everything is routed to the victim's port.
func (t *Topology) addressOutside() error {
	return t.Attacker.Do(func() error {
		if _, err := LoUp(); err != nil {
			return err
		}
		errs := []error{
			AddAddr(t.AttackerPort.Index, netip.PrefixFrom(floodAttacker4, floodServer4.Bits())),
			addNeigh(t.AttackerPort.Index, floodServer4.Addr(), t.FloodPort.MAC),
			AddRoute(t.AttackerPort.Index, netip.MustParsePrefix("0.0.0.0/0"), floodServer4.Addr()),
		}
		if HaveIPv6() {
			errs = append(errs,
				AddAddr(t.AttackerPort.Index, netip.PrefixFrom(floodAttacker6, floodServer6.Bits())),
				addNeigh(t.AttackerPort.Index, floodServer6.Addr(), t.FloodPort.MAC),
				AddRoute(t.AttackerPort.Index, netip.MustParsePrefix("::/0"), floodServer6.Addr()))
		}
		return errors.Join(errs...)
	})
}

// addressFront addresses the victim's side of that link, in the namespace of the calling thread.
func (t *Topology) addressFront() error {
	errs := []error{
		AddAddr(t.FloodPort.Index, floodServer4),
		addNeigh(t.FloodPort.Index, floodAttacker4, t.AttackerPort.MAC),
		AddRoute(t.FloodPort.Index, netip.MustParsePrefix("0.0.0.0/0"), floodAttacker4),
	}
	if HaveIPv6() {
		errs = append(errs,
			AddAddr(t.FloodPort.Index, floodServer6),
			addNeigh(t.FloodPort.Index, floodAttacker6, t.AttackerPort.MAC),
			AddRoute(t.FloodPort.Index, netip.MustParsePrefix("::/0"), floodAttacker6))
	}
	return errors.Join(errs...)
}

// attachDoor attaches a program that drops the answers to spoofed sources as they leave the victim, and
// passes those to clients.
func (t *Topology) attachDoor() error {
	spec, err := labbpf.LoadLabFlood()
	if err != nil {
		return err
	}
	net4, net6 := clients4.Addr().As4(), clients6.Addr().As16()
	word := binary.NativeEndian.Uint32 // byte order in memory
	mask := [4]byte{}
	binary.BigEndian.PutUint32(mask[:], ^uint32(0)<<(32-clients4.Bits()))
	t.ClientNets = labbpf.LabFloodTgDoorCfg{Ip4NetBe: word(net4[:]), Ip4MaskBe: word(mask[:]),
		Ip6NetBe: [2]uint32{word(net6[:4]), word(net6[4:8])}}
	if err := spec.Variables[labbpf.LabFloodVarDoorCfg].Set(t.ClientNets); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&t.Programs, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	t.OnClose(t.Programs.Close)
	l, err := t.AttackerPort.AttachXDP(t.Programs.TgLabDoor)
	if err != nil {
		return err
	}
	t.OnClose(l.Close)
	t.Door = l
	return errors.Join(t.FloodPort.EnableGRO(), t.AttackerPort.DisableTxChecksum())
}
