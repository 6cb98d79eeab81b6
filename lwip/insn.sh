#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Instructions per SYN and per ACK, counted by the firmware in QEMU:
# insn.sh DIRECTORY LAYOUT...   The counts are the same on every machine.
set -eu

dir=$1
shift
secret=5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a

count() { # image queue: prints "syn ack bad_ack rst"
	qemu-system-arm -M lm3s6965evb -nodefaults -display none -monitor none -serial stdio -nic none \
		-icount shift=6,sleep=on -kernel "$dir/firmware-$1.elf" \
		-semihosting-config "enable=on,target=native,arg=firmware,arg=bench=1,arg=queue=$2,arg=secret=$secret" \
		2>/dev/null |
		awk '/^bench/ { for (i = 2; i <= NF; i++) { split($i, p, "="); v[p[1]] = p[2] }
			print v["syn"], v["ack"], v["bad_ack"], v["rst"] }'
}
line() { # name image queue
	# shellcheck disable=SC2046
	set -- "$1" "$3" $(count "$2" "$3")
	[ $# -eq 6 ] || { echo "insn.sh: $1: the firmware printed no counts" >&2; exit 1; }
	printf '%-34s %6d %8d %12d %8d %12d %8d\n' "$1" "$2" "$3" $(($3 - $6)) "$4" "$5" "$6"
}
printf '%-34s %6s %8s %12s %8s %12s %8s\n' "" queue "per SYN" "above a RST" "per ACK" "per bad ACK" "per RST"
for layout in "$@"; do
	line "cookies-always $layout" "cookies-always-$layout" 8
done
for queue in 2 4 8 16; do
	line "cookies-always hybrid" cookies-always-hybrid $queue
	line "cookies hybrid" cookies-hybrid $queue
	line "recycle-oldest" recycle-oldest-hybrid $queue
	line "drop" drop-hybrid $queue
done
