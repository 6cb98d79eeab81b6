// SPDX-License-Identifier: Apache-2.0

package dispatcher

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Numbers of the protocol.
const (
	maxComponents = 10
	magic         = 236 // 'X' + 'D' + 'P'
	goOn          = 31  // what a function returns that no component has replaced

	// The versions that libxdp 1.3 to 1.5 make and change (Debian 12 and 13). 1.6 makes 3, which has one more field; each changes only
	// its own version, so a dispatcher keeps the version that it has.
	firstVersion, lastVersion = 2, 3

	dispatcherName = "xdp_dispatcher"
	versionSection = "xdp_metadata"
	versionName    = "dispatcher_version"
	configName     = "xdp_disp.rodata"
)

// function is the name of the function that component i replaces.
func function(i int) string { return fmt.Sprintf("prog%d", i) }

// config is the one entry of a dispatcher's map, up to its version 2; version 3 has the device that programs are bound to.
type config struct {
	Magic, Version, Count, Frags uint8
	Chain, Priority, Flags       [maxComponents]uint32
}

const sizeV2, sizeV3 = 124, 128

func (c config) size() int {
	if c.Version == firstVersion {
		return sizeV2
	}
	return sizeV3
}

func configOf(list []Component, version uint8) config {
	if version == 0 {
		version = firstVersion
	}
	c := config{Magic: magic, Version: version, Count: uint8(len(list)), Frags: 1}
	for i, one := range list {
		c.Chain[i], c.Priority[i] = one.Chain|1<<goOn, one.Priority
		if one.Frags {
			c.Flags[i] = unix.BPF_F_XDP_HAS_FRAGS
		} else {
			c.Frags = 0
		}
	}
	return c
}

// configMap is read-only for programs and frozen, as the kernel requires for constants.
func configMap(c config) (*ebpf.Map, error) {
	value := make([]byte, c.size())
	if _, err := binary.Encode(value, binary.NativeEndian, c); err != nil {
		return nil, err
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: configName, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(value)), MaxEntries: 1, Flags: unix.BPF_F_RDONLY_PROG})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.Put(uint32(0), value), m.Freeze()); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Instructions written by number, since libraries accept whole programs only.
type insn struct {
	code uint8
	regs uint8
	off  int16
	imm  int32
}

const (
	pseudoCall     = 1 // a source register: imm is the distance of a function
	pseudoMapValue = 2 // imm is a map's file descriptor
	adjustTail     = 65
	allowed        = 2 // XDP_PASS
)

func regs(dst, src uint8) uint8 { return dst | src<<4 }

// body writes the dispatcher: it calls each function and continues where the component's verdict is chained.
// starts are where the functions begin.
func body(c config, mapFD int) (list []insn, starts []uint32) {
	const (
		moveReg, moveImm   = 0xbf, 0xb7
		call, exit         = 0x85, 0x95
		loadImm            = 0x18
		shift              = 0x6f // dst <<= src
		greater            = 0x25 // dst > imm, unsigned
		anyBit             = 0x45 // dst & imm
		r0, r1, r2, r6, r9 = 0, 1, 2, 6, 9
		perComponent       = 7
	)
	n := int(c.Count)
	list = append(list, insn{moveReg, regs(r6, r1), 0, 0},
		insn{loadImm, regs(r9, pseudoMapValue), 0, int32(mapFD)}, insn{}) // never read: it only ties the map to the program
	stubs := len(list) + n*perComponent + 2
	const stub = 4
	for i := range n {
		at := len(list)
		list = append(list,
			insn{moveReg, regs(r1, r6), 0, 0},
			insn{call, regs(0, pseudoCall), 0, int32(stubs + i*stub - (at + 2))},
			insn{greater, regs(r0, 0), 3, goOn},
			insn{moveImm, regs(r1, 0), 0, 1},
			insn{shift, regs(r1, r0), 0, 0},
			insn{anyBit, regs(r1, 0), 1, int32(c.Chain[i])},
			insn{exit, 0, 0, 0})
	}
	list = append(list, insn{moveImm, regs(r0, 0), 0, allowed}, insn{exit, 0, 0, 0})
	starts = append(starts, 0)
	for range n {
		starts = append(starts, uint32(len(list)))
		// A replacement may change packets only if the function itself does (Linux 6.13): here by nothing.
		list = append(list,
			insn{moveImm, regs(r2, 0), 0, 0},
			insn{call, 0, 0, adjustTail},
			insn{moveImm, regs(r0, 0), 0, goOn},
			insn{exit, 0, 0, 0})
	}
	return list, starts
}

