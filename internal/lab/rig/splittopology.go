// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/lab/labbpf"
	"tidegate/internal/plane"
)

// SplitTopology is a lab with edges before a server. With one edge:
//
//	attacker --- tg-flood |      |
//	                      | edge | tg-inner --- tg-server0 server
//	  client --- tg-legit |      |
//
// With several, a fabric sends each packet through an edge chosen at random. The server's
// answers bypass them to the fabric, unless they have to return through
// the first edge:
//
//	attacker --- tg-flood |        | tg-fab0 --- tg-outer edge0 tg-inner --- tg-server0 |
//	                      | fabric | tg-fab1 --- tg-outer edge1 tg-inner --- tg-server1 | server
//	  client --- tg-legit |        | tg-back ------------------------------- tg-direct  |
//
// In the embedded topology, FloodPort and LegitPort are the fabric's, or the edge's.
type SplitTopology struct {
	*Topology
	Edges    []*EdgeHost
	Fabric   *Namespace // with several edges
	Direct   bool       // answers bypass the edges
	Instance string     // a name for a gate that Clean recognizes as this process's

	split      labbpf.LabSplitObjects
	cfg        labbpf.LabSplitTgSplitCfg
	arrivals   []link.Link // of the program at the server's ports
	directPort *Port       // the server's
	backPort   *Port       // the fabric's
}

// EdgeHost is one edge's namespace and ports.
type EdgeHost struct {
	NS         *Namespace
	Outer      *Port // towards the fabric; nil with one edge
	Inner      *Port
	ServerPort *Port // the server's port behind it
	fabricPort *Port
}

// Ports are the interfaces that an edge runs on.
func (e *EdgeHost) Ports() (all []string, inside string) {
	if e.Outer == nil {
		return []string{"tg-flood", "tg-legit", e.Inner.Name}, e.Inner.Name
	}
	return []string{e.Outer.Name, e.Inner.Name}, e.Inner.Name
}

// YieldServer detaches the lab's program from the server's ports, for a server with programs
// of its own there; Seen keeps its values.
func (s *SplitTopology) YieldServer() error {
	var errs []error
	for _, l := range s.arrivals {
		errs = append(errs, l.Close())
	}
	s.arrivals = nil
	return errors.Join(errs...)
}

// WatchServer puts the lab's program before the one that an instance has attached to
// the server's ports, in that one's link: it counts, drops, and calls the instance's program.
func (s *SplitTopology) WatchServer(instance string) error {
	pins := plane.PinDir("/sys/fs/bpf", instance)
	for _, name := range s.ServerPorts() {
		l, err := link.LoadPinnedLink(filepath.Join(pins, "xdp-"+name), nil)
		if err != nil {
			return fmt.Errorf("the server's program: %w", err)
		}
		defer l.Close()
		info, err := l.Info()
		if err != nil {
			return err
		}
		prog, err := ebpf.NewProgramFromID(info.Program)
		if err != nil {
			return err
		}
		defer prog.Close()
		if err := errors.Join(s.split.SplitNext.Put(uint32(0), prog), l.Update(s.split.TgLabArrive)); err != nil {
			return fmt.Errorf("attach the lab's program in front of the server's: %w", err)
		}
	}
	return nil
}

// TranslatorPorts are the interfaces that a translating server runs on: those at which
// packets arrive and those at which they leave.
func (s *SplitTopology) TranslatorPorts() []string {
	if s.Direct {
		return append(s.ServerPorts(), s.directPort.Name)
	}
	return s.ServerPorts()
}

// EdgeAddrs are an edge's addresses on the server's side.
func (s *SplitTopology) EdgeAddrs(i int) (v4, v6 netip.Addr) {
	c := innerCable(i)
	return c.near4.Addr(), c.near6.Addr()
}

// PeerAddr is the address at which other edges reach edge i, through the fabric.
func (s *SplitTopology) PeerAddr(i int) netip.Addr { return fabricCable(i).far4.Addr() }

// ServerPorts are the interfaces at which packets arrive at the server.
func (s *SplitTopology) ServerPorts() []string {
	var names []string
	for _, e := range s.Edges {
		names = append(names, e.ServerPort.Name)
	}
	return names
}

// MaxEdges is EDGES_MAX of bpf/lab_split.bpf.c.
const MaxEdges = 8

