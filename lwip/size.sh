#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the module adds to an image with lwIP, by layout, from the linker's own
# sizes: size.sh BARE.elf NAME=IMAGE.elf... The hybrid layout is held to its
# budget; nothing may bring floating point or malloc into the image.
set -eu

flash_max=3072
ram_max=64
passed=0
failed=0

check() { # what, condition's status
	if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
sizes() { # "text data bss"
	arm-none-eabi-size "$1" | awk 'NR == 2 { print $1, $2, $3 }'
}

bare=$1
shift
# shellcheck disable=SC2046
set -- "$bare" $(sizes "$bare") "$@"
bare_text=$2 bare_data=$3 bare_bss=$4
shift 4
printf '%-28s %8s %8s\n' "over lwIP, bytes" flash RAM
for pair in "$@"; do
	name=${pair%%=*} image=${pair#*=}
	read -r text data bss <<EOF
$(sizes "$image")
EOF
	flash=$((text + data - bare_text - bare_data))
	ram=$((data + bss - bare_data - bare_bss))
	printf '%-28s %8d %8d\n' "$name" "$flash" "$ram"
	case $name in
	*hybrid)
		check "$name: $flash bytes of flash, budget $flash_max" "$([ $flash -le $flash_max ]; echo $?)"
		check "$name: $ram bytes of RAM, budget $ram_max" "$([ $ram -le $ram_max ]; echo $?)"
		check "$name: adds nothing, so it was not linked" "$([ $flash -gt 500 ]; echo $?)"
		;;
	esac
	found=$(arm-none-eabi-nm "$image" | grep -E ' (malloc|_malloc_r|_sbrk|__aeabi_[fd](add|sub|mul|div|2))' || true)
	check "$name: heap or floating point: $found" "$([ -z "$found" ]; echo $?)"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
