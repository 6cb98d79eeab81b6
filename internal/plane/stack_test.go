// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// A program and all functions on the longest path of its calls share 512 bytes of stack. Kernels before 6.8 round each frame
// up to 32 bytes, newer ones to 16 (check_max_stack_depth in kernel/bpf/verifier.c): the kernel that runs this test may take
// what an older one refuses. Role host is claimed for Linux 6.1, so its programs are held to the rule of that. There a frame
// may be smaller than it is here, since nothing is adopted, but not larger.
const (
	stackLimit = 512
	stackUnit  = 32
)

func TestHostStacksFitLinux61(t *testing.T) {
	for _, o := range Objects() {
		if o.Role != "host" {
			continue
		}
		spec, err := o.Spec()
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range spec.Programs {
			depth, path := deepest(functionsOf(p.Instructions))
			t.Logf("%s: %s: %d bytes of stack: %s", o.Name, name, depth, strings.Join(path, ", "))
			if depth > stackLimit {
				t.Errorf("%s: %s takes %d bytes of stack, want at most %d, or Linux 6.1 refuses it: %s; make a part of the largest frame a function of its own (TG_GLOBAL)",
					o.Name, name, depth, stackLimit, strings.Join(path, ", "))
			}
		}
	}
}

// Frames are found, however the stack is addressed, and calls are summed, at their deepest.
func TestDeepest(t *testing.T) {
	function := func(name string, ins ...asm.Instruction) asm.Instructions {
		ins = append(ins, asm.Return())
		ins[0] = ins[0].WithSymbol(name)
		return ins
	}
	insns := slices.Concat(
		function("main", asm.StoreImm(asm.R10, -8, 0, asm.DWord), call("small"), call("large")),
		function("small", asm.Mov.Imm(asm.R0, 0)),
		function("large", asm.Mov.Reg(asm.R1, asm.R10), asm.Add.Imm(asm.R1, -200), call("small")),
	)
	depth, path := deepest(functionsOf(insns))
	if want := 32 + 224 + 32; depth != want || !slices.Equal(path, []string{"main 32", "large 224", "small 32"}) {
		t.Errorf("got %d by %v, want %d", depth, path, want)
	}
}

func call(name string) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall, Constant: -1}.WithReference(name)
}

// function is the frame of one function, and what it calls.
type function struct {
	name  string
	frame int
	calls []string
}

// functionsOf takes a program apart; the first is its entry.
func functionsOf(insns asm.Instructions) (list []*function) {
	var f *function
	fromStack := map[asm.Register]bool{} // registers that were just set to the frame pointer
	for i := range insns {
		ins := &insns[i]
		if s := ins.Symbol(); f == nil || s != "" && isCalled(insns, s) {
			f = &function{name: s, frame: 1}
			list = append(list, f)
			clear(fromStack)
		}
		class := ins.OpCode.Class()
		switch {
		case ins.IsFunctionReference():
			if ins.IsFunctionCall() {
				f.calls = append(f.calls, ins.Reference())
			}
		case class.IsLoad() && ins.Src == asm.R10, class.IsStore() && ins.Dst == asm.R10:
			f.uses(-int(ins.Offset))
		case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.RegSource:
			fromStack[ins.Dst] = ins.Src == asm.R10
			continue
		case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource && fromStack[ins.Dst]:
			f.uses(-int(ins.Constant))
		}
		if class.IsALU() || class.IsLoad() {
			delete(fromStack, ins.Dst)
		}
	}
	return list
}

func (f *function) uses(bytes int) { f.frame = max(f.frame, bytes) }

func isCalled(insns asm.Instructions, name string) bool {
	return slices.ContainsFunc(insns, func(i asm.Instruction) bool { return i.IsFunctionCall() && i.Reference() == name })
}

// deepest returns the stack of the deepest chain of calls, and the chain.
func deepest(list []*function) (depth int, path []string) {
	byName := map[string]*function{}
	for _, f := range list {
		byName[f.name] = f
	}
	var walk func(f *function) (int, []string)
	walk = func(f *function) (most int, path []string) {
		for _, name := range f.calls {
			if d, p := walk(byName[name]); d > most {
				most, path = d, p
			}
		}
		frame := (f.frame + stackUnit - 1) / stackUnit * stackUnit
		return frame + most, append([]string{fmt.Sprint(f.name, " ", frame)}, path...)
	}
	return walk(list[0])
}
