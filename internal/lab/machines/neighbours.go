// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Other programs on the same hooks.

func neighbours() []Scenario {
	return []Scenario{
		{Name: "tc-clsact", About: "filters of another program at TC (clsact) that match everything", How: Adopted, Build: func(m *Machine) error {
			return errors.Join(m.Sh(m.Server, `tc qdisc add dev tg-server clsact
				tc filter add dev tg-server ingress prio 1 u32 match u32 0 0 flowid 1:1
				tc filter add dev tg-server egress prio 1 u32 match u32 0 0 flowid 1:1`), m.Serve(m.Server, ""))
		}},
		{Name: "netfilter-program", About: "a BPF program at netfilter's input hook, IPv4 and IPv6: what it does to SYNs is not known", How: Translated, Build: func(m *Machine) error {
			return errors.Join(hookProgram(m, link.NetfilterProtoIPv4), hookProgram(m, link.NetfilterProtoIPv6), m.Serve(m.Server, ""))
		}},
	}
}

// hookProgram attaches a program that accepts everything, until the machine's end.
func hookProgram(m *Machine, family link.NetfilterProtocolFamily) error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	if err != nil {
		return err
	}
	defer prog.Close()
	return m.Server.Do(func() error {
		at, err := link.AttachNetfilter(link.NetfilterOptions{Program: prog, ProtocolFamily: family, Hook: link.NetfilterInetLocalIn, Priority: 5})
		if err == nil {
			m.ends = append(m.ends, at.Close)
		}
		return err
	})
}
