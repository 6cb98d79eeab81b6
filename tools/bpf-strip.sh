#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/bpf-strip.sh -g OBJECT    what bpf2go runs to strip a BPF object.
# It also renames the sections of variables (TG_VARIABLE, bpf/lib/kernel.h) from .bss.NAME to .data.NAME: to clang, only the first takes no
# room in the file; to the loader, only the second is a map.
set -eu
llvm-strip-19 "$@"
for object; do :; done # the last argument
renamed=$(llvm-readelf-19 -SW "$object" | sed -n 's/.* \.bss\.\([a-z0-9_]*\) .*/--rename-section=.bss.\1=.data.\1/p')
# shellcheck disable=SC2086 # a word for each section
[ -z "$renamed" ] || llvm-objcopy-19 $renamed "$object"
