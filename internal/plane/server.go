// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/plane/serverbpf"
	"tidegate/internal/schema"
)

// Types of the map ABI that only the translating server has.
type (
	ServerSettings = serverbpf.ServerXdpTgServerSettings
	Split          = serverbpf.ServerXdpTgSplit
	SplitBucket    = serverbpf.ServerXdpTgSplitBucket
	EdgeAddress    = serverbpf.ServerXdpTgEdgeAddress
)

// What becomes of segments that do not verify.
const (
	UnverifiedDrop = schema.UnverifiedDrop
	UnverifiedPass = schema.UnverifiedPass
)

// Of core/tag.h and core/server_flow.h.
const (
	MaxEdges    = 255
	ConfirmPort = 21575

	splitWays      = 4
	splitTickShift = 32 // a tick is 2^32 ns
	splitClosed    = 0x10
	splitFree      = 0
)

// SplitTick is the length of a tick of the flow table's clock in seconds.
const SplitTick = float64(1<<splitTickShift) / 1e9

// ServerOptions say how a server's plane is made.
type ServerOptions struct {
	Options
	BPFFS  string
	Flows  int  // capacity; the table has room for twice as many
	Holds  bool // the connections that each source holds are counted
	Adopts bool // an adopting gate may run beside (Common)
}

// Server is the plane of a server that translates.
type Server struct{ *Plane }

// keptByServer are the maps that a new process of an instance takes over, so that
// a restart loses no connection.
var keptByServer = []keptTables{{"translated connections, which hang", []string{serverbpf.ServerXdpMapTgSplits, serverbpf.ServerXdpMapTgSplitSources, VarServer}}}

// LoadServer loads the server's programs and maps into the kernel. Nothing is
// attached or pinned yet. Connections of an earlier process of the same instance
// are taken over, if the table has the same size.
func LoadServer(o ServerOptions) (*Server, error) {
	if err := removeMemlock(); err != nil {
		return nil, err
	}
	ports, err := portSlots()
	if err != nil {
		return nil, err
	}
	p := &Server{&Plane{bonded: o.Bonds, keySlots: powerOfTwo(o.KeySlots), maps: map[string]*ebpf.Map{}, sizes: sizesFor(o.Services)}}
	p.sizes[serverbpf.ServerXdpMapTgReplyPorts] = ports
	if !o.Adopts { // they stay empty
		p.sizes[serverbpf.ServerEgressMapTgListeners], p.sizes[serverbpf.ServerEgressMapTgRecent] = 1, 1
	}
	if err := p.load(o); err != nil {
		p.Close()
		return nil, explain(err)
	}
	return p, nil
}

func (p *Server) load(o ServerOptions) error {
	buckets := uint32(splitBuckets(o.Flows))
	sized := func(load func() (*ebpf.CollectionSpec, error)) func() (*ebpf.CollectionSpec, error) {
		return func() (*ebpf.CollectionSpec, error) {
			spec, err := named(load)()
			if err != nil {
				return nil, err
			}
			spec.Maps[serverbpf.ServerXdpMapTgSplits].MaxEntries = buckets
			spec.Maps[serverbpf.ServerXdpMapTgTagKeys].MaxEntries = uint32(p.keySlots)
			return spec, nil
		}
	}
	if o.Instance != "" {
		spec, err := sized(serverbpf.LoadServerXdp)()
		if err != nil {
			return err
		}
		p.takeOverTables(spec, PinDir(o.BPFFS, o.Instance), keptByServer, nil)
	}
	err := p.loadAll([]object{
		{sized(serverbpf.LoadServerXdp), serverbpf.ServerXdpProgTgServerXdp, &p.xdp},
		{sized(serverbpf.LoadServerIngress), serverbpf.ServerIngressProgTgServerIngress, &p.tc},
		{sized(serverbpf.LoadServerEgress), serverbpf.ServerEgressProgTgServerEgress, &p.egress},
	})
	if err == nil && o.Holds {
		err = p.loadHolding()
	}
	return err
}

// loadHolding loads what counts the connections that each source holds.
func (p *Server) loadHolding() error {
	return p.loadAll([]object{
		{serverbpf.LoadServerSockops, serverbpf.ServerSockopsProgTgServerSockops, &p.sockops},
		{hostbpf.LoadHostHeld, hostbpf.HostHeldProgTgHostHeld, &p.held},
	})
}

// Hold begins to count the connections that each source holds, once the plane is attached; if it does so already, nothing changes.
// What is missing until then, Recount counts.
func (p *Server) Hold(cgroup string) error {
	if p.sockops != nil {
		return nil
	}
	err := p.loadHolding()
	if err == nil {
		err = p.attachSockops(cgroup)
	}
	if err != nil {
		for _, prog := range []**ebpf.Program{&p.sockops, &p.held} {
			if *prog != nil {
				(*prog).Close()
				*prog = nil
			}
		}
		return err
	}
	p.links.commitSockops()
	return nil
}

