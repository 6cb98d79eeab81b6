#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/deps.sh [--check] SET...   installs what the given sets need and this machine lacks.
# Sets: build demo bench soak lab generate fuzz core lwip dpdk lint prove test kernel machines packages image web docs instructions emulated. As root on a
# Debian system it installs through apt, only what is missing; otherwise, and with --check, it names what is
# missing in one line and fails. Must never remove or upgrade a package.
set -euo pipefail
check=
if [ "${1-}" = --check ]; then check=1 && shift; fi
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

# package=PROBE, a command or a file that shows that it is installed; "go" is special
build="go ca-certificates=/etc/ssl/certs/ca-certificates.crt"
lab="nginx=nginx nftables=nft iproute2=ss"
firewalls="iptables=iptables-legacy-restore"
real="curl=curl openssl=openssl procps=pkill openssh-server=sshd openssh-client=ssh opensmtpd=smtpd"
bpf="clang-19=clang-19 llvm-19=llvm-strip-19 libbpf-dev=/usr/include/bpf/bpf_helpers.h libc6-dev=/usr/include/stdio.h"
native="gcc=gcc libc6-dev=/usr/include/stdio.h clang-19=clang-19
    libclang-rt-19-dev=/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-$(uname -m).a
    gcc-arm-none-eabi=arm-none-eabi-gcc libcmocka-dev=/usr/include/cmocka.h
    python3=python3 libssl3=/usr/lib/$(uname -m)-linux-gnu/libcrypto.so.3"
device="make=make dpkg-dev=dpkg-source qemu-system-arm=qemu-system-arm gcc-arm-none-eabi=arm-none-eabi-gcc
    libnewlib-arm-none-eabi=/usr/lib/arm-none-eabi/newlib/thumb/v7-m/nofp/libc_nano.a"
dpdk="gcc=gcc make=make pkg-config=pkg-config libdpdk-dev=/usr/include/dpdk/rte_eal.h"
counter="valgrind=valgrind"
emulated="libsimde-dev=/usr/include/simde/x86/avx512.h"

containers="podman=podman netavark=/usr/lib/podman/netavark crun=crun busybox-static=/bin/busybox"
machines="docker.io=dockerd firewalld=firewalld dbus=dbus-daemon
    libvirt-daemon-system=libvirtd libvirt-clients=virsh dnsmasq-base=dnsmasq ufw=ufw fail2ban=fail2ban-server"
site="python3=python3 python3-venv=/usr/lib/python3.$(python3 -c 'import sys; print(sys.version_info[1])' 2>/dev/null || echo 11)/ensurepip"
detectors="fastnetmon=fastnetmon suricata=suricata"
routers="frr=/usr/lib/frr/bgpd"
watch="prometheus=promtool tmux=tmux tshark=tshark"

wanted=
for set in "$@"; do
    case $set in
    build) wanted+=" $build" ;;
    demo | bench) wanted+=" $build $lab" ;;
    generate) wanted+=" $build $bpf" ;;
    fuzz) wanted+=" $build $native $device $dpdk" ;;
    core) wanted+=" $native" ;;
    lwip) wanted+=" $native $device" ;;
    dpdk) wanted+=" $dpdk" ;;
    instructions) wanted+=" $counter" ;;
    emulated) wanted+=" $emulated" ;;
    docs) wanted+=" $site" ;;
    prove) wanted+=" $native frama-c-base=frama-c make=make" ;;
    lint) wanted+=" $build shellcheck=shellcheck clang-format-19=clang-format-19" ;;
    test) wanted+=" $site $build xdp-tools=xdp-filter ethtool=ethtool clang-format-19=clang-format-19 $lab $firewalls $real $bpf $native $device $dpdk $counter $emulated $containers $detectors $watch $routers" ;;
    soak) wanted+=" $build $lab $routers" ;;
    lab) wanted+=" $lab" ;;
    image) wanted+=" podman=podman crun=crun" ;;
    kernel) wanted+=" $build debian-archive-keyring=/usr/share/keyrings/debian-archive-keyring.gpg ipvsadm=ipvsadm iproute2=ip xdp-tools=xdp-filter ethtool=ethtool debootstrap=debootstrap busybox-static=/bin/busybox cpio=cpio xz-utils=xz qemu-system-arm=qemu-system-aarch64" ;;
    web) wanted+=" $build $lab $firewalls $site chromium=chromium" ;;
    machines) wanted+=" $build $lab $firewalls $containers $machines" ;;
    packages) wanted+=" mmdebstrap=mmdebstrap lintian=lintian rpm=rpm systemd=systemd-analyze systemd-container=systemd-nspawn iproute2=ip" ;;
    *) echo "deps: no set named '$set'; use build, demo, bench, soak, lab, generate, fuzz, core, lwip, dpdk, lint, prove, test, kernel, machines, packages, image, web, docs or instructions" >&2 && exit 2 ;;
    esac
