#!/bin/sh
# Version: mot-history-api-py-sdk==1.0.3
# Guess: get_vehicle_data, which takes "registration number or VIN", asks the DVSA for AB12CDE as a
#     registration: a VIN has 17 characters since 1981, a British plate at most 7.
# Behaviour: whatever has 5 to 17 letters and digits is asked for as a VIN. Only a plate with a
#     space in it, or with at most 4 characters, is asked for as a registration.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 77' HUP INT TERM
cd "$folder"
export HOME="$folder" TMPDIR="$folder" XDG_CACHE_HOME="$folder" XDG_CONFIG_HOME="$folder"
unset PYTHONPATH PYTHONHOME NODE_PATH NODE_OPTIONS
python3 -m venv venv || exit 77
timeout 100 venv/bin/pip -qq --no-cache-dir install \
    mot-history-api-py-sdk==1.0.3 || exit 77

saw=$(venv/bin/python <<'PROGRAM'
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import motapi
from motapi.motdata import MOTHistoryAPI


class Agency(BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "GET":
            print(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"access_token": "sample"}')

    do_GET = do_POST = answer
    log_message = lambda *_: None


agency = HTTPServer(("127.0.0.1", 0), Agency)
threading.Thread(target=agency.serve_forever, daemon=True).start()
MOTHistoryAPI.BASE_URL = f"http://127.0.0.1:{agency.server_port}"
MOTHistoryAPI.TOKEN_URL = f"{MOTHistoryAPI.BASE_URL}/token"
client = motapi.MOTDataClient("id", "secret", "key")
for plate in ("AB12CDE", "AB12 CDE", "A1"):
    client.get_vehicle_data(plate)
PROGRAM
)
described='/vin/AB12CDE
/registration/AB12%20CDE
/registration/A1'
printf '%s\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
