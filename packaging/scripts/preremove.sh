#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Before removal, not before an upgrade: nothing may stay in the kernel that could no longer be removed.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl stop 'tidegate@*.service' 'tidegate-manager@*.service' || true
fi
for state in /run/tidegate/*.json; do
    [ -e "$state" ] || continue
    name=$(basename "$state" .json)
    tidegate off --instance "$name" || tidegate off -c "/etc/tidegate/$name.yaml" ||
        echo "tidegate: instance $name could not be taken down; its packet path goes on until its keys expire" >&2
done