// NewSplitTopology makes a topology; tag distinguishes those of one process.
func NewSplitTopology(tag string, edges int, direct bool) (s *SplitTopology, err error) {
	o, err := Self()
	if err != nil {
		return nil, err
	}
	if edges < 1 || edges > MaxEdges || direct && edges == 1 {
		return nil, fmt.Errorf("%d edges: want 1 to %d, and at least 2 if answers bypass the edges", edges, MaxEdges)
	}
	s = &SplitTopology{Topology: &Topology{}, Direct: direct, Instance: InstPrefix + o.String() + tag}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	if err := s.namespaces(o, tag, edges); err != nil {
		return s, err
	}
	if err := s.join(o); err != nil {
		return s, err
	}
	errs := []error{s.addressClient(), s.addressFront(), s.addressServer()}
	for i := range s.Edges {
		errs = append(errs, s.addressEdge(i))
	}
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	return s, s.attachPrograms()
}

func (s *SplitTopology) namespaces(o Owner, tag string, edges int) error {
	roles := []struct {
		name string
		at   **Namespace
	}{{"attacker", &s.Attacker}, {"client", &s.Client}, {"server", &s.Server}}
	if edges > 1 {
		roles = append(roles, struct {
			name string
			at   **Namespace
		}{"fabric", &s.Fabric})
	}
	for i := range edges {
		e := &EdgeHost{}
		s.Edges = append(s.Edges, e)
		roles = append(roles, struct {
			name string
			at   **Namespace
		}{fmt.Sprintf("edge%d", i), &e.NS})
	}
	for _, r := range roles {
		n, err := MakeNamespace(o, r.name+tag)
		if err != nil {
			return err
		}
		*r.at = n
		s.closers = append(s.closers, n.Close)
		if err := n.SetSysctls(BaseSysctls()...); err != nil {
			return err
		}
		if n == s.Fabric || r.name[:2] == "ed" {
			forwarding := [][2]string{{"net.ipv4.ip_forward", "1"}}
			if HaveIPv6() {
				forwarding = append(forwarding, [2]string{"net.ipv6.conf.all.forwarding", "1"})
			}
			if err := n.SetSysctls(forwarding...); err != nil {
				return err
			}
		}
	}
	if HaveIPv6() {
		if err := s.Attacker.SetSysctls([2]string{"net.ipv6.conf.default.disable_ipv6", "1"}); err != nil {
			return err
		}
	}
	return s.Server.SetBacklog(serverBacklog)
}

// front is the namespace that clients and attackers are joined to.
func (s *SplitTopology) front() *Namespace {
	if s.Fabric != nil {
		return s.Fabric
	}
	return s.Edges[0].NS
}

// join makes the cables.
func (s *SplitTopology) join(o Owner) (err error) {
	if s.AttackerPort, s.FloodPort, err = NewVeth(o, s.Attacker, "tg-attack", s.front(), "tg-flood"); err != nil {
		return err
	}
	if s.ClientPort, s.LegitPort, err = NewVeth(o, s.Client, "tg-client", s.front(), "tg-legit"); err != nil {
		return err
	}
	for i, e := range s.Edges {
		if s.Fabric != nil {
			if e.fabricPort, e.Outer, err = NewVeth(o, s.Fabric, fmt.Sprintf("tg-fab%d", i), e.NS, "tg-outer"); err != nil {
				return err
			}
		}
		if e.ServerPort, e.Inner, err = NewVeth(o, s.Server, fmt.Sprintf("tg-server%d", i), e.NS, "tg-inner"); err != nil {
			return err
		}
	}
	if s.Direct {
		s.directPort, s.backPort, err = NewVeth(o, s.Server, "tg-direct", s.Fabric, "tg-back")
	}
	return err
}

var (
	default4 = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	default6 = []netip.Prefix{netip.MustParsePrefix("::/0")}
	service4 = []netip.Prefix{netip.PrefixFrom(serviceIP4, 32)}
	service6 = []netip.Prefix{netip.PrefixFrom(serviceIP6, 128)}
)

