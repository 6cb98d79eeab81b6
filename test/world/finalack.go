// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"math/bits"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// FinalACK holds the ACK that completes a handshake while the kernel has it in hand (the listener has been found, and the
// connection is not yet queued there) until that listener closes. A socket filter of the listener does so, and occupies the
// processor meanwhile.
type FinalACK struct {
	t     *testing.T
	state *ebpf.Map
	prog  *ebpf.Program
}

const (
	finalACKPasses uint32 = iota
	finalACKAwaited
	finalACKHeld
	finalACKClosed  // the listener has closed, and the ACK has gone on
	finalACKGivenUp // it has gone on before
)

// finalACKTurns bounds how long an ACK is held: each turn reads the clock.
const finalACKTurns = 1 << 22

// NewFinalACK makes one that lets everything pass until During.
func NewFinalACK(t *testing.T) *FinalACK {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("one processor: nothing can happen while an ACK is held")
	}
	f := &FinalACK{t: t}
	var err error
	if f.state, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}); err != nil {
		t.Fatal(err)
	}
	if f.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: f.program()}); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { f.state.Close(); f.prog.Close() })
	return f
}

// program is the filter. The packet begins with the TCP header; skb->sk is the listener.
func (f *FinalACK) program() asm.Instructions {
	const flags, syn, ack, skbSk, skState, listens = 13, 2, 16, 168, 72, 10
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	function := func(name string, params ...btf.FuncParam) *btf.Func {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: number, Params: params}}
	}
	argument := func(name string) btf.FuncParam {
		return btf.FuncParam{Name: name, Type: &btf.Pointer{Target: &btf.Void{}}}
	}
	return asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("hold"), function("hold", argument("skb"))),
		asm.LoadMapValue(asm.R7, f.state.FD(), 0),
		asm.LoadMem(asm.R1, asm.R7, 0, asm.Word),
		asm.JNE.Imm(asm.R1, int32(finalACKAwaited), "pass"),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, flags+1),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R1, asm.RFP, -16, asm.Half), // the client's port
		asm.LoadMem(asm.R2, asm.R7, 4, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R2, "pass"),
		asm.LoadMem(asm.R1, asm.RFP, flags-16, asm.Byte),
		asm.And.Imm(asm.R1, syn|ack),
		asm.JNE.Imm(asm.R1, ack, "pass"),
		asm.LoadMem(asm.R8, asm.R6, skbSk, asm.DWord),
		asm.JEq.Imm(asm.R8, 0, "pass"),
		asm.LoadMem(asm.R1, asm.R8, skState, asm.Word),
		asm.JNE.Imm(asm.R1, listens, "pass"),
		asm.StoreImm(asm.R7, 0, int64(finalACKHeld), asm.Word),
		asm.StoreMem(asm.RFP, -8, asm.R8, asm.DWord),
		asm.Mov.Imm(asm.R1, finalACKTurns),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("turn"),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -8),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
		asm.LoadMem(asm.R1, asm.R8, skState, asm.Word),
		asm.StoreImm(asm.R7, 0, int64(finalACKClosed), asm.Word),
		asm.JNE.Imm(asm.R1, listens, "pass"),
		asm.StoreImm(asm.R7, 0, int64(finalACKGivenUp), asm.Word),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"),
		asm.Return(),
		btf.WithFuncMetadata(asm.Mov.Reg(asm.R6, asm.R2).WithSymbol("turn"),
			function("turn", btf.FuncParam{Name: "turn", Type: number}, argument("listener"))),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, skState, asm.Word),
		asm.Mov.Imm(asm.R0, 1),
		asm.JNE.Imm(asm.R1, listens, "end"),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return().WithSymbol("end"),
	}
}

// At attaches it to a listener.
func (f *FinalACK) At(l net.Listener) {
	f.t.Helper()
	raw, err := l.(syscall.Conn).SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_BPF, f.prog.FD())
		}), err)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// During has a client connect from a port, and closes the listener when its final ACK has arrived there. False: it did not arrive
// there, or closing took longer than an ACK can be held. It returns after connect has.
func (f *FinalACK) During(clientPort uint16, connect, closes func()) bool {
	f.t.Helper()
	f.put(finalACKAwaited, uint32(bits.ReverseBytes16(clientPort)))
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { connect(); done.Store(true) })
	for f.get() == finalACKAwaited && !done.Load() { // no sleep: the processor that has the ACK waits
		runtime.Gosched()
	}
	closes()
	wg.Wait()
	closed := f.get() == finalACKClosed
	f.put(finalACKPasses, 0)
	return closed
}

func (f *FinalACK) put(state, port uint32) {
	f.t.Helper()
	if err := f.state.Put(uint32(0), [2]uint32{state, port}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *FinalACK) get() uint32 {
	f.t.Helper()
	var state [2]uint32
	if err := f.state.Lookup(uint32(0), &state); err != nil {
		f.t.Fatal(err)
	}
	return state[0]
}
