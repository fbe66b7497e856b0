"""The least that gunicorn can do: one fixed answer, and one log line."""

import json
import os

BODY = json.dumps(
    {
        "registration": "AB12CDE",
        "insured": True,
        "policy": {
            "number": "LG09677401",
            "insurer": "Larkmere General",
            "validFrom": "2026-08-05",
            "validTo": "2027-08-04",
            "type": "comprehensive",
        },
        "vehicle": {"make": "Ford", "model": "Focus", "year": 2012, "color": "Blue"},
        "lastUpdated": "2026-07-29T09:00:00Z",
    },
    separators=(",", ":"),
).encode()
HEADERS = [("Content-Type", "application/json"), ("Content-Length", str(len(BODY)))]
LINE = b'{"event":"request","method":"%s","status":200}\n'


def app(environ, start_response):
    os.write(1, LINE % environ["REQUEST_METHOD"].encode())
    start_response("200 OK", HEADERS)
    return [BODY]
