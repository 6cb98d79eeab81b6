// SPDX-License-Identifier: Apache-2.0

// Package plane loads the BPF programs of the host gate and of the proxy, attaches
// them and owns their maps and pins. It must not depend on YAML, secrets or
// listeners: its callers decide which services, keys and settings go where.
//
// Everything is pinned below <bpffs>/tidegate/<instance>/, so that the packet
// path outlives the process that made it.
package plane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"tidegate/internal/plane/hostbpf"
	"tidegate/internal/schema"
)

// Types of the map ABI, as the compiled object has them.
type (
	Settings  = hostbpf.HostXdpTgHostSettings
	Filling   = hostbpf.HostXdpTgFillingState
	Service   = hostbpf.HostXdpTgService
	PrefixKey = hostbpf.HostXdpTgPrefixKey
	EpochKey  = hostbpf.HostXdpTgEpochKey
	Counters  = hostbpf.HostXdpTgCounterRow
)

// Modes and listener states.
const (
	ModeOff     = schema.ModeOff
	ModeMonitor = schema.ModeMonitor
	ModeAlways  = schema.ModeAlways
	ModeAuto    = schema.ModeAuto

	ListenerOK      = schema.ListenerOK
	ListenerNone    = schema.ListenerNone
	ListenerMPTCP   = schema.ListenerMPTCP
	ListenerRefused = schema.ListenerRefused
	ListenerGuest   = schema.ListenerGuest
	ListenerVaries  = schema.ListenerVaries

	ListenerTranslate = 6

	WScaleNone = 15

	SignedAnswer = 0 // signed_cost_us
	SignedDrop   = 0xffff_ffff

	portHasPrefixes = 0x8000_0000
	portWatched     = 0x4000_0000
	portSeed        = 0x2000_0000
	prefixLenEnd    = 255
)

// MaxServices is the number of services that the maps can hold.
const MaxServices = 10_000

// Plane is a loaded set of programs and maps.
type Plane struct {
	dir      string // pins
	keySlots int

	xdp, tc, sockops, iter *ebpf.Program
	held                   *ebpf.Program // counts the sockets of each source: Recount
	egress                 *ebpf.Program // only what translates has one
	translate, open        *ebpf.Program // of a host that translates: what the kernel calls in place of tc, and what tc calls
	gate                   struct {      // where xdp came from, to be loaded once more: extend
		spec *ebpf.CollectionSpec
		name string
	}
	maps      map[string]*ebpf.Map
	sizes     map[string]uint32 // entries of maps whose size is not the object's
	links     *attachments
	priority  uint32                              // AttachOptions.Priority
	absent    map[string]*absence                 // by interface: see Rejoin
	freshPins []string                            // maps that are pinned under a temporary name
	final     bool                                // links are to stay: Commit
	shared    []sharedValue                       // earlier content of maps that this process shares with the one before
	own       map[hostbpf.HostXdpTgOwnPrefix]bool // what SetOwn has written to the map
	replies   replies                             // what SetReplies has written to the maps
	filled    tables                              // what SetServices has written to the maps
	Lost      []string                            // what of an earlier process could not be taken over, and why
	bell      *ringbuf.Reader                     // rings when the packet path asks for a look
	farEnd    bool                                // Options.FarEnd
	mode      XDPMode                             // AttachOptions.XDPMode
	turns     map[string]bool                     // by interface: see FollowFarEnd
	veths     map[string]bool                     // by interface: see isVeth
	bonded    bool                                // Options.Bonds
	members   map[uint32]uint32                   // what FollowMembers has written to the map
	watching  bool                                // sock_ops is attached and the socket filter is seeded

	partsMended bool // see PartsMended
}

// Options say how a plane is made.
type Options struct {
	Instance string
	KeySlots int  // keys that may be loaded at once; rounded up to a power of two
	Services int  // how many numbers of services are needed at once: serviceRoom
	NoXDP    bool // a server behind an edge: the edge answers its SYNs

	// FarEnd has xdp_mode auto look at the far end of a veth (farend.go). A gate to which others redirect must not:
	// only native XDP is sure to get what is redirected to a veth, and gates that face each other start one after the other.
	FarEnd bool

	Bonds bool // there is a bond among the interfaces: HaveBonds

	Common map[string]*ebpf.Map // of another plane, used here instead of maps of the same names of its own

	// For a host that translates where it cannot adopt.
	Flows int    // connections that the table shall hold; 0: it does not translate
	BPFFS string // where an earlier process of the instance may have left its table
}

// Load loads programs and maps into the kernel. Nothing is attached or pinned yet.
func Load(o Options) (*Plane, error) {
	if err := removeMemlock(); err != nil {
		return nil, err
	}
	ports, err := portSlots()
	if err != nil {
		return nil, err
	}
	p := &Plane{farEnd: o.FarEnd, bonded: o.Bonds, keySlots: powerOfTwo(o.KeySlots), maps: map[string]*ebpf.Map{}, sizes: sizesFor(o.Services)}
	p.sizes[hostbpf.HostXdpMapTgOwnPorts], p.sizes[hostbpf.HostXdpMapTgReplyPorts] = ports, ports
	for name, m := range o.Common {
		if p.maps[name], err = m.Clone(); err != nil {
			delete(p.maps, name)
			p.Close()
			return nil, err
		}
		if _, ok := p.sizes[name]; ok {
			p.sizes[name] = m.MaxEntries()
		}
	}
	if o.Flows > 0 {
		p.sizes[hostbpf.HostTranslateMapTgSplits] = uint32(splitBuckets(o.Flows))
		if err := p.takeOverSplits(o); err != nil {
			return nil, err
		}
	}
	if err := p.load(o.NoXDP); err != nil {
		p.Close()
		return nil, explain(err)
	}
	if o.Flows > 0 {
		if err := p.loadTranslating(); err != nil {
			p.Close()
			return nil, explain(err)
		}
	}
	return p, nil
}

