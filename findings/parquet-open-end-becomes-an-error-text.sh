#!/bin/sh
# Version: duckdb==2.0.1 pyarrow==26.0.1
# Guess: PyArrow refuses to write a day into CSV that it cannot read, as it refuses to make a Python
#     date of it. DuckDB has a day infinity, a usual end of a policy without an end, and Parquet has
#     none.
# Behaviour: DuckDB writes infinity as the last day that Parquet can count, and PyArrow writes the
#     text of an error into the cell, without an error: <value out of range: 2147483647>.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    duckdb==2.0.1 pyarrow==26.0.1 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
import duckdb
from pyarrow import csv, parquet

duckdb.sql("COPY (SELECT 'AB12CDE' AS plate, DATE 'infinity' AS until) TO 'policies.parquet'")
table = parquet.read_table("policies.parquet")
csv.write_csv(table, "policies.csv")
with open("policies.csv") as file:
    print(file.read(), end="")
try:
    table["until"].to_pylist()
except OverflowError:
    print("as a Python date: refused")
PROGRAM
)
described='"plate","until"
"AB12CDE",<value out of range: 2147483647>
as a Python date: refused'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
