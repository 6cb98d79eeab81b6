// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane/patrolbpf"
	"tidegate/internal/schema"
)

// Types of the map ABI that only the patrol has.
type (
	PatrolSettings = patrolbpf.PatrolXdpTgPatrolSettings
	PatrolPort     = patrolbpf.PatrolXdpTgPatrolPort
	SourceKey6     = patrolbpf.PatrolXdpTgSourceKey6
	SourcePart     = patrolbpf.PatrolXdpTgSourcePart
)

// PatrolOptions say how a patrol's plane is made.
type PatrolOptions struct {
	Instance  string // "": nothing is taken over
	BPFFS     string
	Buckets   int   // of the filter table, a power of two
	Codepoint uint8 // for the queues
	Bonds     bool  // there is a bond among the interfaces: HaveBonds
}

// Patrol is the plane of a patrol.
type Patrol struct {
	*Plane
	tags, entries, sources []byte // mapped
	TookOver               bool   // filters and settings are those of an earlier process
}

const filterSlots = 16 // of a bucket, core/patrol.h

// patrolKept are the maps that a new process of an instance takes over: with them
// its filters are in force before it starts.
var patrolKept = []string{
	patrolbpf.PatrolXdpMapTgPfTags, patrolbpf.PatrolXdpMapTgPfFilters, VarPatrol,
	patrolbpf.PatrolXdpMapTgPfSrc4, patrolbpf.PatrolXdpMapTgPfPart4, patrolbpf.PatrolXdpMapTgPfSrc6,
	patrolbpf.PatrolXdpMapTgPfPorts, patrolbpf.PatrolXdpMapTgCounters,
}

// LoadPatrol loads the patrol's programs and maps into the kernel. Nothing is
// attached or pinned yet.
func LoadPatrol(o PatrolOptions) (*Patrol, error) {
	if err := removeMemlock(); err != nil {
		return nil, err
	}
	p := &Patrol{Plane: &Plane{bonded: o.Bonds, maps: map[string]*ebpf.Map{}}}
	if err := p.loadPatrol(o); err != nil {
		p.Close()
		return nil, explain(err)
	}
	return p, nil
}

func (p *Patrol) loadPatrol(o PatrolOptions) error {
	sized := func() (*ebpf.CollectionSpec, error) {
		spec, err := named(patrolbpf.LoadPatrolXdp)()
		if err == nil {
			spec.Maps[patrolbpf.PatrolXdpMapTgPfTags].MaxEntries = uint32(o.Buckets)
			spec.Maps[patrolbpf.PatrolXdpMapTgPfFilters].MaxEntries = uint32(o.Buckets * filterSlots)
		}
		return spec, err
	}
	spec, err := sized()
	if err != nil {
		return err
	}
	if o.Instance != "" {
		p.takeOverAll(spec, PinDir(o.BPFFS, o.Instance))
	}
	if err := p.loadAll([]object{
		{sized, patrolbpf.PatrolXdpProgTgPatrolXdp, &p.xdp},
		{func() (*ebpf.CollectionSpec, error) {
			spec, err := named(patrolbpf.LoadPatrolTc)()
			if err != nil {
				return nil, err
			}
			return spec, spec.Variables["tg_codepoint"].Set(uint32(o.Codepoint))
		}, patrolbpf.PatrolTcProgTgPatrolTc, &p.tc},
	}); err != nil {
		return err
	}
	for name := range p.maps { // constants of the compiler are not pinned
		if _, ours := spec.Maps[name]; !ours {
			p.maps[name].Close()
			delete(p.maps, name)
		}
	}
	for name, to := range map[string]*[]byte{
		patrolbpf.PatrolXdpMapTgPfTags:    &p.tags,
		patrolbpf.PatrolXdpMapTgPfFilters: &p.entries,
		patrolbpf.PatrolXdpMapTgPfSrc4:    &p.sources,
	} {
		m := p.maps[name]
		*to, err = unix.Mmap(m.FD(), 0, int(m.MaxEntries())*int(m.ValueSize()),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map %s into memory: %w", name, err)
		}
	}
	return nil
}

// takeOverAll opens all maps that an earlier process has pinned, or none,
// because the tables mean nothing without each other.
func (p *Patrol) takeOverAll(spec *ebpf.CollectionSpec, dir string) {
	taken := map[string]*ebpf.Map{}
	for _, name := range patrolKept {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if err == nil {
			taken[name] = m
			err = spec.Maps[name].Compatible(m)
		}
		if err != nil {
			for _, m := range taken {
				m.Close()
			}
			return
		}
	}
	p.maps, p.TookOver = taken, true
}

// Memory returns the filter table's memory: tags and filters.
func (p *Patrol) Memory() (tags, entries []byte) { return p.tags, p.entries }

// SourceMemory returns the memory of the two generations of IPv4 sources.
func (p *Patrol) SourceMemory() []byte { return p.sources }

// Settings in force.
func (p *Patrol) Settings() (s PatrolSettings, err error) {
	err = p.maps[VarPatrol].Lookup(uint32(0), &s)
	return s, err
}

// SetSettings writes the settings.
func (p *Patrol) SetSettings(s *PatrolSettings) error {
	if err := p.maps[VarPatrol].Put(uint32(0), s); err != nil {
		return fmt.Errorf("patrol settings: %w", err)
	}
	return nil
}

// SetPort sets how frames that arrive on an interface are treated.
func (p *Patrol) SetPort(ifindex int, port PatrolPort) error {
	return p.maps[patrolbpf.PatrolXdpMapTgPfPorts].Put(uint32(ifindex), port)
}

