// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"tidegate/internal/lab/labbpf"
)

// Addresses of the lab. 198.18.0.0/15 is the benchmarking range (RFC 2544) and
// fd00::/8 is unique local: neither is ever a flood's source.
//
//	attacker --- tg-flood | server | tg-legit --- client
//
// The server's default route points at the attacker, so that answers to
// spoofed sources leave there and are dropped by an XDP program in the attacker's
// namespace. The clients' addresses are behind one next hop.
var (
	serviceIP4 = netip.MustParseAddr("198.18.0.80")
	serviceIP6 = netip.MustParseAddr("fd7d:7467::80")

	floodServer4, floodAttacker4 = netip.MustParsePrefix("198.18.1.1/30"), netip.MustParseAddr("198.18.1.2")
	floodServer6, floodAttacker6 = netip.MustParsePrefix("fd7d:7467:1::1/64"), netip.MustParseAddr("fd7d:7467:1::2")

	legitServer4, legitClient4 = netip.MustParsePrefix("198.18.2.1/30"), netip.MustParsePrefix("198.18.2.2/30")
	legitServer6, legitClient6 = netip.MustParsePrefix("fd7d:7467:2::1/64"), netip.MustParsePrefix("fd7d:7467:2::2/64")

	clients4 = netip.MustParsePrefix("198.18.16.0/20")
	clients6 = netip.MustParsePrefix("fd7d:7467:3::/64")
)

const (
	ServicePort = 80
	MaxClients  = 4000
)

// serverBacklog is nginx's default; somaxconn imposes it on any other server too. With a
// longer queue Linux would serve peers it has met before (tcp_peer_is_proven)
// with SYN cookies off, and the result of `none` would depend on who connected last.
const serverBacklog = 511

// SetBacklog makes listen(backlog) the limit of half-open and of waiting connections:
// the kernel's other limit of half-open ones, tcp_max_syn_backlog, is set above it. By default that depends on the memory: with 2 GiB it is 128, below
// which the kernel does not hurry to forget half-open ones, so that after a flood nobody is served for a minute.
func (n *Namespace) SetBacklog(backlog int) error {
	if backlog == 0 {
		return nil
	}
	return n.SetSysctls([2]string{"net.core.somaxconn", strconv.Itoa(backlog)},
		[2]string{"net.ipv4.tcp_max_syn_backlog", strconv.Itoa(4 * backlog)})
}

// Topology is the attacker, the server with two ports, and the clients.
type Topology struct {
	Attacker, Client, Server *Namespace
	AttackerPort, FloodPort  *Port // the attacker's end and the server's
	ClientPort, LegitPort    *Port // the clients' end and the server's

	Box *ProxyTopology // the topology that this is part of, if there is a box in between

	// In a topology with one port for flood and clients: the program that answers meet, and
	// what identifies clients to it.
	Door       link.Link
	ClientNets labbpf.LabFloodTgDoorCfg

	Programs labbpf.LabFloodObjects
	closers  []func() error
}

// NewTopology builds everything; on failure it removes what it had built.
func NewTopology(o Owner) (t *Topology, err error) {
	t = &Topology{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
			t = nil
		}
	}()
	for _, ns := range []struct {
		role string
		at   **Namespace
	}{{"attacker", &t.Attacker}, {"client", &t.Client}, {"server", &t.Server}} {
		n, err := MakeNamespace(o, ns.role)
		if err != nil {
			return t, err
		}
		*ns.at = n
		t.closers = append(t.closers, n.Close)
		if err := n.SetSysctls(BaseSysctls()...); err != nil {
			return t, err
		}
	}
	if HaveIPv6() {
		if err := t.Attacker.SetSysctls([2]string{"net.ipv6.conf.default.disable_ipv6", "1"}); err != nil {
			return t, err
		}
	}
	if err := t.Server.SetBacklog(serverBacklog); err != nil {
		return t, err
	}
	if t.AttackerPort, t.FloodPort, err = NewVeth(o, t.Attacker, "tg-attack", t.Server, "tg-flood"); err != nil {
		return t, err
	}
	if t.ClientPort, t.LegitPort, err = NewVeth(o, t.Client, "tg-client", t.Server, "tg-legit"); err != nil {
		return t, err
	}
	if err := errors.Join(t.addressServer(), t.addressClient()); err != nil {
		return t, err
	}
	return t, t.attachPrograms()
}

