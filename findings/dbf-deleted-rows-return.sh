#!/bin/sh
# Version: dbf-to-sqlite==0.1 dbf==0.97.11 dbfread==2.0.7
# Guess: dbf-to-sqlite leaves out the rows that a dBASE file marks as deleted, as dbfread and in2csv
#     do. A deleted row is one that the program of the file no longer shows.
# Behaviour: they are in the table, like all others. Texts keep their trailing blanks.
# shellcheck source=/dev/null
. "${0%/*}/prelude"
need_python dbf-to-sqlite==0.1 dbf==0.97.11 dbfread==2.0.7

python <<'PROGRAM'
import dbf

register = dbf.Table("register.dbf", "plate C(8)", codepage="cp1252")
register.open(dbf.READ_WRITE)
for plate in ("AB12CDE", "0042"):
    register.append((plate,))
dbf.delete(register[0])
register.close()
PROGRAM
venv/bin/dbf-to-sqlite register.dbf register.db
saw=$(python <<'PROGRAM'
import sqlite3

import dbfread

print("dbfread:", *[row["PLATE"] for row in dbfread.DBF("register.dbf")])
print("dbf-to-sqlite:", *sqlite3.connect("register.db").execute("SELECT plate FROM register"))
PROGRAM
)
compare "$saw" "dbfread: 0042
dbf-to-sqlite: ('AB12CDE ',) ('0042    ',)"
