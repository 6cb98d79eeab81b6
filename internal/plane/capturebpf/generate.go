// SPDX-License-Identifier: Apache-2.0

// Package capturebpf holds the compiled BPF programs that wrap a gate's programs during a
// capture, and the Go types of their maps. Everything but this file is generated
// by `make generate`; nothing else may be written here.
package capturebpf

//go:generate go tool bpf2go -go-package capturebpf -cc clang-19 -strip ../../../tools/bpf-strip.sh -target bpfel -no-global-types -type tg_capture_settings -type tg_capture_counts -type tg_capture_event Capture ../../../bpf/capture.bpf.c -- -O2 -g -mcpu=v3 -ffreestanding -Wall -Wextra -Werror -Wno-unused-function -I/usr/include/x86_64-linux-gnu
