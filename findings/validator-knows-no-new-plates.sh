#!/bin/sh
# Version: validator@13.15.35
# Guess: isLicensePlate accepts what the country that it is asked for has issued for years: Hungary
#     since July 2022 four letters and three digits, India since 2021 the series BH.
# Behaviour: it refuses both, and accepts the older ones. Swedish plates with a letter at the end,
#     new in 2019, are accepted.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
timeout 50 npm install --silent --no-audit --no-fund --ignore-scripts --cache npm \
    validator@13.15.35 || exit 77

saw=$(node <<'PROGRAM'
const { isLicensePlate } = require('validator')
for (const [locale, ...plates] of [
  ['hu-HU', 'ABC-123', 'AA AA-001', 'AAAA-001', 'AAAA001'],
  ['en-IN', 'MH 12 AB 1234', '22 BH 1234 AA', '22BH1234AA'],
  ['sv-SE', 'ABC 123', 'ABC 12D'],
]) {
  console.log(locale, plates.map(plate => `${plate}: ${isLicensePlate(plate, locale)}`).join(', '))
}
PROGRAM
)
described='hu-HU ABC-123: true, AA AA-001: false, AAAA-001: false, AAAA001: false
en-IN MH 12 AB 1234: true, 22 BH 1234 AA: false, 22BH1234AA: false
sv-SE ABC 123: true, ABC 12D: true'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
