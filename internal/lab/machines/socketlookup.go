// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
)

// steeredPort is where the server listens whom a BPF program gives connections to.
const steeredPort = 8443

// chosen has a BPF program of type sk_lookup give all connections to the service's port to a listener at another.
func chosen(m *Machine) error {
	l, err := m.serveAt(m.Server, "", steeredPort, false)
	if err != nil {
		return err
	}
	sockets, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.SockMap, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	defer sockets.Close() // the program holds it
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	var put error
	if err := errors.Join(raw.Control(func(fd uintptr) { put = sockets.Put(uint32(0), uint64(fd)) }), put); err != nil {
		return fmt.Errorf("listener of the program: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SkLookup, AttachType: ebpf.AttachSkLookup, License: "GPL", Instructions: steering(sockets, m.Port)})
	if err != nil {
		return err
	}
	defer prog.Close() // the link holds it
	return m.Server.Do(func() error {
		space, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer space.Close()
		at, err := bpflink.AttachNetNs(int(space.Fd()), prog)
		if err == nil {
			m.ends = append(m.ends, at.Close)
		}
		return err
	})
}

// steering passes what is for another port, and assigns the only socket of the map to the rest.
func steering(sockets *ebpf.Map, port uint16) asm.Instructions {
	const localPort = 60 // of struct bpf_sk_lookup, in the order of this machine
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, localPort, asm.Word),
		asm.JNE.Imm(asm.R2, int32(port), "pass"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, sockets.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnSkAssign.Call(),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnSkRelease.Call(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("pass"), // SK_PASS
		asm.Return(),
	}
}

// listenDeaf listens at the service's port and accepts nobody: a client that it gets is not served.
func (m *Machine) listenDeaf() error {
	var l net.Listener
	err := m.Server.Do(func() (err error) {
		var plain net.ListenConfig
		plain.SetMultipathTCP(false)
		l, err = plain.Listen(m.ctx, "tcp", fmt.Sprintf(":%d", m.Port))
		return err
	})
	if err == nil {
		m.ends = append(m.ends, l.Close)
	}
	return err
}
