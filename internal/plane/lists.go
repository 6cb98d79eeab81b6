// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"tidegate/internal/plane/hostbpf"
)

// ListTable is a table of core/source_list.h.
type ListTable interface {
	Blocks() int
	Bytes(to []byte)
	Front() (words []uint64, shift uint32, wide [2]bool)
}

const listBlockBytes = 64

// List is a table in the kernel's memory, for one use by SetList.
type List struct {
	m     *ebpf.Map
	words []uint64 // of the filter in front of it
	how   uint64   // how that is read, but for where it begins: core/source_list.h
}

// NewList copies a table to the kernel. No packet path has it yet.
func NewList(t ListTable) (*List, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "tg_list", Type: ebpf.Array, KeySize: 4, ValueSize: listBlockBytes, MaxEntries: uint32(t.Blocks()),
		Flags: unix.BPF_F_MMAPABLE | unix.BPF_F_INNER_MAP})
	if err != nil {
		return nil, fmt.Errorf("lists: a table of %d blocks: %w", t.Blocks(), explain(err))
	}
	memory, err := unix.Mmap(m.FD(), 0, t.Blocks()*listBlockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		t.Bytes(memory)
		err = unix.Munmap(memory)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("lists: table into memory: %w", err)
	}
	l := &List{m: m}
	var shift uint32
	var wide [2]bool
	l.words, shift, wide = t.Front()
	l.how = uint64(shift)
	for i, w := range wide {
		if w {
			l.how |= 1 << (8 + i)
		}
	}
	return l, nil
}

// setFront puts a table's filter into the half that no packet reads, and then has packets read that. The table itself has to follow.
func (p *Plane) setFront(l *List) error {
	bits, front := p.maps[VarListBits], p.maps[VarListFront]
	var now uint64
	if err := front.Lookup(uint32(0), &now); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	half := bits.ValueSize() / 8 / 2
	first := half - uint32(now>>32) // 0 or half
	if len(l.words) > int(half) {
		return fmt.Errorf("lists: a filter of %d words, where %d have room", len(l.words), half)
	}
	if err := Entries(bits, true, func(words []uint64) { copy(words[first:], l.words) }); err != nil {
		return fmt.Errorf("lists: the filter: %w", err)
	}
	if err := front.Put(uint32(0), l.how|uint64(first)<<32); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return nil
}

// SetList puts a table into the packet path: a packet meets the one before, or this one. The kernel frees the one before when no
// packet uses it any more, and waits for those that run, so that none reads the filter's other half when the next table comes. nil: there is none. The settings say whether it is asked (Lists).
func (p *Plane) SetList(l *List) error {
	outer := p.maps[hostbpf.HostXdpMapTgLists]
	if l == nil {
		if err := outer.Delete(uint32(0)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("lists: %w", err)
		}
		return nil
	}
	defer l.m.Close()
	if err := p.setFront(l); err != nil {
		return err
	}
	if err := outer.Put(uint32(0), l.m); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return nil
}
