// SPDX-License-Identifier: Apache-2.0

package terminus

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"tidegate/internal/lab/rig"
)

// Network is the network of Terminus's figures 2 and 3: internet providers as
// groups of namespaces. T deploys Terminus, L is a legacy provider.
//
//	a-bot a-client a-refl ─ A(T) ─────┐
//	              a2-att ─ A2(T) ─ A  ├─ E(T) ─ G(T) ─ s (the server)
//	               b-att ─ B(L) ──────┤         │
//	               h-att ─ H(L) ──────┤         F(L) ─ A  (used by --topology legacy)
//	     c-att c-client ─ C(T) ───────┘
//
// A has two border patrols, A and A2. H is a legacy provider with source address
// validation. A's and C's border managers and G's filter manager run on their
// providers' routers.
type Network struct {
	owner   rig.Owner
	ns      map[string]*rig.Namespace
	closers []func() error
	dir     string
	exe     string
	nodes   map[string]*node
	ipv6    bool
}

// Addresses of the paper's figures; under IPv6 they are the last 32 bits, see at.
const (
	addrServer   = "10.9.0.2"
	addrBot      = "10.1.0.2"
	addrClient   = "10.1.1.2"
	addrRefl     = "10.1.2.2"
	addrA2       = "10.1.128.2"
	addrB        = "10.2.0.2"
	addrH        = "10.3.0.2"
	addrCAtt     = "10.4.0.2"
	addrCClient  = "10.4.1.2"
	addrBMA      = "10.1.255.1"
	addrPatrolA2 = "10.1.255.2"
	addrBMC      = "10.4.255.1"
	addrFM       = "10.9.255.1"
)

// wire joins two namespaces; the first has .1 of the /30 and the second .2.
type wire struct{ a, b, net string }

// A host's cable has the address of the figure at its second end
var terminusCables = []wire{
	{"A", "a-bot", "10.1.0.0/30"}, {"A", "a-client", "10.1.1.0/30"}, {"A", "a-refl", "10.1.2.0/30"},
	{"A2", "a2-att", "10.1.128.0/30"}, {"B", "b-att", "10.2.0.0/30"}, {"H", "h-att", "10.3.0.0/30"},
	{"C", "c-att", "10.4.0.0/30"}, {"C", "c-client", "10.4.1.0/30"}, {"G", "s", "10.9.0.0/30"},
	{"A", "A2", "10.100.0.0/30"}, {"E", "A", "10.100.1.0/30"}, {"E", "B", "10.100.2.0/30"},
	{"E", "H", "10.100.3.0/30"}, {"E", "C", "10.100.4.0/30"}, {"E", "G", "10.100.5.0/30"},
	{"F", "G", "10.100.6.0/30"}, {"F", "A", "10.100.7.0/30"},
}

// routes by namespace: prefix, next hop's namespace.
var terminusRoutes = map[string][][2]string{
	"A":  {{"0.0.0.0/0", "E"}, {"10.1.128.0/17", "A2"}, {addrBMA + "/32", ""}, {addrPatrolA2 + "/32", "A2"}},
	"A2": {{"0.0.0.0/0", "A"}}, "B": {{"0.0.0.0/0", "E"}}, "H": {{"0.0.0.0/0", "E"}}, "C": {{"0.0.0.0/0", "E"}},
	"E": {{"10.1.0.0/16", "A"}, {"10.2.0.0/16", "B"}, {"10.3.0.0/16", "H"}, {"10.4.0.0/16", "C"}, {"10.9.0.0/16", "G"}},
	"F": {{"10.1.0.0/16", "A"}, {"10.9.0.0/16", "G"}},
	"G": {{"0.0.0.0/0", "E"}},
}

// loopback addresses of managers.
var terminusOwn = map[string]string{"A": addrBMA, "A2": addrPatrolA2, "C": addrBMC, "G": addrFM}

func ifName(peer string) string { return "to-" + strings.ToLower(peer) }

// newTerminusNet makes namespaces, cables and routes; nothing runs yet.
func newTerminusNet(exe string, ipv6 bool) (t *Network, err error) {
	o, err := rig.Self()
	if err != nil {
		return nil, err
	}
	t = &Network{owner: o, ns: map[string]*rig.Namespace{}, exe: exe, ipv6: ipv6, nodes: map[string]*node{},
		dir: filepath.Join(rig.LabDir, o.String()+"-terminus")}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
			t = nil
		}
	}()
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return t, err
	}
	t.closers = append(t.closers, func() error { return os.RemoveAll(t.dir) })
	for _, c := range terminusCables {
		for _, name := range []string{c.a, c.b} {
			if err := t.namespace(name); err != nil {
				return t, err
			}
		}
		if err := t.wire(c); err != nil {
			return t, err
		}
	}
	for name, routes := range terminusRoutes {
		for _, r := range routes {
			if r[1] == "" {
				continue
			}
			if err := t.route(name, r[0], r[1]); err != nil {
				return t, err
			}
		}
	}
	for name, addr := range terminusOwn {
		if err := t.ns[name].Do(func() error {
			lo, err := rig.LoUp()
			if err != nil {
				return err
			}
			return rig.AddAddr(lo, hostPrefix(t.at(addr)))
		}); err != nil {
			return t, err
		}
	}
	return t, t.checkSources("H", "h-att", "10.3.0.0/16")
}

