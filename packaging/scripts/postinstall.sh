#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# After installation and upgrade, of deb (configure) and rpm (a number). Starts nothing that was not running.
set -e
case "$1" in
configure | 1 | 2) ;;
*) exit 0 ;;
esac
systemd-sysusers /usr/lib/sysusers.d/tidegate.conf
systemd-tmpfiles --create /usr/lib/tmpfiles.d/tidegate.conf || true # in a chroot there is no BPF file system
install -d -m 0750 -o root -g tidegate /etc/tidegate
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    # The packet path keeps running meanwhile; the new process takes it over.
    systemctl try-restart 'tidegate@*.service' 'tidegate-manager@*.service' || true
fi