// SetSource6 allows an IPv6 prefix; SetPart4 sets which addresses of a /24 are allowed.
func (p *Patrol) SetSource6(k SourceKey6) error {
	return p.maps[patrolbpf.PatrolXdpMapTgPfSrc6].Put(k, uint8(1))
}

// SetPart4 writes the addresses allowed in a /24 of a generation.
func (p *Patrol) SetPart4(slash24, gen uint32, bits [4]uint64) error {
	return p.maps[patrolbpf.PatrolXdpMapTgPfPart4].Put(slash24|gen<<31, SourcePart{Bits: bits})
}

// DropSources removes the IPv6 prefixes and partial /24s of a generation.
func (p *Patrol) DropSources(gen uint32) error {
	six, part := p.maps[patrolbpf.PatrolXdpMapTgPfSrc6], p.maps[patrolbpf.PatrolXdpMapTgPfPart4]
	var k6, next6 SourceKey6
	for err := six.NextKey(nil, &next6); err == nil; {
		k6 = next6
		err = six.NextKey(k6, &next6)
		if k6.Gen == gen {
			if err := six.Delete(k6); err != nil {
				return err
			}
		}
	}
	var k4, next4 uint32
	for err := part.NextKey(nil, &next4); err == nil; {
		k4 = next4
		err = part.NextKey(k4, &next4)
		if k4>>31 == gen {
			if err := part.Delete(k4); err != nil {
				return err
			}
		}
	}
	return nil
}

// CountersNow returns the counters, summed over all CPUs.
func (p *Patrol) CountersNow() (map[string]uint64, error) {
	var perCPU []patrolCounters
	if err := p.maps[patrolbpf.PatrolXdpMapTgCounters].Lookup(uint32(0), &perCPU); err != nil {
		return nil, fmt.Errorf("counters: %w", err)
	}
	var sum [schema.NumCounters]uint64
	for _, row := range perCPU {
		for i, v := range row.Count {
			sum[i] += v
		}
	}
	return schema.Map(sum), nil
}

type patrolCounters struct{ Count [schema.NumCounters]uint64 }

// AttachPatrol installs the XDP program on the interfaces and the classifier on
// those with queues, and pins everything. Links of an earlier process are taken
// over, so that filters stay in force over a restart.
func (p *Patrol) AttachPatrol(o AttachOptions, queues []string) (map[string]XDPMode, error) {
	p.dir, p.mode = PinDir(o.BPFFS, o.Instance), o.XDPMode
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("pin directory: %w; is a BPF file system mounted at %s?", err, o.BPFFS)
	}
	p.links = &attachments{dir: p.dir, interfaces: o.Interfaces, xdp: map[string]*attachment{}, tc: map[string]*attachment{}}
	modes, err := p.attachPatrol(o, queues)
	if err == nil {
		err = p.pinMaps()
	}
	if err == nil {
		err = p.Commit()
	}
	if err != nil {
		return nil, errors.Join(err, p.Undo())
	}
	return modes, nil
}

func (p *Patrol) attachPatrol(o AttachOptions, queues []string) (map[string]XDPMode, error) {
	devices := map[string]int{}
	for _, name := range o.Interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		devices[name] = dev.Index
	}
	p.links.dropDead(devices)
	for _, name := range queues {
		if err := p.attachEgress(name, devices[name]); err != nil {
			return nil, err
		}
	}
	modes := map[string]XDPMode{}
	for name, index := range devices {
		if err := p.attachXDP(name, index, o); err != nil {
			return nil, err
		}
		modes[name] = attachedMode(index)
	}
	return modes, nil
}

func (p *Patrol) attachEgress(name string, index int) error {
	path := filepath.Join(p.dir, pinName("tc", name))
	a, err := takeOver(path, p.tc, nil)
	if err != nil {
		return err
	}
	if a == nil {
		l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p.tc,
			Attach: ebpf.AttachTCXEgress, Anchor: link.Tail()})
		if err != nil {
			return fmt.Errorf("interface %s: TCX egress: %w", name, err)
		}
		if a, err = pinNew(linkHook{l}, path); err != nil {
			return err
		}
		a.prog = p.tc
	}
	p.links.tc[name] = a
	return nil
}

// Close releases this process's handles. What is pinned goes on working.
func (p *Patrol) Close() {
	for _, mem := range []*[]byte{&p.tags, &p.entries, &p.sources} {
		if *mem != nil {
			_ = unix.Munmap(*mem)
			*mem = nil
		}
	}
	p.Plane.Close()
}

// OpenPatrolCounters reads the counters of an installed patrol.
func OpenPatrolCounters(bpffs, instance string) (map[string]uint64, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(PinDir(bpffs, instance), patrolbpf.PatrolXdpMapTgCounters),
		&ebpf.LoadPinOptions{ReadOnly: true})
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no patrol %q is installed here; start one with `tidegate run -c FILE`", instance)
	}
	if err != nil {
		return nil, err
	}
	p := &Patrol{Plane: &Plane{maps: map[string]*ebpf.Map{patrolbpf.PatrolXdpMapTgCounters: m}}}
	defer m.Close()
	return p.CountersNow()
}

// DetachPinned detaches an instance's pinned programs, whether or not its process lives.
func DetachPinned(bpffs, instance string) error {
	dir := PinDir(bpffs, instance)
	a := &attachments{dir: dir}
	a.eachPin(func(path, _, _ string) {
		if l, err := openHook(path); err == nil {
			_ = (&attachment{link: l, path: path}).detach()
		}
	})
	return os.RemoveAll(dir)
}
