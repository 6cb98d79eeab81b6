// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"net"
	"path/filepath"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane/edgebpf"
)

// Types of the map ABI that only the edge has.
type (
	EdgeSettings = edgebpf.EdgeXdpTgEdgeSettings
	EdgePort     = edgebpf.EdgeXdpTgEdgePort
	EdgeReport   = edgebpf.EdgeXdpTgEdgeReport
	BloomKey     = [2][11]uint64 // struct tg_bloom_key
)

// As core/bloom.h and core/edge.h have them.
const (
	BloomPartitions  = 3
	BloomGenerations = 4
	BloomBitsMin     = 10
	BloomBitsMax     = 26

	AllowNone = uint64(0)      // no unknown packet passes
	AllowAll  = math.MaxUint64 // all do

	// Flags of an EdgePort, as bpf/lib/edge_maps.h has them.
	EdgePortHere      = 1
	EdgePortInside    = 2
	EdgePortChallenge = 1 << 4
	EdgePortBridged   = 1 << 5
	EdgePortTagged    = 1 << 6

	maxIfindex = 1 << 20
)

// EdgeOptions say how an edge's plane is made.
type EdgeOptions struct {
	Options
	BPFFS     string
	BloomBits int  // positions of a partition, as a power of two
	Smart     bool // cookies in the layout smartcookie, with its keys
}

// Edge is the plane of an edge.
type Edge struct {
	*Plane
	own     EdgeSettings // as last written
	bits    int
	words   []uint64 // the filter, in this process's memory
	mapping []byte
	probe   *ebpf.Program
	taken   bool // the filter was taken over from an earlier process
}

// LoadEdge loads the edge's programs and maps into the kernel. Nothing is attached
// or pinned yet. The filter of an earlier process of the same instance is taken
// over with its key, if it has the same size.
func LoadEdge(o EdgeOptions) (*Edge, error) {
	if err := removeMemlock(); err != nil {
		return nil, err
	}
	ports, err := portSlots()
	if err != nil {
		return nil, err
	}
	e := &Edge{bits: o.BloomBits, Plane: &Plane{bonded: o.Bonds, keySlots: powerOfTwo(o.KeySlots), maps: map[string]*ebpf.Map{}, sizes: sizesFor(o.Services)}}
	maps.Copy(e.sizes, map[string]uint32{
		edgebpf.EdgeXdpMapTgBloom:     uint32(filterWords(o.BloomBits)),
		edgebpf.EdgeXdpMapTgEdgePorts: ports,
		edgebpf.EdgeXdpMapTgTagKeys:   uint32(powerOfTwo(o.KeySlots)),
	})
	if o.Instance != "" {
		if err := e.takeOverFilter(PinDir(o.BPFFS, o.Instance)); err != nil {
			return nil, err
		}
	}
	if err := e.loadEdge(o.Smart); err != nil {
		e.Close()
		return nil, explain(err)
	}
	return e, nil
}

func (e *Edge) loadEdge(smart bool) error {
	gate := object{edgebpf.LoadEdgeXdp, edgebpf.EdgeXdpProgTgEdgeXdp, &e.xdp}
	if smart {
		gate.spec = edgebpf.LoadEdgeSmart
	}
	err := e.loadAll([]object{
		gate,
		{edgebpf.LoadEdgeProbe, edgebpf.EdgeProbeProgTgEdgeProbe, &e.probe},
	})
	if err != nil {
		return err
	}
	if err := e.maps[VarEdge].Lookup(uint32(0), &e.own); err != nil {
		return err
	}
	e.own.BloomBits = uint32(e.bits)
	bloom := e.maps[edgebpf.EdgeXdpMapTgBloom]
	size := int(bloom.MaxEntries()) * 8
	e.mapping, err = unix.Mmap(bloom.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("the filter's memory: %w", err)
	}
	e.words = unsafe.Slice((*uint64)(unsafe.Pointer(&e.mapping[0])), size/8)
	return nil
}

// keptByEdge are the filter and the settings that hold its key.
var keptByEdge = []keptTables{{"the filter, which learns again", []string{edgebpf.EdgeXdpMapTgBloom, VarEdge}}}

// takeOverFilter opens the filter that an earlier process has pinned, if it has the same size.
func (e *Edge) takeOverFilter(dir string) error {
	spec, err := named(edgebpf.LoadEdgeXdp)()
	if err != nil {
		return err
	}
	e.sized(spec)
	e.takeOverTables(spec, dir, keptByEdge, func(name string, m *ebpf.Map) bool {
		var old EdgeSettings
		return name != VarEdge || m.Lookup(uint32(0), &old) == nil && old.BloomBits == uint32(e.bits)
	})
	e.taken = e.maps[edgebpf.EdgeXdpMapTgBloom] != nil
	return nil
}

