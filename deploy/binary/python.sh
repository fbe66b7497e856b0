#!/bin/sh
# Builds the Python of a release: a shared library, with PGO and LTO, that needs glibc 2.34 only.
#
#   python.sh SOURCE PREFIX
#
# SOURCE is an unpacked source of CPython 3.11 or newer. Build it on Debian 12, the oldest system
# with all libraries that are still maintained, with build-essential and the -dev packages of bz2,
# ffi, lzma, sqlite3, ssl, uuid and zlib. It takes 20 minutes.
set -eu
mkdir -p "$2"
prefix=$(readlink -f "$2")
cd "$1"

# glibc 2.35 has a new version of hypot, the only newer symbol that CPython takes from Debian 12.
# This object, linked into libpython, takes the former version.
cat >"$prefix/hypot.c" <<END
double former(double, double);
__asm__(".symver former, hypot@GLIBC_2.2.5");
__attribute__((visibility("hidden"))) double hypot(double x, double y) { return former(x, y); }
END
gcc -O2 -fPIC -fno-builtin -c "$prefix/hypot.c" -o "$prefix/hypot.o"

./configure --quiet --prefix="$prefix" --with-ensurepip=install --enable-shared \
    --enable-optimizations --with-lto --with-libm="$prefix/hypot.o -lm" \
    LDFLAGS="-Wl,-rpath,$prefix/lib"
make --jobs "$(nproc)" --silent
make --silent install
"$prefix/bin/python3" --version
