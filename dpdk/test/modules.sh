#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds the plane's modules apart:
#
#   modules.sh objects OBJECT...           no object needs one that needs it, over any number of others
#   modules.sh headers HEADER...           no header includes itself, over any number of others
#   modules.sh alone HEADER COMPILER...    the header compiles with nothing before it
#
# CANARY=1 adds a fault that has to be found.
set -eu

circle() { # pairs on stdin: from to
	if ! tsort > /dev/null 2> "$tmp"; then
		sed "s/^tsort: -: input contains a loop:/dpdk: $1 in a circle:/; s/^tsort: //" "$tmp" >&2
		exit 1
	fi
}

tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
what=$1
shift
case $what in
objects)
	# The pipeline, compiled for several processors, is one module.
	nm -A "$@" | awk -v canary="${CANARY:-}" '
		{ split($1, at, ":"); file = at[1]; sub(/.*\//, "", file); sub(/(_v[0-9])?\.o$/, "", file) }
		$(NF-1) ~ /^[TDBRGS]$/ { where[$NF] = file }
		$(NF-1) == "U" { n++; from[n] = file; needs[n] = $NF }
		END {
			for (i = 1; i <= n; i++)
				if (needs[i] in where && where[needs[i]] != from[i])
					print from[i], where[needs[i]]
			if (canary) print "say", "main"
		}' | circle objects
	;;
headers)
	for h; do
		sed -n 's/^#include "\([^"]*\.h\)".*/\1/p' "$h" | while read -r i; do
			case $i in */*) ;; *) echo "${h##*/} $i" ;; esac
		done
	done > "$tmp.pairs"
	trap 'rm -f "$tmp" "$tmp.pairs"' EXIT
	[ -z "${CANARY:-}" ] || echo "worker.h pipeline.h" >> "$tmp.pairs"
	circle headers < "$tmp.pairs"
	;;
alone)
	header=$1
	shift
	{
		[ -z "${CANARY:-}" ] || echo "struct tg_canary { union tg_addr of_no_header; };"
		echo "#include \"$header\""
	} | "$@" -fsyntax-only -Wno-unused-function -x c - || {
		echo "dpdk: $header does not compile alone: let it include what it needs" >&2
		exit 1
	}
	;;
esac
