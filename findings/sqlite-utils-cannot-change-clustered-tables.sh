#!/bin/sh
# Version: sqlite-utils==4.2.1
# Guess: transform of sqlite-utils, which rebuilds a table with the same rows to change a column,
#     keeps a table WITHOUT ROWID as it is, or says that it cannot. It knows such tables: use_rowid
#     is false.
# Behaviour: it asks for the rowid that such a table does not have. With a key of text it fails,
#     whatever is to be changed. With an INTEGER PRIMARY KEY it works, and WITHOUT ROWID is lost.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    sqlite-utils==4.2.1 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
import sqlite3

import sqlite_utils

for kind, key in (("TEXT", "AB12CDE"), ("INTEGER", 42)):
    database = sqlite_utils.Database(memory=True)
    database.execute(f"CREATE TABLE plates (key {kind} PRIMARY KEY, n INTEGER) WITHOUT ROWID")
    table = database["plates"]
    table.insert({"key": key, "n": 1})
    print(kind, "key, use_rowid:", table.use_rowid)
    try:
        table.transform(rename={"n": "number"})
    except sqlite3.DatabaseError:
        print("  failed")
    else:
        print("  done, WITHOUT ROWID:", "WITHOUT ROWID" in table.schema.upper())
PROGRAM
)
described='TEXT key, use_rowid: False
  failed
INTEGER key, use_rowid: False
  done, WITHOUT ROWID: False'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
