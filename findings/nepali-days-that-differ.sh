#!/bin/sh
# Version: nepali-datetime==1.0.8.5 bikram==2.1.4 nepali==1.2.0 pyBSDate==0.3.2
# Guess: converters of the Nepali calendar (Bikram Sambat), in which Nepal dates registrations and
#     their renewal, agree to the day on years of which a calendar was printed, such as 2063, 2082.
# Behaviour: pyBSDate is a year early in all of 2063, and the four differ by a day in 2062 and 2082.
#     For 2084, the year after this one, nepali is a day late in seven months. Months have 29 to 32
#     days, as a table says, and each package has its own table.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    nepali-datetime==1.0.8.5 bikram==2.1.4 nepali==1.2.0 pyBSDate==0.3.2 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
from datetime import date

import bikram
import nepali_datetime
from nepali.date_converter import converter
from pyBSDate import bsdate

for year, month in ((2063, 1), (2063, 12), (2062, 2), (2082, 2), (2084, 3), (2084, 10)):
    print(f"{year}-{month:02}-01")
    print("  nepali-datetime", nepali_datetime.date(year, month, 1).to_datetime_date())
    print("  bikram         ", bikram.samwat(year, month, 1).ad)
    print("  nepali         ", date(*converter.nepali_to_english(year, month, 1)))
    print("  pyBSDate       ", bsdate(year, month, 1).addate)
PROGRAM
)
described='2063-01-01
  nepali-datetime 2006-04-14
  bikram          2006-04-14
  nepali          2006-04-14
  pyBSDate        2005-04-14
2063-12-01
  nepali-datetime 2007-03-15
  bikram          2007-03-15
  nepali          2007-03-15
  pyBSDate        2006-03-15
2062-02-01
  nepali-datetime 2005-05-15
  bikram          2005-05-15
  nepali          2005-05-14
  pyBSDate        2005-05-14
2082-02-01
  nepali-datetime 2025-05-15
  bikram          2025-05-14
  nepali          2025-05-15
  pyBSDate        2025-05-15
2084-03-01
  nepali-datetime 2027-06-15
  bikram          2027-06-15
  nepali          2027-06-16
  pyBSDate        2027-06-15
2084-10-01
  nepali-datetime 2028-01-14
  bikram          2028-01-14
  nepali          2028-01-15
  pyBSDate        2028-01-14'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
