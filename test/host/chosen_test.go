// SPDX-License-Identifier: Apache-2.0

package hosttest

import (
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	bpflink "github.com/cilium/ebpf/link"
)

// `tidegate check` does not miss a listener where a BPF program (sk_lookup) may choose one, unless the gate would: with `takeover: translate`
// it does not look at what the machine does.
func TestCheckWhereListenersAreChosen(t *testing.T) {
	w := newWorld(t)
	said := func(takeover string) string {
		w.writeConfig(w.webConfig(webPort, "takeover: "+takeover))
		out, _, _ := w.tidegateRun("check", "-c", w.configPath) // other rows are not this test's matter
		return out
	}
	const missed, chosen = "nothing listens", "nothing listens here; rules or BPF programs"
	if out := said("auto"); !strings.Contains(out, missed) || strings.Contains(out, chosen) {
		t.Errorf("without a program: %s", out)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SkLookup, AttachType: ebpf.AttachSkLookup, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	if err := w.Server.Do(func() error {
		space, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer space.Close()
		at, err := bpflink.AttachNetNs(int(space.Fd()), prog)
		if err == nil {
			t.Cleanup(func() { _ = at.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for takeover, want := range map[string]bool{"auto": true, "adopt": true, "translate": false} {
		if out := said(takeover); strings.Contains(out, chosen) != want {
			t.Errorf("%s: %s", takeover, out)
		}
	}
}
