#!/bin/sh
# Version: hijri-converter@1.1.1 hijridate==2.6.0 ummalqura==2.0.1
# Guess: converters of the calendar of Umm al-Qura, by which Saudi Arabia dates registrations and
#     policies, agree on the first day of each month from 1400 to 1499: it is computed in advance.
# Behaviour: two tables of it are in use. Of the 1,200 months three begin a day earlier or later:
#     one of 2006, one of 2063, and that of December 2024.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
timeout 50 npm install --silent --no-audit --no-fund --ignore-scripts --cache npm \
    hijri-converter@1.1.1 || exit 77
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    hijridate==2.6.0 ummalqura==2.0.1 || exit 77

node >npm.json <<'PROGRAM'
const { toGregorian } = require('hijri-converter')
const days = []
for (let year = 1400; year < 1500; year++) {
  for (let month = 1; month <= 12; month++) {
    const { gy, gm, gd } = toGregorian(year, month, 1)
    days.push([year, month, gy, gm, gd])
  }
}
console.log(JSON.stringify(days))
PROGRAM
saw=$(venv/bin/python <<'PROGRAM'
import json
from datetime import date

from hijridate import Hijri
from ummalqura.hijri_date import HijriDate

with open("npm.json") as file:
    months = json.load(file)
for year, month, *day in months:
    other = HijriDate(year, month, 1)
    days = {
        "hijridate": Hijri(year, month, 1).to_gregorian(),
        "ummalqura": date(other.year_gr, other.month_gr, other.day_gr),
        "hijri-converter": date(*day),
    }
    if len({each.isoformat() for each in days.values()}) > 1:
        told = [f"{name} {each.isoformat()}" for name, each in days.items()]
        print(f"{year}-{month:02}-01:", *told)
PROGRAM
)
described='1427-06-01: hijridate 2006-06-27 ummalqura 2006-06-26 hijri-converter 2006-06-26
1446-06-01: hijridate 2024-12-02 ummalqura 2024-12-03 hijri-converter 2024-12-03
1485-10-01: hijridate 2063-01-30 ummalqura 2063-01-31 hijri-converter 2063-01-31'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