// Common are the maps that an adopting gate beside this one uses, too (Options.Common): those by which source_limits are kept, and
// those by which translating proves what became of an adoption.
func (p *Server) Common() map[string]*ebpf.Map {
	common := map[string]*ebpf.Map{}
	for _, name := range []string{serverbpf.ServerXdpMapTgLimitCells, serverbpf.ServerXdpMapTgOverLimit, serverbpf.ServerXdpMapTgHeld,
		serverbpf.ServerEgressMapTgListeners, serverbpf.ServerEgressMapTgRecent, serverbpf.ServerEgressMapTgBell, serverbpf.ServerEgressMapTgBellRung} {
		common[name] = p.maps[name]
	}
	return common
}

// splitBuckets is how many buckets a table for so many flows has: twice as many
// places as flows, and a power of two.
func splitBuckets(flows int) int {
	n := 1
	for n*splitWays < 2*flows {
		n *= 2
	}
	return n
}

// ServerSettings are those in force: at first those of the earlier process, if its
// table was taken over.
func (p *Server) ServerSettings() (s ServerSettings, err error) {
	err = p.maps[VarServer].Lookup(uint32(0), &s)
	return s, err
}

// SetServer writes the server's settings. The mask is set by this package.
func (p *Server) SetServer(s ServerSettings) error {
	s.Mask = p.maps[serverbpf.ServerXdpMapTgSplits].MaxEntries() - 1
	if err := p.maps[VarServer].Put(uint32(0), s); err != nil {
		return fmt.Errorf("server settings: %w", err)
	}
	return nil
}

// SetEdge sets the address of an edge, and the interfaces to it (0: those
// of answers to clients). A zero address: unreachable in that family.
func (p *Server) SetEdge(id int, v4, v6 netip.Addr, ifindex4, ifindex6 int) error {
	if id < 1 || id > MaxEdges {
		return fmt.Errorf("edge %d: numbers go from 1 to %d", id, MaxEdges)
	}
	e := EdgeAddress{Ifindex4: uint32(ifindex4), Ifindex6: uint32(ifindex6)}
	if v4.Is4() {
		a := v4.As4()
		e.V4 = binary.LittleEndian.Uint32(a[:])
	}
	if v6.Is6() {
		a := v6.As16()
		for i := range e.V6 {
			e.V6[i] = binary.LittleEndian.Uint32(a[4*i:])
		}
	}
	if err := p.maps[serverbpf.ServerXdpMapTgEdges].Put(uint32(id), e); err != nil {
		return fmt.Errorf("edge %d: %w", id, err)
	}
	return nil
}

// SetOwnMACs sets which frames the packet path takes for this machine's.
func (p *Server) SetOwnMACs(interfaces []string) error {
	for _, name := range interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		var mac uint64
		for i, b := range dev.HardwareAddr {
			mac |= uint64(b) << (8 * i)
		}
		if err := p.maps[serverbpf.ServerXdpMapTgOwnMacs].Put(uint32(dev.Index), mac); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
	}
	return nil
}

// PutTagKeys loads the tag and confirmation keys of one epoch, as PutKey does.
func (p *Server) PutTagKeys(epoch uint64, tag, confirm [16]byte) error {
	return putTagKeys(p.maps[serverbpf.ServerXdpMapTgTagKeys], p.keySlots, epoch, tag, confirm)
}

// putTagKeys fills one slot of a ring of keys.
func putTagKeys(m *ebpf.Map, slots int, epoch uint64, tag, confirm [16]byte) error {
	k := tagEpoch{Epoch: epoch}
	k.Tag.K0 = binary.LittleEndian.Uint64(tag[:8])
	k.Tag.K1 = binary.LittleEndian.Uint64(tag[8:])
	k.Confirm.K0 = binary.LittleEndian.Uint64(confirm[:8])
	k.Confirm.K1 = binary.LittleEndian.Uint64(confirm[8:])
	if err := m.Put(uint32(epoch)&uint32(slots-1), k); err != nil {
		return fmt.Errorf("key ring: %w", err)
	}
	return nil
}

// Splits counts the places of the flow table: those of live connections, and
// all. It walks the table; for status and tests.
func (p *Server) Splits() (live, places int, err error) {
	return countSplits(p.maps[serverbpf.ServerXdpMapTgSplits])
}

func countSplits(m *ebpf.Map) (live, places int, err error) {
	// Thousands at once: one by one, two system calls each, 131,072 of them take a quarter of a second.
	at, buckets := make([]uint32, 4096), make([]SplitBucket, 4096)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, at, buckets, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // that is the end
			return 0, 0, err
		}
		for _, b := range buckets[:n] {
			for _, e := range b.Way {
				places++
				if e.Hash != splitFree && e.State&splitClosed == 0 {
					live++
				}
			}
		}
		if err != nil {
			return live, places, nil
		}
	}
}

// Egress gives the program of that side to tests; Programs gives the others.
func (p *Server) Egress() *ebpf.Program { return p.egress }
