// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"

	"github.com/cilium/ebpf"

	"tidegate/internal/plane/hostbpf"
)

// A host that translates where it cannot adopt has three more programs. The translating
// program is what the kernel calls at TC ingress; through the map tg_parts it calls the
// adopting program, which calls the one that opens a translated connection.

// Places in tg_parts; enum tg_part.
const (
	partAdopt = 0
	partOpen  = 1
)

// takeOverSplits takes over the connections of an earlier process of the instance.
func (p *Plane) takeOverSplits(o Options) error {
	if o.Instance == "" {
		return nil
	}
	spec, err := named(hostbpf.LoadHostTranslate)()
	if err != nil {
		return err
	}
	p.sized(spec)
	p.takeOverTables(spec, PinDir(o.BPFFS, o.Instance), keptByServer, nil)
	return nil
}

// loadTranslating loads a host's translating programs, beside the adopting one.
func (p *Plane) loadTranslating() error {
	spec, err := named(hostbpf.LoadHostTranslate)()
	if err != nil {
		return err
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: p.replacements(spec), Cache: KernelTypes()})
	if err != nil {
		return fmt.Errorf("program %s: %w", hostbpf.HostTranslateProgTgHostTranslate, err)
	}
	p.translate = coll.DetachProgram(hostbpf.HostTranslateProgTgHostTranslate)
	p.open = coll.DetachProgram(hostbpf.HostTranslateProgTgHostOpen)
	p.keepMaps(coll)
	coll.Close()
	if err := p.loadAll([]object{{hostbpf.LoadHostEgress, hostbpf.HostEgressProgTgServerEgress, &p.egress}}); err != nil {
		return err
	}
	return p.putParts()
}

func (p *Plane) putParts() error {
	parts := p.maps[hostbpf.HostTcMapTgParts]
	for at, prog := range map[uint32]*ebpf.Program{partAdopt: p.tc, partOpen: p.open} {
		if err := parts.Put(at, prog); err != nil {
			return fmt.Errorf("parts of the TC program: %w", err)
		}
	}
	return nil
}

// mendParts fills the array of the parts again, if the packet path has found one missing. The settings that are written next let SYNs be
// answered again.
func (p *Plane) mendParts() error {
	if p.translate == nil {
		return nil
	}
	var now Settings
	if err := p.maps[VarSettings].Lookup(uint32(0), &now); err != nil || now.PartsLost == 0 {
		return err
	}
	p.partsMended = true
	return p.putParts()
}

// PartsMended reports whether the array of the parts of the TC program has been filled again since the last call.
func (p *Plane) PartsMended() bool {
	was := p.partsMended
	p.partsMended = false
	return was
}

// ingress is the program that the kernel calls at TC ingress.
func (p *Plane) ingress() *ebpf.Program {
	if p.translate != nil {
		return p.translate
	}
	return p.tc
}

// Translating returns the programs that a host translates with; for tests.
func (p *Plane) Translating() (ingress, egress *ebpf.Program) { return p.translate, p.egress }

// HostServer is the Server of a host, for SetServer; its settings are at first the earlier process's, if
// that process's table was taken over.
func (p *Plane) HostServer() *Server { return &Server{p} }