// attachPrograms: see Topology.attachPrograms for why every far end has one.
func (s *SplitTopology) attachPrograms() error {
	if err := labbpf.LoadLabFloodObjects(&s.Programs, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	s.closers = append(s.closers, s.Programs.Close)
	if err := labbpf.LoadLabSplitObjects(&s.split, nil); err != nil {
		return fmt.Errorf("load the lab's BPF objects: %w", err)
	}
	s.closers = append(s.closers, s.split.Close)
	type end struct {
		port *Port
		prog *ebpf.Program
	}
	ends := []end{{s.AttackerPort, s.Programs.TgLabSink}, {s.ClientPort, s.Programs.TgLabPass}}
	gro := []*Port{}
	whole := []*Port{s.ClientPort}
	for i, e := range s.Edges {
		ends = append(ends, end{e.ServerPort, s.split.TgLabArrive})
		gro = append(gro, e.Inner)
		whole = append(whole, e.ServerPort)
		if s.Fabric == nil {
			continue
		}
		ends = append(ends, end{e.fabricPort, s.Programs.TgLabPass})
		gro = append(gro, e.Outer)
		at := labbpf.LabSplitTgSplitEdge{Ifindex: uint32(e.fabricPort.Index)}
		copy(at.Macs[:6], e.Outer.MAC)
		copy(at.Macs[6:], e.fabricPort.MAC)
		if err := s.split.SplitEdges.Put(uint32(i), at); err != nil {
			return err
		}
	}
	if s.Fabric != nil {
		ends = append(ends, end{s.FloodPort, s.split.TgLabSpray}, end{s.LegitPort, s.split.TgLabSpray})
		s.cfg.Edges = uint32(len(s.Edges))
	} else {
		gro = append(gro, s.FloodPort, s.LegitPort)
	}
	if err := s.configure(); err != nil {
		return err
	}
	for _, e := range ends {
		l, err := e.port.AttachXDP(e.prog)
		if err != nil {
			return err
		}
		if e.prog == s.split.TgLabArrive {
			s.arrivals = append(s.arrivals, l)
			continue
		}
		s.closers = append(s.closers, l.Close)
	}
	s.closers = append(s.closers, s.YieldServer)
	var errs []error
	for _, p := range gro {
		errs = append(errs, p.EnableGRO())
	}
	for _, p := range whole {
		errs = append(errs, p.DisableTxChecksum())
	}
	return errors.Join(errs...)
}

func (s *SplitTopology) configure() error { return s.split.SplitCfg.Put(uint32(0), s.cfg) }

// Modes of the fabric, as bpf/lab_split.bpf.c numbers them.
const (
	routeSpray = 0
	routeOne   = 1
	routeDrop  = 2
)

// Spray sends each packet through an edge chosen at random.
func (s *SplitTopology) Spray() error {
	s.cfg.Route = routeSpray
	return s.configure()
}

// Through sends all packets through one edge.
func (s *SplitTopology) Through(edge int) error {
	s.cfg.Route, s.cfg.One = routeOne, uint32(edge)
	return s.configure()
}

// Only sends each packet through one of the first n edges.
func (s *SplitTopology) Only(n int) error {
	s.cfg.Route, s.cfg.Edges = routeSpray, uint32(n)
	return s.configure()
}

// DropAttack drops the attack before the server sees it.
func (s *SplitTopology) DropAttack(drop bool) error {
	s.cfg.DropAttack = 0
	if drop {
		s.cfg.DropAttack = 1
	}
	return s.configure()
}

// DropAll drops every packet in the fabric until restore is called.
func (s *SplitTopology) DropAll() (restore func() error, err error) {
	before := s.cfg.Route
	s.cfg.Route = routeDrop
	return func() error {
		s.cfg.Route = before
		return s.configure()
	}, s.configure()
}

// LoseACKs drops this share of the clients' bare ACKs at the server's ports.
func (s *SplitTopology) LoseACKs(share float64) error {
	s.cfg.LosePermille = uint32(share * 1000)
	return s.configure()
}

// Seen counts what has arrived at the server's ports.
type Seen struct{ Attack, AttackSYN, Clients, Lost uint64 }

// Seen reads the counts.
func (s *SplitTopology) Seen() (sum Seen, err error) {
	var perCPU []labbpf.LabSplitTgSplitSeen
	if err := s.split.SplitSeen.Lookup(uint32(0), &perCPU); err != nil {
		return sum, err
	}
	for _, c := range perCPU {
		sum.Attack += c.Attack
		sum.AttackSYN += c.AttackSyn
		sum.Clients += c.Clients
		sum.Lost += c.Lost
	}
	return sum, nil
}

// ServiceAddr is the address of a port of the server.
func (s *SplitTopology) ServiceAddr(ipv6 bool, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(ServiceAddr(ipv6).Addr(), port)
}
