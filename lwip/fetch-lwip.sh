#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Fetches lwIP's source from Debian's source package into a directory:
#
#     fetch-lwip.sh SUITE DIRECTORY      (SUITE: bookworm for 2.1.3, trixie for 2.2.1)
#
# The mirror and its key are those that apt already uses on this machine. apt's
# own lists and sources stay as they are: everything goes to a place of our own.
set -eu

suite=$1
out=$2
mkdir -p "$(dirname "$out")"
exec 9>"$out.lock" # one at a time
flock 9
if [ -f "$out/src/core/tcp_in.c" ]; then
	exit 0
fi
if ! command -v dpkg-source >/dev/null; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "fetch-lwip.sh: dpkg-source is missing; install it: apt-get install dpkg-dev" >&2
		exit 1
	fi
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dpkg-dev >/dev/null
fi
site=$(apt-get indextargets --format '$(SITE) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
	awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ { print $1; exit }')
if [ -z "$site" ]; then
	echo "fetch-lwip.sh: apt knows no Debian mirror; run apt-get update first" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/src"
cat >"$work/lwip.sources" <<EOF
Types: deb-src
URIs: $site
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
apt_ours() {
	apt-get -o Dir::Etc::sourcelist="$work/lwip.sources" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
		-o APT::Sandbox::User=root -q "$@"
}
apt_ours update >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
(cd "$work/src" && apt_ours source lwip >>"$work/log" 2>&1) || { cat "$work/log" >&2; exit 1; }
rm -rf "$out"
mv "$work"/src/lwip-*/ "$out"
