#!/bin/sh
# Version: csvkit==2.2.0 agate==1.14.2 agate-dbf==0.2.4 dbfread==2.0.7 dbf==0.97.11
# Guess: in2csv keeps the plate NULL of a dBASE file. The file says itself that the column is text,
#     so nothing has to be guessed; and if it were, --blanks and --no-inference switch that off.
# Behaviour: the plate is empty, also with both options.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    csvkit==2.2.0 agate==1.14.2 agate-dbf==0.2.4 dbfread==2.0.7 dbf==0.97.11 || exit 77

venv/bin/python <<'PROGRAM'
import dbf

register = dbf.Table("register.dbf", "plate C(8); line N(2,0)", codepage="cp1252")
register.open(dbf.READ_WRITE)
for line, plate in enumerate(["0042", "NULL", "AB12CDE"]):
    register.append((plate, line))
register.close()
PROGRAM
saw=$(venv/bin/in2csv register.dbf && venv/bin/in2csv --blanks --no-inference register.dbf)
described='PLATE,LINE
0042,0
,1
AB12CDE,2
PLATE,LINE
0042,0
,1
AB12CDE,2'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
