#!/bin/sh
# Version: msgspec==0.22.0
# Guess: msgspec cuts a time to microseconds, as datetime.fromisoformat does. A .NET program writes
#     the end of a day with seven digits, 23:59:59.9999999, and its greatest time is such an end.
# Behaviour: msgspec rounds, so the end of a day, and of a year, is read as the beginning of the
#     next. The greatest time of .NET is refused.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    msgspec==0.22.0 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from datetime import datetime

import msgspec

for text in ("2026-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"):
    print("datetime", datetime.fromisoformat(text))
    try:
        print("msgspec ", msgspec.json.decode(f'"{text}"', type=datetime))
    except msgspec.ValidationError as error:
        print("msgspec ", error)
PROGRAM
)
described='datetime 2026-12-31 23:59:59.999999+00:00
msgspec  2027-01-01 00:00:00+00:00
datetime 9999-12-31 23:59:59.999999+00:00
msgspec  Invalid RFC3339 encoded datetime'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
