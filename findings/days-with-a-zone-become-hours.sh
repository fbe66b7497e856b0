#!/bin/sh
# Version: python-dateutil==4.0.0
# Guess: a day of XML Schema with a zone, as the Danish vehicle register writes it
#     (2027-05-13+02:00), is read as that day in that zone, like a time with a zone, or refused.
# Behaviour: isoparse takes the zone for a time of day, two or five o'clock, and gives no zone.
#     parse refuses most zones, but reads -05:00 as five o'clock, too.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    python-dateutil==4.0.0 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from dateutil import parser

for text in ("2027-05-13+02:00", "2027-05-13-05:00"):
    print(text)
    for read in (parser.isoparse, parser.parse):
        try:
            print(f"  {read.__name__:8}", read(text))
        except ValueError:
            print(f"  {read.__name__:8}", "refused")
PROGRAM
)
described='2027-05-13+02:00
  isoparse 2027-05-13 02:00:00
  parse    refused
2027-05-13-05:00
  isoparse 2027-05-13 05:00:00
  parse    2027-05-13 05:00:00'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
