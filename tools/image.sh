#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/image.sh VERSION   makes build/tidegate_VERSION_ARCH.oci.tar, an OCI archive, with podman. Needs no registry.
# ARCH is amd64 or arm64; by default this machine's.
# Two runs of one commit make the same image. Storage is a temporary directory: the machine's own images are not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=$(tools/go.sh)
PATH=$(dirname "$GO"):$PATH
version=${1:?VERSION}
commit=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
arch=${ARCH:-$("$GO" env GOHOSTARCH)}
case $arch in
amd64 | arm64) ;;
*) echo "image: ARCH is $arch; set it to amd64 or arm64, or unset it on such a machine" >&2 && exit 2 ;;
esac
out=build/tidegate_${version}_$arch.oci.tar
storage=$(mktemp -d)
trap 'rm -rf --one-file-system "$storage"' EXIT

rm -rf build/image "$out"
mkdir -p build/image
GOTOOLCHAIN=${GOTOOLCHAIN_SET:-auto} CGO_ENABLED=0 GOARCH=$arch "$GO" build -trimpath -buildvcs=false \
    -ldflags "-s -w -X tidegate/internal/version.Version=$version+g$commit" -o build/image/ ./cmd/tidegate ./cmd/tidegate-bgp
engine=(podman --root "$storage/root" --runroot "$storage/run" --storage-driver vfs --cgroup-manager cgroupfs)
"${engine[@]}" build --quiet --platform "linux/$arch" --format oci --timestamp "$SOURCE_DATE_EPOCH" --build-arg "VERSION=$version" \
    --tag "tidegate:$version" --file packaging/oci/Containerfile build/image >/dev/null
"${engine[@]}" save --quiet --format oci-archive --output "$out" "tidegate:$version"
echo "$out"
