#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/format.sh [--check]   clang-format over the C of the tree (.clang-format,
# .clang-format-ignore). With --check it changes nothing and fails on what is not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(git ls-files 'core/*.[ch]' 'bpf/*.[ch]' 'dpdk/*.[ch]' 'lwip/*.[ch]' 2>/dev/null ||
    find core bpf dpdk lwip -name '*.[ch]')
if [ "${1-}" = --check ]; then
    clang-format-19 --dry-run --Werror "${files[@]}" || { echo "not formatted; run make format" >&2; exit 1; }
else
    clang-format-19 -i "${files[@]}"
fi
