#!/bin/sh
# Version: duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
# Guess: a column of plates such as 12E345 is read as text: 12 times ten to the power of 345 is no
#     number that a double can hold, and DuckDB reads even 0042 as text, so as not to lose zeros.
# Behaviour: all three read numbers. Every plate with an exponent over 308 becomes the same value,
#     inf, so two vehicles have one key.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1 || exit 77

printf 'plate,line\n12E345,1\n99E999,2\n' >exponents.csv
printf 'plate,line\n0042,1\n0043,2\n' >zeros.csv
saw=$(venv/bin/python <<'PROGRAM'
import duckdb
import polars
import pyarrow.csv

for name in ("exponents.csv", "zeros.csv"):
    print(name)
    print("  duckdb ", *[row[0] for row in duckdb.sql(f"FROM '{name}'").fetchall()])
    print("  polars ", *polars.read_csv(name)["plate"])
    print("  pyarrow", *pyarrow.csv.read_csv(name)["plate"].to_pylist())
PROGRAM
)
described='exponents.csv
  duckdb  inf inf
  polars  inf inf
  pyarrow inf inf
zeros.csv
  duckdb  0042 0043
  polars  42 43
  pyarrow 42 43'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
