#!/bin/sh
# Builds a release of the current commit into dist/: one archive with all that install.sh installs,
# wheel, sdist, client libraries, typed clients, and their checksums. See "Build a release" in ../docs/build.md.
#
#   release.sh BIN [KEY]
#
# BIN is the bin of the environment in which the binary is built, KEY a private key of ssh-keygen
# that signs the checksums, or a public one whose private key an agent has.
set -eu
umask 022
cd "$(dirname "$0")/../.."

say() { echo "make release: $*" >&2; }
fail() {
    say "$@"
    exit 1
}

key=${2:-}
[ -z "$key" ] || [ -f "$key" ] || fail "the key $key does not exist, or is not a file"
git rev-parse --quiet --verify HEAD >/dev/null || fail "this is no git checkout with a commit"
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed (git status)"
bin=$(readlink -f "$1")
version=$(sed -n 's/^VERSION = "\([^"]*\)".*/\1/p' app/version.py)
name=verifyd-$version-linux-$(uname -m)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C

# pack ARCHIVE DIRECTORY: the same files give the same bytes.
pack() {
    tar --create --directory "${2%/*}" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner "${2##*/}" | gzip --no-name >"$1"
}

# seal DIRECTORY FILE...: writes SHA256SUMS of the files, and its signature.
seal() {
    directory=$1
    shift
    (cd "$directory" && rm -f SHA256SUMS SHA256SUMS.sig && sha256sum -- "$@" >SHA256SUMS)
    [ -z "$key" ] || ssh-keygen -Y sign -q -n verifyd-release -f "$key" "$directory/SHA256SUMS"
}

# Only what is in the commit can get into the release.
work=$PWD/build/release
tree=$work/tree
rm -rf "$work"
mkdir -p "$tree"
git archive HEAD | tar --extract --directory "$tree" --no-same-owner --no-same-permissions

echo "Building wheel and sdist ..."
(cd "$tree" && "$bin/python" -c 'from setuptools import build_meta
build_meta.build_wheel("wheel"), build_meta.build_sdist("wheel")' >"$work/wheel.log" 2>&1) ||
    fail "wheel and sdist were not built; $work/wheel.log says why"
tar --extract --directory "$work" --file "$tree/wheel/verifyd-$version.tar.gz"

echo "Building the binary ..."
"$tree/deploy/binary/build.sh" "$bin"

# The archive is what the installer makes of the tree, so it has all that is installed.
"$tree/deploy/install.sh" --prefix "$work/root" >"$work/install.log" 2>&1 ||
    fail "the release was not laid out; $work/install.log says why"
mv "$work"/root/opt/verifyd/releases/* "$work/$name"
# shellcheck disable=SC2046 # names have no spaces
seal "$work/$name" $(cd "$work/$name" && find . -type f -printf '%P\n' | sort)

mkdir -p dist
cp "$tree/wheel/verifyd-$version-py3-none-any.whl" dist/
pack "dist/verifyd-$version.tar.gz" "$work/verifyd-$version"
pack "dist/$name.tar.gz" "$work/$name"
clients="verifyd.py verifyd.ts verifyd_typed.py verifyd_typed.ts"
for file in $clients; do cp "$tree/app/documentation/client-samples/$file" dist/; done
# shellcheck disable=SC2086 # names have no spaces
seal dist "$name.tar.gz" "verifyd-$version-py3-none-any.whl" "verifyd-$version.tar.gz" $clients
cat dist/SHA256SUMS
configured=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("CONFIG_ARGS"))')
for option in --enable-optimizations --with-lto; do
    case $configured in *"$option"*) ;; *) say "warning: this Python was built without $option" ;; esac
done
glibc=$(sed -n '/"verifyd:glibc"/{n;s/[^0-9.]//gp;}' "$work/$name/verifyd.cdx.json")
[ "${glibc#2.}" -le 34 ] || say "warning: the binary needs glibc $glibc, and RHEL 9 has 2.34"
if [ -n "$key" ]; then
    echo "The release $version of $(git rev-parse HEAD) is signed."
else
    echo "The release $version of $(git rev-parse HEAD) is not signed; SIGN_KEY=FILE signs it."
fi
