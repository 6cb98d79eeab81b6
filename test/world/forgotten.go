// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/instance"
	"tidegate/internal/lab/rig"
)

// Forgotten are the connections that the kernel of a namespace has reset although their handshake was complete, because it found
// their listener closed when it was about to queue them there (inet_child_forget; net.ipv4.tcp_migrate_req does not cover this
// moment). No gate is needed for that: TestClosingAtTheFinalACK. Each is known by its client's port.
type Forgotten struct {
	t     *testing.T
	ports *ebpf.Map
}

// WatchForgotten records from now on, until the test ends.
func WatchForgotten(t *testing.T, n *rig.Namespace) *Forgotten {
	t.Helper()
	at, err := forgottenFields()
	if err != nil {
		t.Fatal(err)
	}
	var cookie uint64
	if err := n.Do(func() (err error) { cookie, err = instance.NetnsCookie(); return err }); err != nil {
		t.Fatal(err)
	}
	ports, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ports.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: forgottenProgram(at, cookie, ports)})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer prog.Close()
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "tcp_send_reset", Program: prog})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &Forgotten{t: t, ports: ports}
}

// Has reports whether the connection from a client's port is one of them. The client may see the reset
// a moment before it is recorded, so the caller asks again before it relies on a no.
func (f *Forgotten) Has(clientPort uint16) bool {
	f.t.Helper()
	var yes uint32
	return f.ports.Lookup(uint32(bits.ReverseBytes16(clientPort)), &yes) == nil
}

// fields are offsets in the running kernel's structures.
type fields struct{ socket, net, port, predicted, cookie uint32 }

func forgottenFields() (at fields, err error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return at, err
	}
	for _, f := range []struct {
		in, name string
		at       *uint32
	}{{"sock", "sk_socket", &at.socket}, {"sock_common", "skc_net", &at.net}, {"sock_common", "skc_dport", &at.port},
		{"tcp_sock", "pred_flags", &at.predicted}, {"net", "net_cookie", &at.cookie}} {
		var in *btf.Struct
		if err := kernel.TypeByName(f.in, &in); err != nil {
			return at, err
		}
		there := false
		if *f.at, there = offsetOf(in.Members, f.name); !there {
			return at, fmt.Errorf("this kernel's struct %s has no %s", f.in, f.name)
		}
	}
	return at, nil
}

// offsetOf finds a member, also in members without a name.
func offsetOf(members []btf.Member, name string) (uint32, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch in := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = in.Members
		case *btf.Union:
			inner = in.Members
		}
		if at, there := offsetOf(inner, name); there {
			return m.Offset.Bytes() + at, true
		}
	}
	return 0, false
}

// forgottenProgram records a reset of the namespace that answers no packet (its skb is NULL) and whose socket nobody has accepted
// (sk_socket is NULL) and has not been established (pred_flags is 0), as it is once it waits to be accepted.
func forgottenProgram(at fields, cookie uint64, ports *ebpf.Map) asm.Instructions {
	read := func(to int16, size int32, base asm.Register, offset uint32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)),
			asm.Mov.Imm(asm.R2, size),
			asm.Mov.Reg(asm.R3, base), asm.Add.Imm(asm.R3, int32(offset)),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "no"),
		}
	}
	var p asm.Instructions
	p = append(p,
		asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord), // sk
		asm.LoadMem(asm.R8, asm.R1, 8, asm.DWord), // skb
		asm.JNE.Imm(asm.R8, 0, "no"),
		asm.JEq.Imm(asm.R7, 0, "no"))
	p = append(p, read(-8, 8, asm.R7, at.socket)...)
	p = append(p, asm.LoadMem(asm.R1, asm.RFP, -8, asm.DWord), asm.JNE.Imm(asm.R1, 0, "no"))
	p = append(p, read(-8, 4, asm.R7, at.predicted)...)
	p = append(p, asm.LoadMem(asm.R1, asm.RFP, -8, asm.Word), asm.JNE.Imm(asm.R1, 0, "no"))
	p = append(p, read(-8, 8, asm.R7, at.net)...)
	p = append(p, asm.LoadMem(asm.R8, asm.RFP, -8, asm.DWord))
	p = append(p, read(-8, 8, asm.R8, at.cookie)...)
	p = append(p, asm.LoadMem(asm.R1, asm.RFP, -8, asm.DWord), asm.LoadImm(asm.R2, int64(cookie), asm.DWord), asm.JNE.Reg(asm.R1, asm.R2, "no"),
		asm.StoreImm(asm.RFP, -8, 0, asm.Word))
	p = append(p, read(-8, 2, asm.R7, at.port)...)
	return append(p,
		asm.StoreImm(asm.RFP, -16, 1, asm.Word),
		asm.LoadMapPtr(asm.R1, ports.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -8),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("no"),
		asm.Return())
}
