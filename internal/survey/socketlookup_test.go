// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
)

// A program that chooses listeners is seen when it comes and goes, in its own network namespace. With it no destination needs a listener.
func TestSocketLookups(t *testing.T) {
	ns, other := newNamespace(t), newNamespace(t)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SkLookup, AttachType: ebpf.AttachSkLookup, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	w := watch(t, ns)
	expectOf(t, w.Machine(), to("192.0.2.1:80"), "adopt")
	var at *bpflink.NetNsLink
	if err := ns.Do(func() error {
		space, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer space.Close()
		at, err = bpflink.AttachNetNs(int(space.Fd()), prog)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	await(t, w, "a program", (*Machine).ChoosesListeners)
	for _, d := range []string{"192.0.2.1:80", "[2001:db8::1]:80"} {
		expectOf(t, w.Machine(), to(d), "adopt")
		if !w.Machine().MaySendElsewhere(to(d).Addr) || !w.Machine().Elsewhere(to(d)) {
			t.Errorf("%s needs a listener", d)
		}
	}
	if read(t, other).ChoosesListeners() {
		t.Error("a program of another network namespace counts")
	}
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, w, "no program", func(m *Machine) bool { return !m.ChoosesListeners() && !m.Elsewhere(to("192.0.2.1:80")) })
}