done

present() { # NAME=PROBE
    local probe=${1#*=}
    case $probe in
    go) tools/go.sh >/dev/null 2>&1 ;;
    /*) [ -e "$probe" ] ;;
    *) command -v "$probe" >/dev/null ;;
    esac
}

missing=()
for item in $wanted; do
    name=${item%%=*}
    if ! present "$item" && [[ " ${missing[*]-} " != *" $name "* ]]; then
        missing+=("$name")
    fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

need="${missing[*]}"
[[ " $need " != *" go "* ]] || need="$need (go: version 1.21 or newer)"
if [ -n "$check" ]; then
    echo "missing: $need; as root, tools/deps.sh $* installs what is missing"
    exit 1
elif ! command -v apt-get >/dev/null; then
    echo "deps: missing: $need; these are names of Debian packages, install what contains them" >&2
    exit 1
elif [ "$(id -u)" != 0 ]; then
    echo "deps: missing: $need; run the same command as root, or install them" >&2
    exit 1
fi

log=$(mktemp)
undo=() # files to remove at the end, or if something fails
trap 'rm -f "$log" "${undo[@]}"' EXIT

quietly() {
    if ! DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        echo "deps: failed: $*" >&2
        exit 1
    fi
}

# A package installed as a tool must not start a server on this machine.
hold_services() {
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        undo+=(/usr/sbin/policy-rc.d)
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
    fi
}

# Debian 12 has Go 1.19; its backports have one that fetches the toolchain of go.mod.
# The mirror is the one that apt uses already.
from_backports() { # PACKAGE
    local list=/etc/apt/sources.list.d/tidegate-backports.list codename mirror signed=
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    mirror=$(apt_mirror "$codename")
    if [ -z "$codename" ] || [ -z "$mirror" ]; then
        echo "deps: apt has no $1 that is new enough, and no mirror to take one from; install it" >&2
        exit 1
    fi
    if [ -z "$(apt_mirror "$codename-backports")" ]; then
        echo "deps: adding $codename-backports to apt for $1 ($list)"
        [ ! -e $keyring ] || signed="[signed-by=$keyring] "
        undo+=("$list") # an unreadable list would break apt
        echo "deb $signed$mirror $codename-backports main" >"$list"
        quietly apt-get update
        unset 'undo[-1]'
    fi
    quietly apt-get install -y --no-install-recommends -t "$codename-backports" "$1"
}

# apt_mirror CODENAME prints the address that apt takes that release from.
apt_mirror() {
    apt-get indextargets --format '$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$1|//p" | head -n 1
}

packages=()
need_go='' need_suricata=''
for name in "${missing[@]}"; do
    case $name in
    go) need_go=1 ;;
    suricata) need_suricata=1 ;; # Debian 12 has it in its backports only
    *) packages+=("$name") ;;
    esac
done
echo "deps: installing ${missing[*]}"
quietly apt-get update
hold_services
if [ ${#packages[@]} -gt 0 ]; then
    quietly apt-get install -y --no-install-recommends "${packages[@]}"
fi
if [ -n "$need_go" ]; then
    candidate=$(apt-cache policy golang-go | sed -n 's/ *Candidate: [0-9]*://p')
    if dpkg --compare-versions "${candidate:-0}" ge 1.21; then
        quietly apt-get install -y --no-install-recommends golang-go
    else
        from_backports golang-go
    fi
fi
if [ -n "$need_suricata" ]; then
    if apt-cache policy suricata | grep -q 'Candidate: [0-9]'; then
        quietly apt-get install -y --no-install-recommends suricata
    else
        from_backports suricata
    fi
fi
# Nor at the next boot.
if command -v systemctl >/dev/null; then
    for unit in nginx:nginx ssh:openssh-server opensmtpd:opensmtpd fastnetmon:fastnetmon suricata:suricata prometheus:prometheus frr:frr; do
        if [[ " ${missing[*]} " == *" ${unit#*:} "* ]]; then
            systemctl disable "${unit%%:*}" >/dev/null 2>&1 || true
        fi
    done
fi
for item in $wanted; do
    if ! present "$item"; then
        echo "deps: ${item%%=*} is still missing after its installation" >&2
        exit 1
    fi
done
