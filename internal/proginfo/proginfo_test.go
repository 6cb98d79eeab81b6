// SPDX-License-Identifier: Apache-2.0

package proginfo

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

func TestOfWhatInfoSays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it loads BPF programs")
	}
	for _, name := range []string{"tg_first", "tg_fifteen_byte"} {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, License: "Apache-2.0", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		defer prog.Close()
		info, err := prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := info.ID()
		if got, err := ID(prog); err != nil || got != want || want == 0 {
			t.Errorf("%s: ID %d, %v; want %d", name, got, err, want)
		}
		if got, err := Name(prog); err != nil || got != info.Name || got != name {
			t.Errorf("%s: name %q, %v; Info says %q", name, got, err, info.Name)
		}
	}
	closed, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if id, err := ID(closed); err == nil {
		t.Errorf("a program that was closed has ID %d", id)
	}
}
