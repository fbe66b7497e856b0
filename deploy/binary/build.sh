#!/bin/sh
# Builds dist/verifyd with PyInstaller, its SBOM and licences, in the environment whose bin is $1.
# The same commit gives the same bytes, as long as interpreter and system libraries are the same.
set -eu
cd "$(dirname "$0")/../.."

# The commit as app/version.py tells it: `git archive` has written it already, else git knows.
mkdir -p build
if grep -q '^\$' app/commit.txt; then
    commit="$(git describe --always --match '' --abbrev=40 --dirty) $(git log -1 --format=%ct)"
else
    commit=$(cat app/commit.txt)
fi
echo "$commit" >build/commit.txt
SOURCE_DATE_EPOCH=${commit#* }
export SOURCE_DATE_EPOCH PYTHONHASHSEED=0

"$1/python" -m PyInstaller --clean --noconfirm --log-level WARN deploy/binary/verifyd.spec
"$1/python" deploy/binary/describe.py
ls -l dist/verifyd