// checkSources has a legacy provider drop packets whose source is not its customers'
// (RFC 3704), by the kernel's reverse path filter. IPv6 lacks that; there, only
// the customers' own addresses have a route.
func (t *Network) checkSources(ns, customer, prefix string) error {
	if !t.ipv6 {
		return t.ns[ns].SetSysctls([2]string{"net.ipv4.conf." + ifName(customer) + ".rp_filter", "1"})
	}
	return t.ns[ns].Do(func() error {
		const table = 100
		own, other := netlink.NewRule(), netlink.NewRule()
		own.Family, own.IifName, own.Src, own.Table, own.Priority = unix.AF_INET6, ifName(customer), rig.IpNet(t.prefix(prefix)), unix.RT_TABLE_MAIN, 100
		other.Family, other.IifName, other.Table, other.Priority = unix.AF_INET6, ifName(customer), table, 101
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.RuleAdd(own), netlink.RuleAdd(other), netlink.RouteAdd(&netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: rig.IpNet(netip.MustParsePrefix("::/0")), Table: table, Type: unix.RTN_BLACKHOLE}))
	})
}

// labPrefix6 is the prefix of the network under IPv6, which the addresses of the figures complete.
var labPrefix6 = netip.MustParseAddr("fd00:7467::").As16()

// at returns an address of the figures in this network's family.
func (t *Network) at(v4 string) netip.Addr {
	a := netip.MustParseAddr(v4)
	if !t.ipv6 {
		return a
	}
	b, low := labPrefix6, a.As4()
	copy(b[12:], low[:])
	return netip.AddrFrom16(b)
}

// prefix is at for prefixes.
func (t *Network) prefix(v4 string) netip.Prefix {
	p := netip.MustParsePrefix(v4)
	switch {
	case !t.ipv6:
		return p
	case p.Bits() == 0:
		return netip.MustParsePrefix("::/0")
	}
	return netip.PrefixFrom(t.at(p.Addr().String()), 96+p.Bits())
}

// port is at with a port.
func (t *Network) port(v4 string, port uint16) string {
	return netip.AddrPortFrom(t.at(v4), port).String()
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// tcp and udp are Go's names of the family's protocols.
func (t *Network) tcp() string { return "tcp" + t.digit() }
func (t *Network) udp() string { return "udp" + t.digit() }

func (t *Network) digit() string {
	if t.ipv6 {
		return "6"
	}
	return "4"
}

func (t *Network) namespace(name string) error {
	if t.ns[name] != nil {
		return nil
	}
	n, err := rig.MakeNamespace(t.owner, "t"+name)
	if err != nil {
		return err
	}
	t.ns[name] = n
	t.closers = append(t.closers, n.Close)
	sysctls := append(rig.BaseSysctls(), [2]string{"net.ipv4.ip_forward", "1"},
		[2]string{"net.ipv4.conf.all.send_redirects", "0"}, [2]string{"net.ipv4.conf.default.send_redirects", "0"})
	if t.ipv6 {
		// A router sends neighbour solicitations for what it forwards from its link-local address.
		sysctls = append(sysctls, [2]string{"net.ipv6.conf.all.forwarding", "1"},
			[2]string{"net.ipv6.conf.all.addr_gen_mode", "0"}, [2]string{"net.ipv6.conf.default.addr_gen_mode", "0"})
	}
	if err := n.SetSysctls(sysctls...); err != nil {
		return err
	}
	return n.Do(func() error { _, err := rig.LoUp(); return err })
}

func (t *Network) wire(c wire) error {
	pa, pb, err := rig.NewVeth(t.owner, t.ns[c.a], ifName(c.b), t.ns[c.b], ifName(c.a))
	if err != nil {
		return err
	}
	p := t.prefix(c.net)
	a, b := p.Addr().Next(), p.Addr().Next().Next()
	err = errors.Join(
		pa.NS.Do(func() error { return rig.AddAddr(pa.Index, netip.PrefixFrom(a, p.Bits())) }),
		pb.NS.Do(func() error { return rig.AddAddr(pb.Index, netip.PrefixFrom(b, p.Bits())) }),
		pa.AwaitUp(), pb.AwaitUp())
	if err != nil {
		return err
	}
	if strings.Contains(c.b, "-") || c.b == "s" { // a host
		return t.route(c.b, "0.0.0.0/0", c.a)
	}
	return nil
}

// route routes a prefix via a neighbour.
func (t *Network) route(at, prefix, next string) error {
	i := slices.IndexFunc(terminusCables, func(c wire) bool {
		return c.a == at && c.b == next || c.b == at && c.a == next
	})
	if i < 0 {
		return fmt.Errorf("%s and %s are not neighbours", at, next)
	}
	c := terminusCables[i]
	via := t.prefix(c.net).Addr().Next()
	if c.b == next {
		via = via.Next()
	}
	return t.ns[at].Do(func() error {
		l, err := netlink.LinkByName(ifName(next))
		if err != nil {
			return err
		}
		return rig.AddRoute(l.Attrs().Index, t.prefix(prefix), via)
	})
}

// Close stops every process and removes the network.
func (t *Network) Close() error {
	var errs []error
	for _, n := range t.nodes {
		n.kill()
	}
	for i := len(t.closers) - 1; i >= 0; i-- {
		errs = append(errs, t.closers[i]())
	}
	t.closers = nil
	for _, n := range t.nodes {
		for _, mount := range rig.BpfMounts() {
			errs = append(errs, os.RemoveAll(filepath.Join(mount, "tidegate", n.instance)))
		}
		files, _ := filepath.Glob(filepath.Join(rig.RunDir, n.instance+".*"))
		for _, f := range files {
			errs = append(errs, os.Remove(f))
		}
	}
	return errors.Join(errs...)
}
