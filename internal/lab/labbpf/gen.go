// SPDX-License-Identifier: Apache-2.0

// Package labbpf holds the compiled BPF objects of the lab and nothing else.
// The sources are bpf/lab_*.bpf.c; the generated files are committed, so that
// a plain go build needs no clang.
package labbpf

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../../../tools/bpf-strip.sh -target bpfel LabFlood ../../../bpf/lab_flood.bpf.c -- -ffreestanding -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -idirafter /usr/include/x86_64-linux-gnu
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../../../tools/bpf-strip.sh -target bpfel -type tg_split_cfg -type tg_split_edge -type tg_split_seen LabSplit ../../../bpf/lab_split.bpf.c -- -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -idirafter /usr/include/x86_64-linux-gnu