// attachPrograms has the answers to spoofed sources dropped in the attacker's
// namespace. Each far end has a program, since without one veth would accept what
// the server sends by XDP_TX and never deliver it: veth_xdp_flush looks for a
// program there, and GRO alone is not enough (Linux 6.18).
func (t *Topology) attachPrograms() error {
	if err := labbpf.LoadLabFloodObjects(&t.Programs, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	t.closers = append(t.closers, t.Programs.Close)
	for _, end := range []struct {
		port *Port
		prog *ebpf.Program
	}{{t.AttackerPort, t.Programs.TgLabSink}, {t.ClientPort, t.Programs.TgLabPass}} {
		l, err := end.port.AttachXDP(end.prog)
		if err != nil {
			return err
		}
		t.closers = append(t.closers, l.Close)
	}
	return errors.Join(t.FloodPort.EnableGRO(), t.LegitPort.EnableGRO(), t.ClientPort.DisableTxChecksum())
}

// Answers is the number of frames dropped at the attacker.
func (t *Topology) Answers() (uint64, error) {
	var perCPU []uint64
	if err := t.Programs.SinkFrames.Lookup(uint32(0), &perCPU); err != nil {
		return 0, err
	}
	var n uint64
	for _, v := range perCPU {
		n += v
	}
	return n, nil
}

// OnClose has f called when the topology is closed, before the functions registered earlier.
func (t *Topology) OnClose(f func() error) { t.closers = append(t.closers, f) }

// Close takes everything down in reverse order and reports every failure.
func (t *Topology) Close() error {
	var errs []error
	for i := len(t.closers) - 1; i >= 0; i-- {
		errs = append(errs, t.closers[i]())
	}
	t.closers = nil
	return errors.Join(errs...)
}

// HaveIPv6 reports whether this kernel supports IPv6.
func HaveIPv6() bool {
	return PathExists("/proc/sys/net/ipv6")
}

// BaseSysctls keep a namespace quiet and let spoofed packets reach TCP.
func BaseSysctls() [][2]string {
	s := [][2]string{
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
	}
	if HaveIPv6() {
		for _, c := range []string{"all", "default"} {
			s = append(s, [2]string{"net.ipv6.conf." + c + ".accept_dad", "0"},
				[2]string{"net.ipv6.conf." + c + ".accept_ra", "0"},
				[2]string{"net.ipv6.conf." + c + ".router_solicitations", "0"},
				[2]string{"net.ipv6.conf." + c + ".addr_gen_mode", "1"}) // no link-local address
		}
	}
	return s
}

func (t *Topology) addressServer() error {
	return t.Server.Do(func() error {
		lo, err := LoUp()
		if err != nil {
			return err
		}
		errs := []error{
			AddAddr(lo, netip.PrefixFrom(serviceIP4, 32)),
			AddAddr(t.FloodPort.Index, floodServer4),
			AddAddr(t.LegitPort.Index, legitServer4),
			addNeigh(t.FloodPort.Index, floodAttacker4, t.AttackerPort.MAC),
			addNeigh(t.LegitPort.Index, legitClient4.Addr(), t.ClientPort.MAC),
			AddRoute(t.FloodPort.Index, netip.MustParsePrefix("0.0.0.0/0"), floodAttacker4),
			AddRoute(t.LegitPort.Index, clients4, legitClient4.Addr()),
		}
		if HaveIPv6() {
			errs = append(errs,
				AddAddr(lo, netip.PrefixFrom(serviceIP6, 128)),
				AddAddr(t.FloodPort.Index, floodServer6),
				AddAddr(t.LegitPort.Index, legitServer6),
				addNeigh(t.FloodPort.Index, floodAttacker6, t.AttackerPort.MAC),
				addNeigh(t.LegitPort.Index, legitClient6.Addr(), t.ClientPort.MAC),
				AddRoute(t.FloodPort.Index, netip.MustParsePrefix("::/0"), floodAttacker6),
				AddRoute(t.LegitPort.Index, clients6, legitClient6.Addr()))
		}
		return errors.Join(errs...)
	})
}

func (t *Topology) addressClient() error {
	return addressClientEnd(t.Client, t.ClientPort, t.LegitPort)
}

// addressClientEnd gives a client's port its addresses; everything is routed to the server, whose port is next.
func addressClientEnd(ns *Namespace, port, next *Port) error {
	return ns.Do(func() error {
		if _, err := LoUp(); err != nil {
			return err
		}
		errs := []error{
			AddAddr(port.Index, legitClient4),
			addNeigh(port.Index, legitServer4.Addr(), next.MAC),
			AddRoute(port.Index, netip.MustParsePrefix("0.0.0.0/0"), legitServer4.Addr()),
		}
		if HaveIPv6() {
			errs = append(errs,
				AddAddr(port.Index, legitClient6),
				addNeigh(port.Index, legitServer6.Addr(), next.MAC),
				AddRoute(port.Index, netip.MustParsePrefix("::/0"), legitServer6.Addr()))
		}
		return errors.Join(errs...)
	})
}

// AddClients gives the client namespace n source addresses of the family.
func (t *Topology) AddClients(n int, ipv6 bool) error {
	return t.Client.Do(func() error {
		for i := range n {
			a := ClientAddr(i, ipv6)
			if err := AddAddr(t.ClientPort.Index, netip.PrefixFrom(a, a.BitLen())); err != nil {
				return err
			}
		}
		return nil
	})
}

// ClientAddr is the i-th client's source address.
func ClientAddr(i int, ipv6 bool) netip.Addr {
	low := uint16(i + 1)
	if ipv6 {
		a := clients6.Addr().As16()
		a[14], a[15] = byte(low>>8), byte(low)
		return netip.AddrFrom16(a)
	}
	a := clients4.Addr().As4()
	a[2] += byte(low >> 8)
	a[3] = byte(low)
	return netip.AddrFrom4(a)
}

// ClientSources are the addresses the load comes from.
func ClientSources(n int, ipv6 bool) []netip.Addr {
	s := make([]netip.Addr, n)
	for i := range s {
		s[i] = ClientAddr(i, ipv6)
	}
	return s
}

// ServiceAddr is the address and port under attack.
func ServiceAddr(ipv6 bool) netip.AddrPort {
	if ipv6 {
		return netip.AddrPortFrom(serviceIP6, ServicePort)
	}
	return netip.AddrPortFrom(serviceIP4, ServicePort)
}

// LoUp switches the loopback interface of the calling thread's namespace on and returns its index.
func LoUp() (int, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return 0, err
	}
	return lo.Attrs().Index, netlink.LinkSetUp(lo)
}

// WithoutService takes the service's addresses away from the server, so that its kernel neither answers nor
// forwards what is sent to them: a process that reads frames does.
func (t *Topology) WithoutService() error {
	if err := t.Server.SetSysctls([2]string{"net.ipv4.ip_forward", "0"}); err != nil {
		return err
	}
	return t.Server.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		addrs := []netip.Prefix{netip.PrefixFrom(serviceIP4, 32)}
		if HaveIPv6() {
			addrs = append(addrs, netip.PrefixFrom(serviceIP6, 128))
		}
		for _, a := range addrs {
			addr, err := netlink.ParseAddr(a.String())
			if err != nil {
				return err
			}
			if err := netlink.AddrDel(lo, addr); err != nil {
				return fmt.Errorf("remove %s: %w", a, err)
			}
		}
		return nil
	})
}
