// SPDX-License-Identifier: Apache-2.0

package bpfcount

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// What programs return that redirect a frame.
const xdpRedirect, tcRedirect = 4, 7

// lookup returns the address of a map's value, 0 if it has none. A map of maps gives a handle of the inner map.
func (m *machine) lookup(name string, key []byte) uint64 {
	at := name + "/" + string(key)
	if addr, known := m.values[at]; known {
		return addr
	}
	table := m.maps[name]
	if table == nil {
		panic(unsupported("no map " + name))
	}
	m.values[at] = 0
	if value := m.kept[at]; value != nil {
		m.values[at] = m.place(value)
		return m.values[at]
	}
	keep := func(value []byte) {
		if slices.Contains(keeps, name) {
			m.kept[at] = value
		}
		m.values[at] = m.place(value)
	}
	switch table.Type() {
	case ebpf.PerCPUArray, ebpf.PerCPUHash:
		if name == found {
			keep(written(table, key))
			break
		}
		keep(make([]byte, table.ValueSize()))
	case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
		var inner *ebpf.Map
		if table.Lookup(key, &inner) == nil {
			m.maps[at] = inner
			m.values[at] = m.handle(at)
		}
	default:
		if value, err := table.LookupBytes(key); err == nil && value != nil {
			keep(value)
		}
	}
	return m.values[at]
}

// written is the value of the first CPU that has written one.
func written(table *ebpf.Map, key []byte) []byte {
	var all [][]byte
	if err := table.Lookup(key, &all); err == nil {
		for _, value := range all {
			if slices.ContainsFunc(value, func(b byte) bool { return b != 0 }) {
				return value
			}
		}
	}
	return make([]byte, table.ValueSize())
}

// inlined reports whether the kernel puts its own instructions in the place of a look-up: of an array, but for an inner one whose
// length is its own.
func (m *machine) inlined(name string) bool {
	table := m.maps[name]
	switch table.Type() {
	case ebpf.Array, ebpf.ArrayOfMaps:
		return table.Flags()&unix.BPF_F_INNER_MAP == 0
	case ebpf.PerCPUArray: // since Linux 6.10, on x86-64
		return true
	}
	return false
}

// update writes a value, for the rest of this run; as with BPF_NOEXIST and BPF_EXIST if flags say so.
func (m *machine) update(name string, key []byte, flags uint64) uint64 {
	at := m.lookup(name, key)
	switch {
	case at != 0 && flags == uint64(ebpf.UpdateNoExist):
		return negative(unix.EEXIST)
	case at == 0 && flags == uint64(ebpf.UpdateExist):
		return negative(unix.ENOENT)
	case at == 0:
		at = m.place(make([]byte, m.maps[name].ValueSize()))
		m.values[name+"/"+string(key)] = at
	}
	n := int(m.maps[name].ValueSize())
	copy(m.mem(at, n), m.mem(m.regs[3], n))
	return 0
}

// key copies a helper's second argument, a key of that map.
func (m *machine) key(name string) []byte {
	return slices.Clone(m.mem(m.regs[2], int(m.maps[name].KeySize())))
}

func negative(errno unix.Errno) uint64 { return ^uint64(errno) + 1 }

// call emulates a helper, as far as the fast paths need it.
func (m *machine) call(ins *asm.Instruction) {
	if m.user != nil {
		m.regs[0] = m.userCall(int32(ins.Constant))
		return
	}
	helper := asm.BuiltinFunc(ins.Constant)
	name := helper.String()
	if ins.Src == asm.PseudoKfuncCall {
		panic(unsupported("kfunc " + ins.Reference()))
	}
	var ret uint64
	inlined := helper == asm.FnJiffies64
	switch helper {
	case asm.FnMapLookupElem:
		table := m.handles[m.regs[1]]
		name = "look-up in " + table
		inlined = m.inlined(table)
		ret = m.lookup(table, m.key(table))
	case asm.FnMapUpdateElem:
		table := m.handles[m.regs[1]]
		name = "update of " + table
		ret = m.update(table, m.key(table), m.regs[4])
	case asm.FnMapDeleteElem:
		table := m.handles[m.regs[1]]
		name = "deletion from " + table
		if m.lookup(table, m.key(table)) == 0 {
			ret = negative(unix.ENOENT)
		}
		m.values[table+"/"+string(m.key(table))] = 0
	case asm.FnKtimeGetCoarseNs, asm.FnKtimeGetNs:
		var now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &now) // cannot fail
		ret = uint64(now.Nano())
	case asm.FnJiffies64:
		ret = Jiffies
	case asm.FnXdpGetBuffLen:
		ret = get(m.ends[4:8]) - get(m.ends[0:4])
	case asm.FnXdpAdjustTail:
		put(m.ends[4:8], get(m.ends[4:8])+uint64(int64(int32(m.regs[2]))))
	case asm.FnXdpLoadBytes:
		copy(m.mem(m.regs[3], int(m.regs[4])), m.mem(get(m.ends[0:4])+m.regs[2], int(m.regs[4])))
	case asm.FnSkbLoadBytes:
		copy(m.mem(m.regs[3], int(m.regs[4])), m.mem(get(m.ends[0:4])+m.regs[2], int(m.regs[4])))
	case asm.FnSkbPullData: // all of it is in the linear part
	case asm.FnSkbChangeTail:
		put(m.ends[4:8], get(m.ends[0:4])+m.regs[2])
		put(m.ctx[0:4], m.regs[2])
	case asm.FnCloneRedirect:
	case asm.FnGetPrandomU32:
		ret = 1
	case asm.FnCsumDiff: // of the new bytes alone
		sum, b := m.regs[5]&0xffffffff, m.mem(m.regs[3], int(m.regs[4]))
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint64(b[i]) | uint64(b[i+1])<<8
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		ret = sum
	case asm.FnTcpRawCheckSyncookieIpv4, asm.FnTcpRawCheckSyncookieIpv6: // no cookie of the kernel's
		ret = negative(unix.EACCES)
	case asm.FnRedirectMap, asm.FnRedirect:
		ret = m.redirect
	default:
		panic(unsupported("helper " + name))
	}
	m.result.Calls[name]++
	if !inlined {
		m.result.Returns++
	}
	m.regs[0] = ret
	for r := 1; r <= 5; r++ {
		m.regs[r] = 0xdeadbeefdeadbeef // a helper clobbers these registers
	}
}

// atomic: the compare-and-swap and the or, add and and with which programs share words.
func (m *machine) atomic(ins *asm.Instruction, dst, src *uint64) {
	word := m.mem(*dst+uint64(int64(ins.Offset)), ins.OpCode.Size().Sizeof())
	was := get(word)
	switch op := ins.OpCode.AtomicOp(); op {
	case asm.AddAtomic, asm.FetchAdd:
		put(word, was+*src)
	case asm.OrAtomic, asm.FetchOr:
		put(word, was|*src)
	case asm.AndAtomic, asm.FetchAnd:
		put(word, was&*src)
	case asm.CmpXchg:
		if was == m.regs[0] {
			put(word, *src)
		}
		m.regs[0] = was
		return
	default:
		panic(unsupported(fmt.Sprint(ins)))
	}
	if op := ins.OpCode.AtomicOp(); op == asm.FetchAdd || op == asm.FetchOr || op == asm.FetchAnd {
		*src = was
	}
}
