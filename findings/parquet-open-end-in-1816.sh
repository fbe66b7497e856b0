#!/bin/sh
# Version: fastparquet==2026.9.0 pyarrow==26.0.1 pandas==3.1.1
# Guess: fastparquet reads the day 9999-12-31, the usual end of a policy without an end, or refuses
#     it. It wrote and reads 9999-12-31 as a time in microseconds.
# Behaviour: in a column of days, as pyarrow writes it, the day is read as 1816-03-29, without a
#     warning: all days are counted in nanoseconds since 1970, of which 64 bits hold 292 years.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    fastparquet==2026.9.0 pyarrow==26.0.1 pandas==3.1.1 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from datetime import date

import fastparquet
import pyarrow
from pyarrow import parquet

days = [date(2026, 3, 1), date(9999, 12, 31)]
parquet.write_table(pyarrow.table({"validTo": days}), "policies.parquet")
print("pyarrow    ", *parquet.read_table("policies.parquet")["validTo"].to_pylist())
frame = fastparquet.ParquetFile("policies.parquet").to_pandas()
print("fastparquet", *[each.date() for each in frame["validTo"]])
PROGRAM
)
described='pyarrow     2026-03-01 9999-12-31
fastparquet 2026-03-01 1816-03-29'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
