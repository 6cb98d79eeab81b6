// SPDX-License-Identifier: Apache-2.0

// Package bpfcount runs an XDP or TC program's instructions one by one, outside the kernel, and counts them: what
// a packet costs, as a number that is the same on every machine and in every run. Maps are read from the
// kernel, so that a program finds what a gate has written there; what it writes to them is not written back.
//
// It counts BPF instructions, not machine instructions, and a helper's call as one. Its answers must never be
// trusted by themselves: they are compared with the kernel's.
package bpfcount

import (
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Jiffies is what time it is to bpf_jiffies64.
const Jiffies = 1<<32 | 0x1234

// Result of one run.
type Result struct {
	Action       uint32 // what the program returned
	Frame        []byte // the frame afterwards
	Instructions int
	First        int            // instructions of the first such packet on a CPU, which has kept nothing yet
	Calls        map[string]int // helpers and functions, by name; look-ups by the map's name
	Returns      int            // of those, the ones that are calls of machine code: what the kernel puts in their place is not
	Lines        map[string]int // instructions by line of source: file, number, text
}

// Costliest are the lines of source with the most instructions, a line each.
func (r *Result) Costliest(n int) string {
	lines := slices.SortedFunc(maps.Keys(r.Lines), func(a, b string) int { return r.Lines[b] - r.Lines[a] })
	var out strings.Builder
	for _, line := range lines[:min(n, len(lines))] {
		fmt.Fprintf(&out, "%5d  %s\n", r.Lines[line], line)
	}
	return out.String()
}

const (
	headroom   = 256
	tailroom   = 512
	stackLen   = 512
	userStack  = 8192 // of a program that no kernel loads
	firstBase  = 0x100000
	mapHandles = 0xaa0000000000 // no address is as high
	limit      = 1_000_000      // instructions
)

// unsupported is something a program does that this package does not emulate.
type unsupported string

func (u unsupported) Error() string { return string(u) }

type region struct {
	base  uint64
	bytes []byte
}

type frame struct {
	ret   int
	saved [4]uint64
	fp    uint64
}

type machine struct {
	maps    map[string]*ebpf.Map
	insns   asm.Instructions
	removed map[int]bool   // jumps that the verifier removes: resolve
	offsets []int          // of each instruction, in units of eight bytes
	at      map[int]int    // from offset to instruction
	symbols map[string]int // functions
	lines   []string       // of source
	regs    [11]uint64
	regions []region
	next    uint64
	handles map[uint64]string // what a map's address stands for
	values  map[string]uint64 // map values that have been looked up
	stack   []frame
	ctx     []byte
	ends    []byte // of the context, from data on

	redirect uint64 // what a redirection returns
	user     *userspace
	kept     map[string][]byte // what the run before left in the maps of keeps
	result   Result
}

// keeps are the maps in which a packet leaves what the next ones find: what a run has left there is what the second finds, which is the one
// that is counted. Those of a CPU of its own are empty at the first.
var keeps = []string{"tg_destinations", "tg_kept_sources", "tg_flows_near"}

// found is the map of each CPU's own in which one program finds what another has left there: it holds what was written by packets that the
// kernel has run.
const found = "tg_twin_ring"

// XDP runs a program for a frame that comes in by an interface. Maps are those of a loaded program, by name.
func XDP(spec *ebpf.ProgramSpec, maps map[string]*ebpf.Map, packet []byte, ifindex uint32) (*Result, error) {
	ctx := make([]byte, 24) // struct xdp_md
	put(ctx[12:16], uint64(ifindex))
	return run(spec, maps, packet, ctx, 0, xdpRedirect)
}

// TC does the same at TC ingress, for a frame that is wholly in the linear part.
func TC(spec *ebpf.ProgramSpec, maps map[string]*ebpf.Map, packet []byte, ifindex uint32) (*Result, error) {
	ctx := make([]byte, 192) // struct __sk_buff
	put(ctx[0:4], uint64(len(packet)))
	copy(ctx[16:18], packet[12:14]) // protocol
	put(ctx[40:44], uint64(ifindex))
	return run(spec, maps, packet, ctx, 76, tcRedirect)
}

// run: data and data_end stand in the context at dataAt.
func run(spec *ebpf.ProgramSpec, maps map[string]*ebpf.Map, packet, ctx []byte, dataAt int, redirect uint64) (*Result, error) {
	kept := map[string][]byte{}
	first, err := runOnce(spec, maps, packet, slices.Clone(ctx), dataAt, redirect, kept)
	if err != nil || len(kept) == 0 {
		return first, err
	}
	res, err := runOnce(spec, maps, packet, ctx, dataAt, redirect, kept)
	if err != nil {
		return nil, err
	}
	res.First = first.Instructions
	return res, nil
}

func runOnce(spec *ebpf.ProgramSpec, maps map[string]*ebpf.Map, packet, ctx []byte, dataAt int, redirect uint64, kept map[string][]byte) (res *Result, err error) {
	m := &machine{maps: maps, kept: kept, insns: spec.Instructions, at: map[int]int{}, symbols: map[string]int{},
		next: firstBase, handles: map[uint64]string{}, values: map[string]uint64{}, ctx: ctx, ends: ctx[dataAt:], redirect: redirect,
		result: Result{Calls: map[string]int{}, Lines: map[string]int{}}}
	m.resolve()
	m.index()
	buf := make([]byte, headroom+len(packet)+tailroom)
	copy(buf[headroom:], packet)
	data := m.place(buf) + headroom
	put(m.ends[0:4], data)
	put(m.ends[4:8], data+uint64(len(packet)))
	m.regs[1] = m.place(m.ctx)
	m.regs[10] = m.place(make([]byte, stackLen)) + stackLen
	defer rescue(&err)
	m.run()
	m.result.Action, m.result.First = uint32(m.regs[0]), m.result.Instructions
	start, end := get(m.ends[0:4])-data+headroom, get(m.ends[4:8])-data+headroom
	m.result.Frame = slices.Clone(buf[start:end])
	return &m.result, nil
}

// rescue makes an error of what a program does that is not emulated.
func rescue(err *error) {
	if r := recover(); r != nil {
		u, known := r.(unsupported)
		if !known {
			panic(r)
		}
		*err = u
	}
}

// bondsMark is TG_BONDS_MARK of bpf/lib/ingress.h: the loader puts 0 in its place where no interface is a bond (internal/plane/members.go).
const bondsMark = 0x626f6e64

// resolve does what loader and verifier do with numbers that are known when a program is loaded: it puts 0 in the place of the mark, and
// removes the jump that asks for it.
func (m *machine) resolve() {
	m.insns, m.removed = slices.Clone(m.insns), map[int]bool{}
	for i := range m.insns {
		ins := &m.insns[i]
		if ins.OpCode.ALUOp() != asm.Mov || ins.OpCode.Source() != asm.ImmSource || ins.Constant != bondsMark {
			continue
		}
		ins.Constant = 0
		for at := i + 1; at < min(i+4, len(m.insns)); at++ {
			if next := m.insns[at]; next.OpCode.Class().IsJump() {
				m.removed[at] = next.Dst == ins.Dst && next.OpCode.Source() == asm.ImmSource && next.Constant == 0
				break
			}
		}
	}
}

// index finds jump targets, functions and lines of source.
func (m *machine) index() {
	m.offsets, m.lines = make([]int, len(m.insns)), make([]string, len(m.insns))
	line := ""
	for it := m.insns.Iterate(); it.Next(); {
		m.offsets[it.Index], m.at[int(it.Offset)] = int(it.Offset), it.Index
		if name := it.Ins.Symbol(); name != "" {
			m.symbols[name] = it.Index
		}
		if src := it.Ins.Source(); src != nil {
			line = strings.TrimSpace(src.String())
			if l, known := src.(*btf.Line); known {
				line = fmt.Sprintf("%s:%d  %s", filepath.Base(l.FileName()), l.LineNumber(), line)
			}
		}
		m.lines[it.Index] = line
	}
}

// place gives bytes an address. Addresses are below 4 GiB: a context has 32 bits for them.
func (m *machine) place(b []byte) uint64 {
	base := m.next
	m.next += uint64(len(b)+0xfff)&^0xfff + 0x1000
	m.regions = append(m.regions, region{base, b})
	return base
}

func (m *machine) mem(addr uint64, n int) []byte {
	for _, r := range slices.Backward(m.regions) {
		if addr >= r.base && addr+uint64(n) <= r.base+uint64(len(r.bytes)) {
			return r.bytes[addr-r.base:][:n]
		}
	}
	panic(unsupported(fmt.Sprintf("an access to %#x, %d bytes", addr, n)))
}

func get(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

func put(b []byte, v uint64) {
	var whole [8]byte
	binary.LittleEndian.PutUint64(whole[:], v)
	copy(b, whole[:])
}

func (m *machine) run() {
	for pc := 0; ; {
		ins := &m.insns[pc]
		if !m.removed[pc] {
			if m.result.Instructions++; m.result.Instructions > limit {
				panic(unsupported("more than a million instructions"))
			}
			m.result.Lines[m.lines[pc]]++
		}
		dst, src := &m.regs[ins.Dst], &m.regs[ins.Src]
		next := pc + 1
		switch class := ins.OpCode.Class(); {
		case class.IsALU():
			*dst = alu(ins, *dst, *src)
		case class == asm.LdClass:
			*dst = m.immediate(ins)
		case class == asm.LdXClass && ins.OpCode.Mode() == asm.MemMode:
			*dst = get(m.mem(*src+uint64(int64(ins.Offset)), ins.OpCode.Size().Sizeof()))
		case class == asm.StXClass && ins.OpCode.Mode() == asm.AtomicMode:
			m.atomic(ins, dst, src)
		case class == asm.StXClass:
			put(m.mem(*dst+uint64(int64(ins.Offset)), ins.OpCode.Size().Sizeof()), *src)
		case class == asm.StClass:
			put(m.mem(*dst+uint64(int64(ins.Offset)), ins.OpCode.Size().Sizeof()), uint64(ins.Constant))
		case class.IsJump():
			if next = m.jump(ins, pc, *dst, *src); next < 0 {
				return
			}
		default:
			panic(unsupported(fmt.Sprint(ins)))
		}
		pc = next
	}
}

// immediate returns what a 64-bit load puts into its register: a number, or a map.
func (m *machine) immediate(ins *asm.Instruction) uint64 {
	switch ins.Src {
	case asm.PseudoMapFD:
		return m.handle(ins.Reference())
	case asm.PseudoMapValue:
		// The loader names the maps of variables without the section's beginning (internal/plane/variables.go).
		return m.lookup(strings.TrimPrefix(ins.Reference(), ".data."), make([]byte, 4)) + uint64(ins.Constant)>>32
	}
	return uint64(ins.Constant)
}

func (m *machine) handle(name string) uint64 {
	h := mapHandles + uint64(len(m.handles))
	m.handles[h] = name
	return h
}

// jump returns the next instruction's number; -1 at the program's end.
func (m *machine) jump(ins *asm.Instruction, pc int, dst, src uint64) int {
	op := ins.OpCode.JumpOp()
	switch {
	case op == asm.Exit:
		if len(m.stack) == 0 {
			return -1
		}
		f := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		copy(m.regs[6:10], f.saved[:])
		m.regs[10] = f.fp
		return f.ret
	case ins.IsFunctionCall():
		f := frame{ret: pc + 1, fp: m.regs[10]}
		copy(f.saved[:], m.regs[6:10])
		m.stack = append(m.stack, f)
		m.regs[10] = m.place(make([]byte, stackLen)) + stackLen
		m.result.Calls[ins.Reference()]++
		m.result.Returns++
		return m.symbols[ins.Reference()]
	case op == asm.Call:
		m.call(ins)
		return pc + 1
	case op == asm.Ja || taken(ins, dst, src):
		if name := ins.Reference(); name != "" {
			return m.symbols[name]
		}
		return m.at[m.offsets[pc]+1+int(ins.Offset)]
	}
	return pc + 1
}