func (p *Plane) load(noXDP bool) error {
	programs := []object{
		{hostbpf.LoadHostTc, hostbpf.HostTcProgTgHostTc, &p.tc},
		{hostbpf.LoadHostSockops, hostbpf.HostSockopsProgTgHostSockops, &p.sockops},
		{hostbpf.LoadHostIter, hostbpf.HostIterProgTgHostIter, &p.iter},
		{hostbpf.LoadHostHeld, hostbpf.HostHeldProgTgHostHeld, &p.held},
	}
	if !noXDP {
		programs = append(programs, object{hostbpf.LoadHostXdp, hostbpf.HostXdpProgTgHostXdp, &p.xdp})
	}
	if err := p.loadAll(programs); err != nil {
		return err
	}
	if err := p.kernelMayHaveAnswered(); err != nil {
		return err
	}
	var err error
	p.bell, err = ringbuf.NewReader(p.maps[hostbpf.HostTcMapTgBell])
	return err
}

// object is one compiled file with one program.
type object struct {
	spec func() (*ebpf.CollectionSpec, error)
	name string
	to   **ebpf.Program
}

// parsed is an object that has been read already, which takes a twentieth of a start.
func parsed(spec *ebpf.CollectionSpec) func() (*ebpf.CollectionSpec, error) {
	return func() (*ebpf.CollectionSpec, error) { return spec, nil }
}

func (p *Plane) loadAll(programs []object) error {
	defer runtime.KeepAlive(KernelTypes())
	for _, prog := range programs {
		spec, err := prog.spec()
		if err != nil {
			return err
		}
		if err := p.loadOne(spec, prog.name, prog.to); err != nil {
			return fmt.Errorf("program %s: %w", prog.name, err)
		}
	}
	return nil
}

// loadOne loads one object; maps of an earlier object are shared.
func (p *Plane) loadOne(spec *ebpf.CollectionSpec, name string, to **ebpf.Program) error {
	nameVariables(spec)
	setBonds(spec, p.bonded)
	replacements := p.replacements(spec)
	if to == &p.xdp {
		p.gate.spec, p.gate.name = spec.Copy(), name
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: replacements, Cache: KernelTypes()})
	if err != nil {
		return err
	}
	*to = coll.Programs[name]
	delete(coll.Programs, name)
	p.keepMaps(coll)
	coll.Close()
	return nil
}

// replacements sets map sizes for this plane, and returns the maps that it already has.
func (p *Plane) replacements(spec *ebpf.CollectionSpec) map[string]*ebpf.Map {
	replace := map[string]*ebpf.Map{}
	p.sized(spec)
	for mapName, ms := range spec.Maps {
		if mapName == hostbpf.HostXdpMapTgKeys {
			ms.MaxEntries = uint32(p.keySlots)
		}
		if m, ok := p.maps[mapName]; ok {
			replace[mapName] = m
		}
	}
	return replace
}

// keepMaps takes from a collection the maps that this plane does not have yet.
func (p *Plane) keepMaps(coll *ebpf.Collection) {
	for mapName, m := range coll.Maps {
		if _, shared := p.maps[mapName]; !shared {
			p.maps[mapName] = m
			delete(coll.Maps, mapName)
		}
	}
}

// sized sets the map sizes of this plane.
func (p *Plane) sized(spec *ebpf.CollectionSpec) {
	for name, entries := range p.sizes {
		if ms, ok := spec.Maps[name]; ok {
			ms.MaxEntries = entries
		}
	}
}

// Programs returns the XDP and the TC program, for tests and benchmarks.
func (p *Plane) Programs() (xdp, tc *ebpf.Program) { return p.xdp, p.tc }

// Map returns a map by its name in the object, for tests and benchmarks.
func (p *Plane) Map(name string) *ebpf.Map { return p.maps[name] }

// KeySlots is the size of the key ring.
func (p *Plane) KeySlots() int { return p.keySlots }

// Close releases this process's handles. What is pinned goes on working; what was attached and not
// committed is undone.
func (p *Plane) Close() {
	_ = p.Undo()
	for _, prog := range []*ebpf.Program{p.xdp, p.tc, p.translate, p.open, p.egress, p.sockops, p.iter, p.held} {
		if prog != nil {
			prog.Close()
		}
	}
	if p.bell != nil {
		p.bell.Close()
	}
	for _, m := range p.maps {
		m.Close()
	}
	if p.links != nil {
		p.links.close()
	}
}

func powerOfTwo(n int) int {
	p := 16
	for p < n {
		p *= 2
	}
	return p
}

// explain turns the kernel's error into advice for the user.
func explain(err error) error {
	var ve *ebpf.VerifierError
	switch {
	// First: a refusal by the verifier is "permission denied", too.
	case errors.As(err, &ve):
		return fmt.Errorf("the kernel's verifier refused a program: %w; see `tidegate check`, and please report it", err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("loading BPF programs: %w; run as root", err)
	case errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w; this kernel lacks a feature, see `tidegate check`", err)
	}
	return err
}

// PinDir is where an instance's maps and links are pinned.
func PinDir(bpffs, instance string) string {
	return filepath.Join(bpffs, "tidegate", escapePin.Replace(instance))
}
