#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds core/ to its first invariant: every header stands alone, for every target,
# with nothing but the compiler's own stdint.h, stddef.h and stdbool.h; and what is
# compiled from it calls nothing but the four memory functions that any compiler may
# call by itself (GCC manual, "Standards") and the ARM run-time helpers.
# Canaries prove that each check can fail.
set -eu

core=$(cd "$(dirname "$0")/.." && pwd)
out=$1
mkdir -p "$out"
warn="-std=c11 -Wall -Wextra -Werror -ffreestanding -nostdlib -nostdinc"
clang=${CLANG:-clang-19}
gcc=${GCC:-gcc}
arm=${ARM_GCC:-arm-none-eabi-gcc}

# The compiler's own headers, and no others.
gcc_inc="-isystem $($gcc -print-file-name=include)"
arm_inc="-isystem $($arm -print-file-name=include)"
clang_inc="-isystem $($clang -print-resource-dir)/include"

compile() { # target source object
	case $1 in
	x86-64-gcc) $gcc $warn $gcc_inc -O2 -c "$2" -o "$3" ;;
	x86-64-clang) $clang $warn $clang_inc -O2 -c "$2" -o "$3" ;;
	# GNU statement expressions and asm are what BPF needs: gnu11
	bpf) $clang -target bpf -mcpu=v3 $warn $clang_inc -std=gnu11 -O2 -g -c "$2" -o "$3" ;;
	cortex-m3) $arm -mcpu=cortex-m3 -mthumb $warn $arm_inc -O2 -c "$2" -o "$3" ;;
	esac
}
targets="x86-64-gcc x86-64-clang bpf cortex-m3"

fail() {
	echo "freestanding: FAIL: $*" >&2
	exit 1
}

foreign_includes() { # files: prints includes that are not allowed
	grep -hE '^[[:space:]]*#[[:space:]]*include' "$@" |
		grep -vE '#[[:space:]]*include[[:space:]]+<std(int|def|bool)\.h>' |
		while read -r _ name; do
			name=${name%\"}
			name=${name#\"}
			[ -f "$core/$name" ] || echo "$name"
		done
}

foreign_calls() { # object: prints undefined symbols that are not allowed
	nm -u "$1" | awk '{print $2}' | grep -vE '^(mem(cpy|move|set|cmp)|__aeabi_.*)$' || true
}

headers=$(cd "$core" && ls *.h)
bad=$(foreign_includes "$core"/*.h)
[ -z "$bad" ] || fail "a core header includes $bad"
for target in $targets; do
	for header in $headers; do
		printf '#include "%s"\n#include "%s"\n' "$core/$header" "$core/$header" >"$out/one.c"
		compile $target "$out/one.c" "$out/one.o" || fail "$header alone, for $target"
	done
	if [ $target != bpf ]; then # BPF has no calls to libraries: the linker would refuse them
		compile $target "$core/test/freestanding_use.c" "$out/use-$target.o" ||
			fail "freestanding_use.c for $target"
		bad=$(foreign_calls "$out/use-$target.o")
		[ -z "$bad" ] || fail "core code for $target calls $bad"
	fi
done

# Canaries.
printf '#include <string.h>\n' >"$out/canary_include.h"
cp "$out/canary_include.h" "$out/canary_include.c"
printf 'int rand(void);\nint tg_canary(void);\nint tg_canary(void) { return rand(); }\n' >"$out/canary_call.c"
printf 'int tg_canary(int a);\nint tg_canary(int a) { return abs(a) + rand(); }\n' >"$out/canary_implicit.c"
[ -n "$(foreign_includes "$out/canary_include.h")" ] || fail "canary: <string.h> was not noticed"
for target in $targets; do
	if compile $target "$out/canary_include.c" "$out/canary.o" 2>/dev/null; then
		fail "canary: <string.h> compiled for $target"
	fi
	if compile $target "$out/canary_implicit.c" "$out/canary.o" 2>/dev/null; then
		fail "canary: an undeclared library call compiled for $target"
	fi
	if [ $target != bpf ]; then
		compile $target "$out/canary_call.c" "$out/canary.o"
		[ -n "$(foreign_calls "$out/canary.o")" ] || fail "canary: rand() was not noticed"
	fi
done
set -- $headers
echo "freestanding: ok: $# headers, targets: $targets; canaries refused"
