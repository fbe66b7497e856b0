#!/bin/sh
# Version: eu-licence-validator==0.1.27
# Guess: a validator of European plates knows those of the Netherlands, Sweden, Ireland and Hungary,
#     or says that it does not, with an error: its answer for a real plate is then no answer.
# Behaviour: it knows some countries, such as Germany. For all others each plate is invalid, also
#     for a country that does not exist.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    eu-licence-validator==0.1.27 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from eu_licence_validator import is_valid

for country, plate in (
    *(("DE", "B-XY 123"), ("NL", "VXJ-99-N"), ("SE", "ABC 123"), ("IE", "241-D-12345")),
    *(("HU", "ABC-123"), ("XX", "B-XY 123")),
):
    print(country, plate, is_valid(plate, country))
PROGRAM
)
described='DE B-XY 123 True
NL VXJ-99-N False
SE ABC 123 False
IE 241-D-12345 False
HU ABC-123 False
XX B-XY 123 False'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
