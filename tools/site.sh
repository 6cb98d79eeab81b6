#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tools/site.sh   builds the site from docs/ into build/site. Warnings are errors. MkDocs comes from PyPI into build/site-tools.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/site-tools wanted=tools/site/requirements.txt
if ! cmp -s "$wanted" "$tools/installed" 2>/dev/null; then
    rm -rf "$tools"
    python3 -m venv "$tools" || { echo "site: python3 cannot make a virtual environment; install python3-venv" >&2; exit 1; }
    "$tools/bin/pip" install -q --disable-pip-version-check -r "$wanted" ||
        { echo "site: pip could not install what $wanted names; is PyPI reachable?" >&2; exit 1; }
    cp "$wanted" "$tools/installed"
fi
export NO_MKDOCS_2_WARNING=1
log=$(mktemp)
trap 'rm -rf "$log" build/site-canary' EXIT
build() { # CONFIGURATION: without --quiet, which would hide the warnings from --strict, too
    "$tools/bin/mkdocs" build --strict -f "$1" >"$log" 2>&1
}

# The canary: a page with a broken link must not build.
rm -rf build/site-canary
mkdir -p build/site-canary/docs
echo '[broken](nowhere.md)' >build/site-canary/docs/index.md
printf 'site_name: canary\nstrict: true\nvalidation: {unrecognized_links: warn}\n' >build/site-canary/mkdocs.yml
if build build/site-canary/mkdocs.yml || ! grep -q nowhere.md "$log"; then
    echo "site: the canary was built: broken links are not noticed" >&2
    exit 1
fi
build mkdocs.yml || { grep -v '^INFO' "$log" >&2; exit 1; }
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages"
