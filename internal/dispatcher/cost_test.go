// SPDX-License-Identifier: Apache-2.0

package dispatcher

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// The cost of a dispatcher per packet: a program that answers at once, alone, and as the first, the second and the tenth function of a dispatcher.
// The functions stand in for components: a component costs one more jump. Run it with -bench . -benchtime 20x and
// compare on an idle machine.
func BenchmarkDispatcher(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("XDP needs root")
	}
	alone, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tx), asm.Return()}})
	if err != nil {
		b.Fatal(err)
	}
	run := func(prog *ebpf.Program) func(b *testing.B) {
		return func(b *testing.B) {
			const repeat = 1 << 20
			var total int64
			for b.Loop() {
				verdict, once, err := prog.Benchmark(make([]byte, 64), repeat, nil)
				if err != nil || verdict != tx {
					b.Fatal(verdict, err)
				}
				total += once.Nanoseconds()
			}
			b.ReportMetric(float64(total)/float64(b.N), "ns/packet")
			b.ReportMetric(0, "ns/op")
		}
	}
	b.Run("alone", run(alone))
	for _, n := range []int{1, 2, maxComponents} {
		list := make([]Component, n)
		for i := range list {
			list[i].Chain = onPass
		}
		c := configOf(list, 0)
		m, err := configMap(c)
		if err != nil {
			b.Fatal(err)
		}
		handle, ids, err := types(c)
		if err != nil {
			b.Fatal(err)
		}
		code, starts := body(c, m.FD())
		for i, start := range starts[1:] { // the helper is for the verifier; what replaces a function does without
			code[start+1] = code[start]
			if i == n-1 {
				code[start+2].imm = tx
			}
		}
		prog, err := load(c, handle, ids, code, starts)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(map[int]string{1: "first of one", 2: "second of two", maxComponents: "tenth of ten"}[n], run(prog))
		prog.Close()
		handle.Close()
		m.Close()
	}
}
