#!/bin/sh
# Version: apsw==3.54.1.0
# Guess: a forked process that closes what it inherits, and opens a SQLite file itself, can read it
#     whatever its parent has open. "How To Corrupt An SQLite Database File" asks no more: any
#     connection that a child uses must be opened in the child.
# Behaviour: if the parent has a connection to the same file in WAL mode, the child's new connection
#     sets its locks on the parent's descriptor of the -shm file, which is closed. It waits for ten
#     seconds and fails with "locking protocol", although nobody writes. If the parent closes its
#     connection before the fork, the child reads.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    apsw==3.54.1.0 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
import os

import apsw


def count():
    connection = apsw.Connection("register.db")
    ((rows,),) = connection.execute("SELECT count(*) FROM vehicle")
    return connection, rows


def in_child():
    child = os.fork()
    if not child:
        os.closerange(3, 100)
        try:
            told = f"{count()[1]} row"
        except apsw.ProtocolError as error:
            told = str(error)
        os.write(1, f"{told}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)


connection = apsw.Connection("register.db")
for statement in (
    "PRAGMA journal_mode = wal",
    "CREATE TABLE vehicle (plate TEXT)",
    "INSERT INTO vehicle VALUES ('AB12CDE')",
):
    connection.execute(statement).fetchall()
in_child()
connection.close()
in_child()
PROGRAM
)
described='locking protocol
1 row'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
