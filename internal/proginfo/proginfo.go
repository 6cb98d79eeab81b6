// SPDX-License-Identifier: Apache-2.0

// Package proginfo reads the ID and the name of a BPF program, and nothing else of it: what Program.Info asks for (instructions before and after the
// verifier, machine code, the lines of the source) is megabytes for programs like ours, which the kernel copies each time.
package proginfo

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// info is the beginning of struct bpf_prog_info, as far as the name (Linux 4.15). The kernel copies only that of what it is asked for
// by length, here 0.
type info struct {
	_    uint32
	id   uint32
	_    [8]byte   // tag
	_    [2]uint32 // lengths of machine code and instructions
	_    [2]uint64 // where they are to be copied
	_    uint64    // time of load
	_    uint32    // user
	_    uint32    // number of maps
	_    uint64    // where their IDs are to be copied
	name [unix.BPF_OBJ_NAME_LEN]byte
}

func of(prog *ebpf.Program) (i info, err error) {
	attr := struct {
		fd, length uint32
		info       unsafe.Pointer
	}{uint32(prog.FD()), uint32(unsafe.Sizeof(i)), unsafe.Pointer(&i)}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(&i)
	runtime.KeepAlive(prog)
	if errno != 0 {
		return i, fmt.Errorf("ask the kernel about %s: %w", prog, errno)
	}
	return i, nil
}

// ID is a program's ID.
func ID(prog *ebpf.Program) (ebpf.ProgramID, error) {
	i, err := of(prog)
	return ebpf.ProgramID(i.id), err
}

// Name is the part of a program's name that the kernel keeps, 15 bytes.
func Name(prog *ebpf.Program) (string, error) {
	i, err := of(prog)
	return unix.ByteSliceToString(i.name[:]), err
}
