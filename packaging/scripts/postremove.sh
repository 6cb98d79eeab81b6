#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# After removal; with purge (deb), configurations and secrets, logs, state and the user go, too.
set -e
case "$1" in
remove | 0 | purge)
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload || true
    fi
    rm -rf /run/tidegate
    rmdir /sys/fs/bpf/tidegate 2>/dev/null || true
    ;;
esac
case "$1" in
purge | 0) # instances that were enabled: `systemctl disable` does not know them any more
    rm -f /etc/systemd/system/*.wants/tidegate@*.service /etc/systemd/system/*.wants/tidegate-manager@*.service
    ;;
esac
if [ "$1" = purge ]; then
    rm -rf /etc/tidegate /var/log/tidegate /var/lib/tidegate
    if command -v userdel >/dev/null && getent passwd tidegate >/dev/null; then
        userdel tidegate || true
    fi
    if command -v groupdel >/dev/null && getent group tidegate >/dev/null; then
        groupdel tidegate || true
    fi
fi
