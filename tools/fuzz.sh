#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh BINARY CORPUS RUNS [FLAG...]    runs one libFuzzer target and prints the result.
# Without FUZZ_SECONDS: RUNS inputs from a fixed seed and the committed CORPUS, nearly the same each
# time, so that a failure is caused by a change and not by chance. With
# FUZZ_SECONDS=N: for that long, with other inputs each time, and their corpus is kept next to the
# binary. A finding is printed with its input, in base64: add it to CORPUS as a file.
set -uo pipefail
binary=$1 corpus=$2 runs=$3
shift 3
name=$(basename "$binary") log=$binary.log crash=$binary.crash-
rm -f "$crash"*
found=$binary.corpus # new inputs go here, never into CORPUS
if [ -n "${FUZZ_SECONDS:-}" ]; then
    how=(-max_total_time="$FUZZ_SECONDS")
else
    how=(-runs="$runs" -seed=1)
    # libFuzzer mutates with operands of comparisons, pointers among them: without fixed addresses
    # the same seed makes other inputs.
    fixed=(setarch "$(uname -m)" --addr-no-randomize)
    "${fixed[@]}" true 2>/dev/null || fixed=()
    rm -rf "$found"
fi
mkdir -p "$found"
if ${fixed[@]+"${fixed[@]}"} "$binary" "${how[@]}" -print_final_stats=1 -artifact_prefix="$crash" "$@" "$found" "$corpus" >"$log" 2>&1; then
    echo "fuzz $name: ok, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    exit 0
fi
tail -n 60 "$log"
for input in "$crash"*; do
    [ -e "$input" ] && { echo "input: $input, in base64:"; base64 "$input"; }
done
echo "fuzz $name: FAIL"
exit 1
