#!/bin/sh
# Version: FixedWidth==1.3
# Guess: where a day is not required and not given, FixedWidth writes blanks, and reads blanks as no
#     day. Lines of insurers have such blanks, for example if a vehicle leaves a fleet.
# Behaviour: it writes the blanks, and refuses to read them.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    FixedWidth==1.3 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from fixedwidth.fixedwidth import FixedWidth

left = {"alignment": "left", "padding": " "}
day = left | {"type": "date", "format": "%Y%m%d", "required": False}
layout = {
    "plate": left | {"type": "string", "required": True, "start_pos": 1, "length": 7},
    "until": day | {"start_pos": 8, "length": 8},
}
record = FixedWidth(layout)
record.update(plate="0042")
line = record.line
print(repr(line))
try:
    FixedWidth(layout).line = line
except ValueError as error:
    print("ValueError:", error)
PROGRAM
)
described="'0042           \\r\\n'
ValueError: time data '        ' does not match format '%Y%m%d'"
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
