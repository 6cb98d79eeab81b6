// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Variables of the packet path (TG_VARIABLE, bpf/lib/kernel.h): each is an array map of one entry, whose address programs hold instead of
// looking it up. Their names are those of their maps.
const (
	VarSettings    = "tg_settings"
	VarPorts       = "tg_ports"
	VarServices    = "tg_services"
	VarProxy       = "tg_proxy"
	VarStrategies  = "tg_strategies"
	VarServersNear = "tg_servers_near"
	VarPresence    = "tg_presence"
	VarEdge        = "tg_edge"
	VarTagged      = "tg_tagged"
	VarServer      = "tg_server"
	VarListFront   = "tg_list_front"
	VarListBits    = "tg_list_bits"
	VarOwnAddrs    = "tg_own_addrs"
	VarPatrol      = "tg_pf_settings"
	VarFilling     = "tg_filling"
)

// sectionOf is where the compiler puts variables; the rest of a section's name is the variable's.
const sectionOf = ".data."

// named loads an object, and gives the maps of its variables their names.
func named(load func() (*ebpf.CollectionSpec, error)) func() (*ebpf.CollectionSpec, error) {
	return func() (*ebpf.CollectionSpec, error) {
		spec, err := load()
		if err == nil {
			nameVariables(spec)
		}
		return spec, err
	}
}

// nameVariables names the maps of an object's variables as these, for pins, tools and what shares them. A variable that is an array
// can be mapped into this process, so that its entries change one by one.
func nameVariables(spec *ebpf.CollectionSpec) {
	for section, ms := range spec.Maps {
		name, is := strings.CutPrefix(section, sectionOf)
		if !is {
			continue
		}
		delete(spec.Maps, section)
		spec.Maps[name] = ms
		ms.Name, ms.Contents = name, nil // zeros
		var v *btf.Var
		if spec.Types == nil || spec.Types.TypeByName(name, &v) != nil {
			continue
		}
		ms.Key, ms.Value = &btf.Int{Name: "unsigned int", Size: 4}, v.Type
		if _, array := btf.UnderlyingType(v.Type).(*btf.Array); array {
			ms.Flags |= unix.BPF_F_MMAPABLE
		}
	}
	for _, prog := range spec.Programs {
		for i := range prog.Instructions {
			ins := &prog.Instructions[i]
			if name, is := strings.CutPrefix(ins.Reference(), sectionOf); is && ins.IsLoadFromMap() {
				*ins = ins.WithReference(name)
			}
		}
	}
}

// Entries shows what a variable or an array holds as the packet path sees it, for the time of a call; to be written only if `write`. The kernel
// maps nothing that was opened read-only.
func Entries[T any](m *ebpf.Map, write bool, do func(list []T)) error {
	size := int(m.MaxEntries()) * int(m.ValueSize())
	access := unix.PROT_READ
	if write {
		access |= unix.PROT_WRITE
	}
	raw, err := unix.Mmap(m.FD(), 0, size, access, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s into memory: %w", m, err)
	}
	do(unsafe.Slice((*T)(unsafe.Pointer(&raw[0])), size/int(unsafe.Sizeof(*new(T)))))
	return unix.Munmap(raw)
}

// SetEntry writes one entry of a variable that is an array.
func SetEntry[T any](m *ebpf.Map, at uint32, v T) error {
	return onEntry(m, at, true, func(e *T) { *e = v })
}

// entry reads one.
func entry[T any](m *ebpf.Map, at uint32) (v T, err error) {
	err = onEntry(m, at, false, func(e *T) { v = *e })
	return v, err
}

func onEntry[T any](m *ebpf.Map, at uint32, write bool, do func(e *T)) error {
	there := false
	err := Entries(m, write, func(list []T) {
		if there = int(at) < len(list); there {
			do(&list[at])
		}
	})
	if err == nil && !there {
		err = fmt.Errorf("%s has no entry %d", m, at)
	}
	return err
}
