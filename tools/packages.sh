#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/packages.sh VERSION   makes build/tidegate_VERSION_ARCH.deb and the .rpm with nfpm, which is built into
# build/tools with the Go command. ARCH is amd64 or arm64; by default this machine's. Two runs of one commit make the same packages.
set -euo pipefail
cd "$(dirname "$0")/.."
nfpm=v2.43.4 # later versions need modules that not every module proxy has
GO=$(tools/go.sh)
PATH=$(dirname "$GO"):$PATH
export GOTOOLCHAIN=${GOTOOLCHAIN_SET:-auto} VERSION=${1:?VERSION} ARCH CGO_ENABLED=0
case ${ARCH:=$("$GO" env GOHOSTARCH)} in
amd64 | arm64) ;;
*) echo "packages: ARCH is $ARCH; set it to amd64 or arm64, or unset it on such a machine" >&2 && exit 2 ;;
esac
MAINTAINER=${MAINTAINER:-$(git log -1 --format='%an <%ae>')}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export MAINTAINER SOURCE_DATE_EPOCH
commit=$(git rev-parse --short=12 HEAD)

if [ ! -x build/tools/nfpm-$nfpm ]; then
    echo "packages: building nfpm $nfpm"
    GOBIN=$PWD/build/tools "$GO" install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm"
    mv build/tools/nfpm build/tools/nfpm-$nfpm
fi
rm -rf build/package
mkdir -p build/package/man build/package/completions
GOARCH=$ARCH "$GO" build -trimpath -buildvcs=false -ldflags "-s -w -X tidegate/internal/version.Version=$VERSION+g$commit" -o build/package/ ./cmd/tidegate ./cmd/tidegate-bgp
"$GO" run -tags docs ./cmd/tidegate generate-man build/package/man
gzip -9n build/package/man/*.8
for shell in bash zsh fish; do
    "$GO" run ./cmd/tidegate completion $shell >build/package/completions/$shell
done
{
    printf 'tidegate (%s) unstable; urgency=medium\n\n' "$VERSION"
    printf '  * What has changed stands in CHANGELOG.md of the sources.\n\n'
    printf ' -- %s  %s\n' "$MAINTAINER" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >build/package/changelog.gz
rm -f build/tidegate_*.deb build/tidegate-*.rpm
sed '/^license:/d' packaging/nfpm.yaml >build/package/deb.yaml # Debian has no such field; the copyright file states it
cp packaging/nfpm.yaml build/package/rpm.yaml
for kind in deb rpm; do
    build/tools/nfpm-$nfpm package --config build/package/$kind.yaml --packager $kind --target build/
done
