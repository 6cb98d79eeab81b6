// SPDX-License-Identifier: Apache-2.0

package bpfcount

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// UserMap is a map of a program for uBPF, in this process.
type UserMap struct {
	KeySize, ValueSize int
	Values             map[string][]byte
	Zeros              uint32 // keys below this number have zeros until they are written
}

// userspace is what such a program runs in.
type userspace struct {
	maps  map[string]*UserMap
	buf   []byte
	base  uint64 // address of buf
	start int    // of the frame in buf
	end   int
}

// The helpers of uBPF's targets, by the numbers that p4c-ubpf gives them.
const (
	userLookup     = 1
	userUpdate     = 2
	userAdjustHead = 8
	userPacketData = 9
	userTruncate   = 11
)

// User runs a program for uBPF, entry(packet, metadata), which may change both. What it writes to maps stays there.
func User(insns asm.Instructions, maps map[string]*UserMap, packet, metadata []byte) (res *Result, err error) {
	u := &userspace{maps: maps, buf: make([]byte, headroom+len(packet)+tailroom), start: headroom, end: headroom + len(packet)}
	copy(u.buf[headroom:], packet)
	m := &machine{insns: insns, at: map[int]int{}, symbols: map[string]int{}, next: firstBase, handles: map[uint64]string{},
		user: u, result: Result{Calls: map[string]int{}, Lines: map[string]int{}}}
	m.index()
	u.base = m.place(u.buf)
	m.regs[1] = m.place(make([]byte, 8)) // only helpers know what a packet is
	m.regs[2] = m.place(metadata)
	m.regs[10] = m.place(make([]byte, userStack)) + userStack
	defer rescue(&err)
	m.run()
	m.result.Action = uint32(m.regs[0])
	m.result.Frame = slices.Clone(u.buf[u.start:u.end])
	return &m.result, nil
}

func (m *machine) userCall(helper int32) (ret uint64) {
	u := m.user
	switch helper {
	case userLookup:
		table := m.userMap()
		if value := table.find(m.mem(m.regs[2], table.KeySize)); value != nil {
			ret = m.place(value)
		}
	case userUpdate:
		table := m.userMap()
		table.Values[string(m.mem(m.regs[2], table.KeySize))] = slices.Clone(m.mem(m.regs[3], table.ValueSize))
	case userAdjustHead:
		u.start -= int(int32(m.regs[2]))
		if u.start < 0 || u.start > u.end {
			panic(unsupported("a frame without room for its headers"))
		}
		ret = u.base + uint64(u.start)
	case userPacketData:
		ret = u.base + uint64(u.start)
	case userTruncate:
		cut := max(0, u.end-u.start-int(int32(m.regs[2])))
		u.end -= cut
		ret = uint64(cut)
	default:
		panic(unsupported(fmt.Sprintf("uBPF's helper %d", helper)))
	}
	for r := 1; r <= 5; r++ {
		m.regs[r] = 0xdeadbeefdeadbeef
	}
	return ret
}

func (m *machine) userMap() *UserMap {
	name := m.handles[m.regs[1]]
	table := m.user.maps[name]
	if table == nil {
		panic(unsupported("no map " + name))
	}
	m.result.Calls[name]++
	return table
}

func (t *UserMap) find(key []byte) []byte {
	value := t.Values[string(key)]
	if value == nil && t.KeySize == 4 && binary.LittleEndian.Uint32(key) < t.Zeros {
		value = make([]byte, t.ValueSize)
		t.Values[string(key)] = value
	}
	return value
}
