#!/bin/sh
# Version: csvkit==2.2.0 agate==1.14.2 parsedatetime==2.6 pytimeparse==1.1.10
# Guess: csvsort sorts lines and leaves plates as they are. It may read digits as numbers, but
#     "MAY 123" and "12D3H" are neither numbers nor dates in any notation of the agencies.
# Behaviour: if every plate of a file begins with the name of a month, as "MAY 123", it becomes a
#     day and a time of day, in the year of the run or the next. "12D3H" becomes 12 days, 3 hours.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    csvkit==2.2.0 agate==1.14.2 parsedatetime==2.6 pytimeparse==1.1.10 || exit 77

printf 'plate,line\nMAY 123,1\nJUN 12,2\n' >months.csv
printf 'plate,line\n12D3H,1\n9D2H,2\n' >days.csv
saw=$(for file in months.csv days.csv; do
    venv/bin/csvsort -c line "$file" | tail -n +2
done | sed -E 's/20[0-9]{2}-/YEAR-/')
described='YEAR-05-01T01:23:00,1
YEAR-06-12T00:00:00,2
"12 days, 3:00:00",1
"9 days, 2:00:00",2'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
