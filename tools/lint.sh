#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/lint.sh   golangci-lint and shellcheck over the whole tree (make lint). Installs what this
# machine lacks: shellcheck through apt (root), golangci-lint into build/tools with the Go command,
# which takes some minutes once. Changes nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v2.15.0
tools/deps.sh lint
mapfile -t scripts < <(git ls-files '*.sh' .ci/run test/run test/soak/run test/kernel/run test/packages/run)
shellcheck -S warning "${scripts[@]}"
GO=$(tools/go.sh)
PATH=$(dirname "$GO"):$PATH
export PATH GOTOOLCHAIN=auto
linter=$PWD/build/tools/golangci-lint-$version
if [ ! -x "$linter" ]; then
    echo "lint: building golangci-lint $version"
    GOBIN=$PWD/build/tools "$GO" install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
    mv build/tools/golangci-lint "$linter"
fi
"$linter" run ./...
echo "lint: ok"