// portSlots is how many entries a table by interface index needs.
func portSlots() (uint32, error) {
	list, err := net.Interfaces()
	if err != nil {
		return 0, err
	}
	slots := 64
	for _, dev := range list {
		for slots <= dev.Index {
			slots *= 2
		}
	}
	if slots > maxIfindex {
		return 0, fmt.Errorf("an interface has an index above %d; the table of ports ends there", maxIfindex)
	}
	return uint32(slots), nil
}

// Warm reports whether the filter was taken over from an earlier process.
func (e *Edge) Warm() bool { return e.taken }

// EdgeSettings are those in force: at first those of the earlier process, if its
// filter was taken over.
func (e *Edge) EdgeSettings() EdgeSettings { return e.own }

// SetEdge writes the edge's settings. The generation is set by this package.
func (e *Edge) SetEdge(s EdgeSettings) error {
	s.Generation, s.BloomBits = e.own.Generation, uint32(e.bits)
	if err := e.maps[VarEdge].Put(uint32(0), s); err != nil {
		return fmt.Errorf("edge settings: %w", err)
	}
	e.own = s
	return nil
}

// SetForwarding sets how frames are forwarded: by the kernel's routes, or between two ports.
func (e *Edge) SetForwarding(bridge [2]uint32, all bool) error {
	s := edgebpf.EdgeXdpTgProxySettings{Bridge: bridge}
	if all {
		s.ForwardAll = 1
	}
	if err := e.maps[VarProxy].Put(uint32(0), s); err != nil {
		return fmt.Errorf("forwarding: %w", err)
	}
	return nil
}

// EdgePorts is what the packet path knows of this box's ports.
type EdgePorts struct {
	Interfaces   []string
	Inside       func(name string) bool // which of them face servers
	ChallengeAll bool                   // SYNs with timestamps, too, are looked up in the filter
	Bridged      bool                   // what comes is for others, whatever its MAC address
	Tagged       bool                   // the protocol is `tagged`
}

// SetEdgePorts replaces it.
func (e *Edge) SetEdgePorts(p EdgePorts) error {
	flags := uint64(EdgePortHere)
	for flag, on := range map[uint64]bool{EdgePortChallenge: p.ChallengeAll, EdgePortBridged: p.Bridged, EdgePortTagged: p.Tagged} {
		if on {
			flags |= flag
		}
	}
	for _, name := range p.Interfaces {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: not found; see `ip link`", name)
		}
		if len(dev.HardwareAddr) != 6 {
			return fmt.Errorf("interface %s: is no Ethernet device; the edge needs one", name)
		}
		port := EdgePort{Flags: flags}
		if p.Inside(name) {
			port.Flags |= EdgePortInside
		}
		for i, b := range dev.HardwareAddr {
			port.Mac |= uint64(b) << (8 * i)
		}
		index := uint32(dev.Index)
		if err := e.maps[edgebpf.EdgeXdpMapTgDevices].Put(index, index); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		if err := e.maps[edgebpf.EdgeXdpMapTgEdgePorts].Put(index, port); err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
	}
	return nil
}

// BeginFilter empties the filter and changes its key.
func (e *Edge) BeginFilter(s EdgeSettings) error {
	if err := e.SetEdge(s); err != nil {
		return err
	}
	for i := range e.words {
		atomic.StoreUint64(&e.words[i], 0)
	}
	return nil
}

// Rotate empties the oldest generation and makes it the active one. The packet path
// goes on setting bits of the others meanwhile, so every word is changed by an
// atomic AND.
func (e *Edge) Rotate() error {
	next := (e.own.Generation + 1) % BloomGenerations
	keep := ^(uint64(0x1111111111111111) << next)
	for i := range e.words {
		if e.words[i]&^keep != 0 {
			atomic.AndUint64(&e.words[i], keep)
		}
	}
	e.own.Generation = next
	return e.SetEdge(e.own)
}

// BloomFill is how much of the filter is in use.
type BloomFill struct {
	Set   [BloomGenerations][BloomPartitions]uint64 // positions
	Slots uint64                                    // of a partition
}

// Fill counts the filter's bits.
func (e *Edge) Fill() BloomFill {
	f := BloomFill{Slots: 1 << e.bits}
	each := partitionWords(e.bits) / BloomPartitions
	for p := range BloomPartitions {
		for _, w := range e.words[p*each : (p+1)*each] {
			for g := range BloomGenerations {
				f.Set[g][p] += uint64(bits.OnesCount64(w & (0x1111111111111111 << g)))
			}
		}
	}
	return f
}

