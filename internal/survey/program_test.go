// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"errors"
	"net"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	bpflink "github.com/cilium/ebpf/link"
)

// A BPF program at netfilter's hook is seen when it comes and goes, and concerns its own family and network namespace.
func TestPrograms(t *testing.T) {
	ns, other := newNamespace(t), newNamespace(t)
	if err := features.HaveProgramType(ebpf.Netfilter); errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip("this kernel has no BPF programs for netfilter (Linux 6.4): ", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	w := watch(t, ns)
	var at bpflink.Link
	if err := ns.Do(func() (err error) {
		at, err = bpflink.AttachNetfilter(bpflink.NetfilterOptions{Program: prog, ProtocolFamily: bpflink.NetfilterProtoIPv4, Hook: bpflink.NetfilterInetLocalIn, Priority: 5})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	await(t, w, "a program", func(m *Machine) bool { return m.Judge(to("192.0.2.1:80")).Has(Program) })
	expectOf(t, w.Machine(), to("192.0.2.1:80"), "translate program")
	expectOf(t, read(t, other), to("192.0.2.1:80"), "adopt")
	if w.Machine().Judge(to("[2001:db8::1]:80")).Has(Program) {
		t.Error("a program for IPv4 counts for IPv6")
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, w, "no program", func(m *Machine) bool { return !m.Judge(to("192.0.2.1:80")).Has(Program) })
}

// Other programs attach links all the time. One that is being attached, anywhere on the machine, leaves no survey unreadable.
func TestLinksBeingAttached(t *testing.T) {
	ns := newNamespace(t)
	run(t, ns, "link add one numrxqueues 16 type veth peer name other\n", "ip", "-batch", "-")
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	attached := make(chan error, 1)
	go func() {
		attached <- ns.Do(func() error {
			device, err := net.InterfaceByName("one")
			if err != nil {
				return err
			}
			for range 30 {
				l, err := bpflink.AttachXDP(bpflink.XDPOptions{Program: prog, Interface: device.Index, Flags: bpflink.XDPDriverMode})
				if err != nil {
					return err
				}
				if err := errors.Join(l.Detach(), l.Close()); err != nil { // whoever lists it still holds it
					return err
				}
			}
			return nil
		})
	}()
	for lists := 0; ; lists++ {
		select {
		case err := <-attached:
			if err != nil || lists < 100 {
				t.Errorf("%d lists while links were attached: %v", lists, err)
			}
			return
		default:
		}
		if _, err := listPrograms(); err != nil {
			t.Errorf("list %d: %v", lists, err)
		}
	}
}
