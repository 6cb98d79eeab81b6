// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"tidegate/internal/config"
	"tidegate/internal/lab/rig"
)

// Programs that TC runs before ours are named; those behind, and those that will be behind, are not.
func TestTCOrder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if err := probeTCX(); err != nil {
		t.Skip("this kernel has no TCX: ", err)
	}
	owner, err := rig.Self()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := rig.MakeNamespace(owner, "tcorder")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	}()
	attach := func(name string, anchor link.Anchor) {
		t.Helper()
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		if err := ns.Do(func() error {
			const lo = 1
			l, err := link.AttachTCX(link.TCXOptions{Interface: lo, Program: prog, Attach: ebpf.AttachTCXIngress, Anchor: anchor})
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, order config.TCOrder, named ...string) {
		t.Helper()
		var list []Check
		if err := ns.Do(func() error {
			list = tcOrderChecks(&config.Config{Interfaces: []string{"lo", "nowhere0"}, TCOrder: order})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(list) != min(1, len(named)) || len(list) == 1 && (!strings.HasPrefix(list[0].Found, strings.Join(named, ", ")+":") || (list[0].Status == Warn) == (order == config.TCLast)) {
			t.Errorf("%s: %+v, want %v", when, list, named)
		}
	}
	expect("nothing attached", config.TCLast)
	attach("behind", link.Head())
	expect("not attached yet", config.TCFirst)
	expect("not attached yet, to be last", config.TCLast, "behind")
	attach("tg_host_tc", link.Head())
	expect("attached first", config.TCFirst)
	attach("cil_from_netdev", link.Head())
	expect("another came", config.TCFirst, "cil_from_netdev")
}
