// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/lab/labbpf"
)

// ProxyTopology is a lab with a box between the clients and the server:
//
//	attacker --- tg-flood |       |
//	                      | proxy | tg-inner --- tg-server server
//	  client --- tg-legit |       |
//
// As a bridge, the box has no addresses and there is no attacker, and client and server
// are neighbours. In the embedded topology, Server is the web server's namespace,
// and FloodPort and LegitPort are the box's.
type ProxyTopology struct {
	*Topology
	Proxy                 *Namespace
	InnerPort, ServerPort *Port
	Bridge                bool
	Instance              string // a name for a gate that Clean recognizes as this process's

	serverEnd link.Link // the lab's program at the server's port
}

// YieldServer detaches the lab's program from the server's port, for a caller that attaches its
// own: the port needs a program.
func (p *ProxyTopology) YieldServer() error {
	if p.serverEnd == nil {
		return nil
	}
	err := p.serverEnd.Close()
	p.serverEnd = nil
	return err
}

// WithoutBox attaches the lab's program to the box's inner port while no gate is there: otherwise frames that
// the server's programs send would not arrive (veth delivers them only to a port with a program). Close it before a gate starts.
func (p *ProxyTopology) WithoutBox() (io.Closer, error) {
	return p.InnerPort.AttachXDP(p.Programs.TgLabPass)
}

// EdgeAddrs are the box's addresses on the server's side, if it is a router.
func (p *ProxyTopology) EdgeAddrs() (v4, v6 netip.Addr) {
	return innerProxy4.Addr(), innerProxy6.Addr()
}

var (
	innerProxy4, innerServer4 = netip.MustParsePrefix("198.18.4.1/30"), netip.MustParsePrefix("198.18.4.2/30")
	innerProxy6, innerServer6 = netip.MustParsePrefix("fd7d:7467:5::1/64"), netip.MustParsePrefix("fd7d:7467:5::2/64")
)

// NewProxyTopology makes a topology; tag distinguishes those of one process.
func NewProxyTopology(tag string, bridge bool) (p *ProxyTopology, err error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	p = &ProxyTopology{Topology: &Topology{}, Bridge: bridge, Instance: InstPrefix + o.String() + tag}
	p.Box = p
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
			p = nil
		}
	}()
	for role, at := range map[string]**Namespace{"attacker": &p.Attacker, "client": &p.Client,
		"proxy": &p.Proxy, "server": &p.Server} {
		if role == "attacker" && bridge {
			continue
		}
		n, err := MakeNamespace(o, role+tag)
		if err != nil {
			return p, err
		}
		*at = n
		p.closers = append(p.closers, n.Close)
		if err := n.SetSysctls(BaseSysctls()...); err != nil {
			return p, err
		}
	}
	if err := p.Server.SetBacklog(serverBacklog); err != nil {
		return p, err
	}
	if err := p.join(o); err != nil {
		return p, err
	}
	if bridge {
		err = p.addressBridged()
	} else {
		err = errors.Join(p.addressRouted(), p.addressClient())
	}
	if err != nil {
		return p, err
	}
	return p, p.attachEnds()
}

// join makes the cables.
func (p *ProxyTopology) join(o Owner) (err error) {
	if !p.Bridge {
		if HaveIPv6() {
			if err := p.Attacker.SetSysctls([2]string{"net.ipv6.conf.default.disable_ipv6", "1"}); err != nil {
				return err
			}
		}
		if p.AttackerPort, p.FloodPort, err = NewVeth(o, p.Attacker, "tg-attack", p.Proxy, "tg-flood"); err != nil {
			return err
		}
	}
	if p.ClientPort, p.LegitPort, err = NewVeth(o, p.Client, "tg-client", p.Proxy, "tg-legit"); err != nil {
		return err
	}
	p.ServerPort, p.InnerPort, err = NewVeth(o, p.Server, "tg-server", p.Proxy, "tg-inner")
	return err
}

// addressRouted addresses a routing box; answers to spoofed sources go to the attacker.
func (p *ProxyTopology) addressRouted() error {
	forwarding := [][2]string{{"net.ipv4.ip_forward", "1"}}
	if HaveIPv6() {
		forwarding = append(forwarding, [2]string{"net.ipv6.conf.all.forwarding", "1"})
	}
	if err := p.Proxy.SetSysctls(forwarding...); err != nil {
		return err
	}
	return errors.Join(p.Proxy.Do(func() error {
		if _, err := LoUp(); err != nil {
			return err
		}
		errs := []error{
			AddAddr(p.FloodPort.Index, floodServer4),
			AddAddr(p.LegitPort.Index, legitServer4),
			addNeigh(p.FloodPort.Index, floodAttacker4, p.AttackerPort.MAC),
			addNeigh(p.LegitPort.Index, legitClient4.Addr(), p.ClientPort.MAC),
			AddRoute(p.FloodPort.Index, netip.MustParsePrefix("0.0.0.0/0"), floodAttacker4),
			AddRoute(p.LegitPort.Index, clients4, legitClient4.Addr()),
			p.addressInner(),
		}
		if HaveIPv6() {
			errs = append(errs,
				AddAddr(p.FloodPort.Index, floodServer6),
				AddAddr(p.LegitPort.Index, legitServer6),
				addNeigh(p.FloodPort.Index, floodAttacker6, p.AttackerPort.MAC),
				addNeigh(p.LegitPort.Index, legitClient6.Addr(), p.ClientPort.MAC),
				AddRoute(p.FloodPort.Index, netip.MustParsePrefix("::/0"), floodAttacker6),
				AddRoute(p.LegitPort.Index, clients6, legitClient6.Addr()))
		}
		return errors.Join(errs...)
	}), p.addressServerEnd(innerServer4, innerProxy4.Addr(), innerServer6, innerProxy6.Addr(), p.InnerPort))
}

