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
}

const listBlockBytes = 64

// List is a table in the kernel's memory, for one use by SetList.
type List struct{ m *ebpf.Map }

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
	return &List{m}, nil
}

// SetList puts a table into the packet path: a packet meets the one before, or this one. The kernel frees the one before when no
// packet uses it any more. nil: there is none. The settings say whether it is asked (Lists).
func (p *Plane) SetList(l *List) error {
	outer := p.maps[hostbpf.HostXdpMapTgLists]
	if l == nil {
		if err := outer.Delete(uint32(0)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("lists: %w", err)
		}
		return nil
	}
	defer l.m.Close()
	if err := outer.Put(uint32(0), l.m); err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	return nil
}
