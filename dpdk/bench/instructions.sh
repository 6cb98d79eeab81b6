#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# instructions.sh BENCH [PATH...]   the instructions that the burst pipeline executes for a frame, by valgrind's callgrind: within
# tg_pipeline_burst and its variant for this processor, bursts of 32, 2,048 frames from a worker's start on.
# Valgrind executes AVX2 and not AVX-512, so the variant counted is that of AVX2 (x86-64-v3).
# It fails if a path takes more than its ceiling in instructions.txt (or in the file CEILINGS). Must never measure time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bench=$1 && shift
frames=2048
if ! grep -qw avx2 /proc/cpuinfo; then
    echo "instructions: not counted: this processor has no AVX2, whose variant the ceilings are of"
    [ -n "${CEILINGS-}" ] && exit 3
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() { # PATH: instructions a frame
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect=tg_pipeline_burst_v3 \
        "$bench" --only "$1" --frames $frames >"$work/out" 2>"$work/err" || { cat "$work/err" >&2 && return 1; }
    awk -v n=$frames '/Collected/ { v = $NF } END { if (v + 0 == 0) exit 1; printf "%.0f\n", v / n }' "$work/err" ||
        { echo "instructions: $1: callgrind saw nothing of the pipeline" >&2 && return 1; }
}

failed=0 counted=
while read -r path ceiling; do
    [[ $path != \#* && -n $path ]] || continue
    [[ $# = 0 || " $* " == *" $path "* ]] || continue
    n=$(count "$path")
    counted=1
    printf '%-14s %5d instructions a frame (ceiling %d)\n' "$path" "$n" "$ceiling"
    if [ "$n" -gt "$ceiling" ]; then
        echo "instructions: $path takes $n instructions a frame, its ceiling is $ceiling" >&2
        failed=1
    fi
done <"${CEILINGS-$here/instructions.txt}"
[ -n "$counted" ] || { echo "instructions: no such path: $*" >&2 && exit 2; }
exit $failed