// addressInner addresses the box's side towards the server, in the namespace of the calling thread.
func (p *ProxyTopology) addressInner() error {
	errs := []error{
		AddAddr(p.InnerPort.Index, innerProxy4),
		addNeigh(p.InnerPort.Index, innerServer4.Addr(), p.ServerPort.MAC),
		AddRoute(p.InnerPort.Index, netip.PrefixFrom(serviceIP4, 32), innerServer4.Addr()),
	}
	if HaveIPv6() {
		errs = append(errs,
			AddAddr(p.InnerPort.Index, innerProxy6),
			addNeigh(p.InnerPort.Index, innerServer6.Addr(), p.ServerPort.MAC),
			AddRoute(p.InnerPort.Index, netip.PrefixFrom(serviceIP6, 128), innerServer6.Addr()))
	}
	return errors.Join(errs...)
}

// addressServerEnd gives the server its addresses and a default route via next.
func (p *ProxyTopology) addressServerEnd(own4 netip.Prefix, next4 netip.Addr, own6 netip.Prefix, next6 netip.Addr, next *Port) error {
	return p.Server.Do(func() error {
		lo, err := LoUp()
		if err != nil {
			return err
		}
		errs := []error{
			AddAddr(lo, netip.PrefixFrom(serviceIP4, 32)),
			AddAddr(p.ServerPort.Index, own4),
			addNeigh(p.ServerPort.Index, next4, next.MAC),
			AddRoute(p.ServerPort.Index, netip.MustParsePrefix("0.0.0.0/0"), next4),
		}
		if HaveIPv6() {
			errs = append(errs,
				AddAddr(lo, netip.PrefixFrom(serviceIP6, 128)),
				AddAddr(p.ServerPort.Index, own6),
				addNeigh(p.ServerPort.Index, next6, next.MAC),
				AddRoute(p.ServerPort.Index, netip.MustParsePrefix("::/0"), next6))
		}
		return errors.Join(errs...)
	})
}

// addressBridged gives client and server addresses on one link.
func (p *ProxyTopology) addressBridged() error {
	return errors.Join(
		p.addressServerEnd(legitServer4, legitClient4.Addr(), legitServer6, legitClient6.Addr(), p.ClientPort),
		addressClientEnd(p.Client, p.ClientPort, p.ServerPort))
}

// attachEnds attaches a program to every far end, so that redirected frames arrive,
// and has the ends fill in their checksums, as in frames from a wire.
func (p *ProxyTopology) attachEnds() error {
	if err := labbpf.LoadLabFloodObjects(&p.Programs, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	p.closers = append(p.closers, p.Programs.Close)
	for _, end := range []struct {
		port *Port
		prog *ebpf.Program
	}{{p.AttackerPort, p.Programs.TgLabSink}, {p.ClientPort, p.Programs.TgLabPass}, {p.ServerPort, p.Programs.TgLabPass}} {
		if end.port == nil {
			continue
		}
		l, err := end.port.AttachXDP(end.prog)
		if err != nil {
			return err
		}
		if end.port == p.ServerPort {
			p.serverEnd = l
			continue
		}
		p.closers = append(p.closers, l.Close)
	}
	p.closers = append(p.closers, p.YieldServer)
	errs := []error{p.LegitPort.EnableGRO(), p.InnerPort.EnableGRO(),
		p.ClientPort.DisableTxChecksum(), p.ServerPort.DisableTxChecksum()}
	if p.FloodPort != nil {
		errs = append(errs, p.FloodPort.EnableGRO())
	}
	return errors.Join(errs...)
}

// ServiceAddr is the address of a port of the server.
func (p *ProxyTopology) ServiceAddr(ipv6 bool, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(ServiceAddr(ipv6).Addr(), port)
}

// BoxAddr is the address of a router on the clients' side.
func (p *ProxyTopology) BoxAddr(ipv6 bool) netip.Addr {
	if ipv6 {
		return legitServer6.Addr()
	}
	return legitServer4.Addr()
}
