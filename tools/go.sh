#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Go command that can build this project, or fails.
# Go 1.21 or newer suffices: it fetches the toolchain that go.mod names.
# Must never install anything; tools/deps.sh does that.
usable() {
    v=$("$1" env GOVERSION 2>/dev/null) || return 1
    case "$v" in
    go1.[0-9] | go1.[0-9].* | go1.1[0-9] | go1.1[0-9].* | go1.20 | go1.20.*) return 1 ;;
    go1.*) return 0 ;;
    esac
    return 1
}

cd / || exit 1 # away from go.mod, so that asking for the version fetches nothing
for candidate in "$(command -v go)" /usr/local/go/bin/go \
    $(ls -d /usr/lib/go-1.*/bin/go /usr/lib/go/bin/go 2>/dev/null | sort -rV); do
    if [ -x "$candidate" ] && usable "$candidate"; then
        echo "$candidate"
        exit 0
    fi
done
echo "no Go of version 1.21 or newer; run tools/deps.sh build as root" >&2
exit 1