// FPRate is the share of unknown flows that a filter this full takes for known: for
// each generation the product of its partitions' fills; for the filter, the chance that at least one matches.
func (f BloomFill) FPRate() float64 {
	none := 1.0
	for _, partitions := range f.Set {
		hit := 1.0
		for _, n := range partitions {
			hit *= float64(n) / float64(f.Slots)
		}
		none *= 1 - hit
	}
	return 1 - none
}

// Generation is the mean fill of one generation's partitions, and the number of
// flows that gives such a fill.
func (f BloomFill) Generation(g int) (fill, flows float64) {
	for _, n := range f.Set[g] {
		fill += float64(n) / float64(f.Slots) / BloomPartitions
	}
	if fill >= 1 {
		return fill, math.Inf(1)
	}
	return fill, math.Log1p(-fill) / math.Log1p(-1/float64(f.Slots))
}

// FPRateOf is equation 1 of SmartCookie, for one generation that holds n flows.
func FPRateOf(n float64, bloomBits int) float64 {
	return math.Pow(-math.Expm1(n*math.Log1p(-1/math.Exp2(float64(bloomBits)))), BloomPartitions)
}

// Probe looks up n random flows in the filter, through the packet path's own code, and
// returns how many it takes for known.
func (e *Edge) Probe(n uint32) (known uint32, err error) {
	p := edgebpf.EdgeProbeTgProbe{Probes: n}
	if _, err := e.probe.Run(&ebpf.RunOptions{Context: &p, ContextOut: &p}); err != nil {
		return 0, fmt.Errorf("probing the filter: %w", err)
	}
	return p.Known, nil
}

// SetReport stores the report for `status`.
func (e *Edge) SetReport(r EdgeReport) error {
	if err := e.maps[edgebpf.EdgeXdpMapTgEdgeReports].Put(uint32(0), r); err != nil {
		return fmt.Errorf("edge report: %w", err)
	}
	return nil
}

// ReadEdge reads settings and report of an instance through its pins.
func ReadEdge(dir string) (s EdgeSettings, r EdgeReport, err error) {
	for name, to := range map[string]any{VarEdge: &s, edgebpf.EdgeXdpMapTgEdgeReports: &r} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			return s, r, err
		}
		err = m.Lookup(uint32(0), to)
		m.Close()
		if err != nil {
			return s, r, err
		}
	}
	return s, r, nil
}

// closedState is TG_CLOSED_CLOSED of core/closed_port.h.
const closedState = 2

// ReadClosed counts, through an instance's pins, the addresses and ports that its
// edge has learned to be closed.
func ReadClosed(dir string) (n int, err error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, edgebpf.EdgeXdpMapTgClosed), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer m.Close()
	now := uint64(MonotonicNs())
	for slot := range m.MaxEntries() {
		var e edgebpf.EdgeXdpTgClosedEntry
		if err := m.Lookup(slot, &e); err != nil {
			return 0, err
		}
		if e.State == closedState && now < e.UntilNs {
			n++
		}
	}
	return n, nil
}

// Close releases this process's handles. What is pinned goes on working.
func (e *Edge) Close() {
	if e.mapping != nil {
		_ = unix.Munmap(e.mapping)
		e.mapping, e.words = nil, nil
	}
	if e.probe != nil {
		e.probe.Close()
	}
	e.Plane.Close()
}

// PrefillFilter puts n random flows into the active generation of an instance's
// pinned filter, to give experiments a rate of false positives. random returns 64 bits.
func PrefillFilter(dir string, n int, random func() uint64) error {
	s, _, err := ReadEdge(dir)
	if err != nil {
		return fmt.Errorf("the edge's filter: %w", err)
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, edgebpf.EdgeXdpMapTgBloom), nil)
	if err != nil {
		return fmt.Errorf("the edge's filter: %w", err)
	}
	defer m.Close()
	mapping, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries())*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("the filter's memory: %w", err)
	}
	defer unix.Munmap(mapping)
	prefill(unsafe.Slice((*uint64)(unsafe.Pointer(&mapping[0])), m.MaxEntries()), s, n, random)
	return nil
}

// Prefill does the same with this process's own filter.
func (e *Edge) Prefill(n int, random func() uint64) { prefill(e.words, e.own, n, random) }

func prefill(words []uint64, s EdgeSettings, n int, random func() uint64) {
	for range n {
		hash := random()
		lo, hi := uint32(hash), uint32(hash>>32)
		for p := range uint32(BloomPartitions) { // tg_bloom_locate of core/bloom.h
			setPosition(words, int(s.BloomBits), p<<s.BloomBits+(lo+p*hi)&(1<<s.BloomBits-1), uint32(s.Generation))
		}
	}
}