// types are those of the functions, and the version in the form that libxdp looks for: the length of an array that a variable points to.
func types(c config) (*btf.Handle, []btf.TypeID, error) {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u32 := &btf.Int{Name: "__u32", Size: 4}
	ctx := &btf.Struct{Name: "xdp_md", Size: 24}
	for i, name := range []string{"data", "data_end", "data_meta", "ingress_ifindex", "rx_queue_index", "egress_ifindex"} {
		ctx.Members = append(ctx.Members, btf.Member{Name: name, Type: u32, Offset: btf.Bits(32 * i)})
	}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: ctx}}}}
	version := &btf.Var{Name: versionName, Linkage: btf.GlobalVar,
		Type: &btf.Pointer{Target: &btf.Array{Index: u32, Type: number, Nelems: uint32(c.Version)}}}
	list := []btf.Type{&btf.Func{Name: dispatcherName, Type: proto, Linkage: btf.GlobalFunc}}
	for i := range int(c.Count) {
		list = append(list, &btf.Func{Name: function(i), Type: proto, Linkage: btf.GlobalFunc})
	}
	list = append(list, &btf.Datasec{Name: versionSection, Size: 8, Vars: []btf.VarSecinfo{{Type: version, Size: 8}}})
	b, err := btf.NewBuilder(nil, nil)
	if err != nil {
		return nil, nil, err
	}
	var ids []btf.TypeID
	for _, t := range list {
		id, err := b.Add(t)
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	handle, err := btf.NewHandle(b)
	return handle, ids, err
}

// progLoad is the argument of BPF_PROG_LOAD (union bpf_attr in linux/bpf.h), up to the last field used here.
type progLoad struct {
	kind, insnCount             uint32
	insns, license              uint64
	logLevel, logSize           uint32
	log                         uint64
	kernVersion, flags          uint32
	name                        [16]byte
	ifindex, expectedAttach     uint32
	btfFD, funcInfoSize         uint32
	funcInfo                    uint64
	funcInfoCount, lineInfoSize uint32
	lineInfo                    uint64
	lineInfoCount, attachBTFID  uint32
	attachProgFD, coreReloCount uint32
	fdArray, coreRelos          uint64
	coreReloSize, logTrueSize   uint32
}

type funcInfo struct {
	offset uint32
	id     btf.TypeID
}

// generate loads a dispatcher for these components. Its functions return goOn until components replace them.
func generate(list []Component, version uint8) (*ebpf.Program, error) {
	c := configOf(list, version)
	m, err := configMap(c)
	if err != nil {
		return nil, fmt.Errorf("a dispatcher's constants: %w", err)
	}
	defer m.Close()
	handle, ids, err := types(c)
	if err != nil {
		return nil, fmt.Errorf("a dispatcher's types: %w", err)
	}
	defer handle.Close()
	code, starts := body(c, m.FD())
	return load(c, handle, ids, code, starts)
}

const verifications = 30 // tries of one program

// load puts a dispatcher's instructions into the kernel.
func load(c config, handle *btf.Handle, ids []btf.TypeID, code []insn, starts []uint32) (*ebpf.Program, error) {
	infos := make([]funcInfo, len(starts))
	for i := range starts {
		infos[i] = funcInfo{starts[i], ids[i]}
	}
	license := []byte("GPL\x00")
	log := make([]byte, 1<<16)
	a := progLoad{kind: uint32(ebpf.XDP), insnCount: uint32(len(code)), insns: address(&code[0]), license: address(&license[0]),
		logLevel: 1, logSize: uint32(len(log)), log: address(&log[0]), expectedAttach: uint32(ebpf.AttachXDP), btfFD: uint32(handle.FD()),
		funcInfoSize: uint32(unsafe.Sizeof(funcInfo{})), funcInfo: address(&infos[0]), funcInfoCount: uint32(len(infos))}
	if c.Frags != 0 {
		a.flags = unix.BPF_F_XDP_HAS_FRAGS
	}
	copy(a.name[:], dispatcherName)
	// A signal makes the verifier give up (EAGAIN), and Go signals its own threads.
	fd, errno := uintptr(0), unix.EAGAIN
	for range verifications {
		if fd, _, errno = unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a)); errno != unix.EAGAIN {
			break
		}
	}
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	runtime.KeepAlive(infos)
	if errno != 0 {
		text, _, _ := bytes.Cut(log, []byte{0})
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		return nil, fmt.Errorf("load a dispatcher: %w: %s", errno, lines[max(0, len(lines)-3):])
	}
	return ebpf.NewProgramFromFD(int(fd))
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// trial loads the smallest program that may replace a function.
func trial(target *ebpf.Program, function string) (*ebpf.Program, error) {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Struct{Name: "xdp_md"}}}}}
	first := btf.WithFuncMetadata(asm.Mov.Imm(asm.R0, allowed), &btf.Func{Name: "tg_trial", Type: proto, Linkage: btf.GlobalFunc}).WithSymbol("tg_trial")
	return ebpf.NewProgram(&ebpf.ProgramSpec{Name: "tg_trial", Type: ebpf.Extension, License: "GPL", AttachTarget: target, AttachTo: function,
		Instructions: asm.Instructions{first, asm.Return()}})
}
