#!/bin/sh
# Version: dbf-to-sqlite==0.1 dbf==0.97.11 dbfread==2.0.7
# Guess: dbf-to-sqlite leaves out the rows that a dBASE file marks as deleted, as dbfread and in2csv
#     do. A deleted row is one that the program of the file no longer shows.
# Behaviour: they are in the table, like all others. Texts keep their trailing blanks.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    dbf-to-sqlite==0.1 dbf==0.97.11 dbfread==2.0.7 || exit 77

venv/bin/python <<'PROGRAM'
import dbf

register = dbf.Table("register.dbf", "plate C(8)", codepage="cp1252")
register.open(dbf.READ_WRITE)
for plate in ("AB12CDE", "0042"):
    register.append((plate,))
dbf.delete(register[0])
register.close()
PROGRAM
venv/bin/dbf-to-sqlite register.dbf register.db
saw=$(venv/bin/python <<'PROGRAM'
import sqlite3

import dbfread

print("dbfread:", *[row["PLATE"] for row in dbfread.DBF("register.dbf")])
print("dbf-to-sqlite:", *sqlite3.connect("register.db").execute("SELECT plate FROM register"))
PROGRAM
)
described="dbfread: 0042
dbf-to-sqlite: ('AB12CDE ',) ('0042    ',)"
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
