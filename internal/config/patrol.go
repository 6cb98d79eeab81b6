// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// What only the role patrol has.

// Side is where a patrol's port leads.
type Side string

const (
	SideCustomers Side = "customers"
	SideUpstream  Side = "upstream"
)

// Neighbour says what is done with the true-source codepoint of incoming packets.
type Neighbour string

const (
	NeighbourTerminus Neighbour = "terminus" // kept
	NeighbourLegacy   Neighbour = "legacy"   // removed
	NeighbourTrue     Neighbour = "true"     // set: sources are checked, but not marked
)

// PatrolPort is one port of a patrol.
type PatrolPort struct {
	Interface string
	Side      Side
	Neighbour Neighbour // of a port to upstream
	QueueBits uint64    // rate of the queues on what leaves here, bits/s; 0: none
}

// Exception is traffic that no filter applies to.
type Exception struct{ Src, Dst netip.Prefix }

// Patrol is what only the role patrol has.
type Patrol struct {
	Identity    string
	Listen      netip.AddrPort // invalid: no border manager is served
	Managers    []string       // public keys, hex
	Forwarding  Forwarding     // ForwardKernel or ForwardBridge
	Codepoint   uint8
	Plain       uint8
	MaxFilters  int
	Ports       []PatrolPort
	Sources     []netip.Prefix
	SourcesFile string
	Check       bool // ingress filter on ports to customers
	Exceptions  []Exception
}

// ForwardKernel leaves frames to the kernel, which routes or bridges them.
const ForwardKernel Forwarding = "kernel"

func (r *reader) patrol(c *Config, fs map[string]field) {
	p := &Patrol{}
	c.Patrol = p
	p.Identity, p.SourcesFile = r.path(fs, "identity_file"), r.path(fs, "sources_file")
	p.Listen = r.address(fs, "listen")
	p.Sources = r.prefixList(fs, "sources")
	r.take(fs, "codepoint", &p.Codepoint)
	r.take(fs, "plain", &p.Plain)
	r.take(fs, "check_sources", &p.Check)
	if f, there := fs["codepoint"]; there && p.Codepoint == p.Plain {
		r.fail(f.line, f.path, "is the same as plain (%d), which marks nothing; use another", p.Plain)
	}
	r.take(fs, "forwarding", &p.Forwarding)
	r.take(fs, "max_filters", &p.MaxFilters)
	if f, there := fs["managers"]; there {
		items, _ := r.sequence(f)
		for _, it := range items {
			p.Managers = append(p.Managers, r.key(it))
		}
	}
	if f, there := fs["exceptions"]; there {
		items, _ := r.sequence(f)
		for _, it := range items {
			r.exception(p, it)
		}
	}
	if f, there := fs["ports"]; there {
		r.patrolPorts(c, p, f)
	}
	if f, there := fs["listen"]; there && (p.Identity == "" || len(p.Managers) == 0) {
		r.fail(f.line, f.path, "needs identity_file and managers: who may install filters, and who we are")
	}
}

func (r *reader) exception(p *Patrol, it field) {
	fs, ok := r.mapping(it, namesOf("exceptions", r.role))
	if !ok {
		return
	}
	e := Exception{}
	for name, to := range map[string]*netip.Prefix{"src": &e.Src, "dst": &e.Dst} {
		if f, there := fs[name]; there {
			*to, _ = r.prefix(f, f.path) // its mistake has been reported; !IsValid
		}
	}
	switch {
	case !e.Src.IsValid() && !e.Dst.IsValid():
		r.fail(it.line, it.path, "names neither src nor dst; name one prefix or both")
		return
	case !e.Src.IsValid():
		e.Src = netip.PrefixFrom(zeroOf(e.Dst), 0)
	case !e.Dst.IsValid():
		e.Dst = netip.PrefixFrom(zeroOf(e.Src), 0)
	}
	if e.Src.Addr().Is4() != e.Dst.Addr().Is4() {
		r.fail(it.line, it.path, "%s and %s are of different families; write two exceptions", e.Src, e.Dst)
		return
	}
	p.Exceptions = append(p.Exceptions, e)
}

func zeroOf(p netip.Prefix) netip.Addr {
	if p.Addr().Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func (r *reader) patrolPorts(c *Config, p *Patrol, f field) {
	items, _ := r.sequence(f)
	for _, it := range items {
		fs, ok := r.mapping(it, namesOf("ports", r.role))
		if !ok {
			continue
		}
		var port PatrolPort
		if v, there := fs["interface"]; there {
			port.Interface, _ = r.text(v, "the name of an interface")
		} else {
			r.fail(it.line, it.path+".interface", "is missing; name one, see `ip link`")
		}
		if !r.take(fs, "ports.side", &port.Side) {
			r.fail(it.line, it.path+".side", "is missing; write customers or upstream")
		}
		if r.take(fs, "ports.neighbour", &port.Neighbour) && port.Side == SideCustomers {
			v := fs["neighbour"]
			r.fail(v.line, v.path, "belongs to side: upstream; remove it")
		}
		if v, there := fs["queue"]; there {
			port.QueueBits = r.bitRate(v)
		}
		if c.Interfaces = append(c.Interfaces, port.Interface); len(c.Interfaces) > MaxInterfaces {
			r.fail(it.line, f.path, "%d ports are too many; use at most %d", len(c.Interfaces), MaxInterfaces)
			return
		}
		for _, q := range p.Ports {
			if q.Interface == port.Interface {
				r.fail(it.line, it.path, "%s is listed twice; remove one", port.Interface)
			}
		}
		p.Ports = append(p.Ports, port)
	}
	if p.Forwarding == ForwardBridge && len(p.Ports) != 2 {
		r.fail(f.line, f.path, "a bridge has two ports, and %d are named; name two, or use forwarding: kernel", len(p.Ports))
	}
}
