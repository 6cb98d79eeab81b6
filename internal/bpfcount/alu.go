// SPDX-License-Identifier: Apache-2.0

package bpfcount

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf/asm"
)

// alu computes an arithmetic instruction from its operands.
func alu(ins *asm.Instruction, a, b uint64) uint64 {
	op := ins.OpCode.ALUOp()
	if op == asm.Swap {
		return swap(ins, a)
	}
	if ins.OpCode.Source() == asm.ImmSource {
		b = uint64(int64(int32(ins.Constant)))
	}
	is64 := ins.OpCode.Class() == asm.ALU64Class
	shift := b & 63
	if !is64 {
		a, b, shift = uint64(uint32(a)), uint64(uint32(b)), b&31
	}
	r := arithmetic(ins, op, is64, a, b, shift)
	if !is64 {
		r = uint64(uint32(r))
	}
	return r
}

func arithmetic(ins *asm.Instruction, op asm.ALUOp, is64 bool, a, b, shift uint64) uint64 {
	switch op {
	case asm.Add:
		return a + b
	case asm.Sub:
		return a - b
	case asm.Mul:
		return a * b
	case asm.Div:
		if b == 0 {
			return 0
		}
		return a / b
	case asm.Mod:
		if b == 0 {
			return a
		}
		return a % b
	case asm.Or:
		return a | b
	case asm.And:
		return a & b
	case asm.Xor:
		return a ^ b
	case asm.LSh:
		return a << shift
	case asm.RSh:
		return a >> shift
	case asm.ArSh:
		if is64 {
			return uint64(int64(a) >> shift)
		}
		return uint64(int32(a) >> shift)
	case asm.Neg:
		return -a
	case asm.Mov:
		return b
	}
	panic(unsupported(fmt.Sprint(ins)))
}

// swap reverses the lowest bytes, or (to little-endian) truncates to them.
func swap(ins *asm.Instruction, a uint64) uint64 {
	width := uint64(ins.Constant)
	if ins.OpCode.Endianness() == asm.LE {
		return a & (1<<(width-1)<<1 - 1)
	}
	return bits.ReverseBytes64(a) >> (64 - width)
}

// taken reports whether a conditional jump is taken.
func taken(ins *asm.Instruction, a, b uint64) bool {
	if ins.OpCode.Source() == asm.ImmSource {
		b = uint64(int64(int32(ins.Constant)))
	}
	sa, sb := int64(a), int64(b)
	if ins.OpCode.Class() == asm.Jump32Class {
		a, b = uint64(uint32(a)), uint64(uint32(b))
		sa, sb = int64(int32(a)), int64(int32(b))
	}
	switch ins.OpCode.JumpOp() {
	case asm.JEq:
		return a == b
	case asm.JNE:
		return a != b
	case asm.JGT:
		return a > b
	case asm.JGE:
		return a >= b
	case asm.JLT:
		return a < b
	case asm.JLE:
		return a <= b
	case asm.JSGT:
		return sa > sb
	case asm.JSGE:
		return sa >= sb
	case asm.JSLT:
		return sa < sb
	case asm.JSLE:
		return sa <= sb
	case asm.JSet:
		return a&b != 0
	}
	panic(unsupported(fmt.Sprint(ins)))
}
