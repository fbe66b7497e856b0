"""A proxy that answers as a later release would: its JSON objects have one more member."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.system.processes import send


class LaterRelease(ThreadingHTTPServer):
    """Passes requests on to a service, and adds a member to all objects of its answers."""

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.service = service
        self.bind = f"127.0.0.1:{self.server_port}"


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LaterRelease

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = dict(self.headers.items()) | {"Connection": "close"}
        answer = send(self.server.service, self.command, self.path, body=body, headers=headers)
        grown = answer.body
        if answer.media_type.endswith("json") and self.path != "/openapi.json" and grown:
            grown = json.dumps(_grown(answer.json())).encode()
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("connection", "content-length"):
                self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(grown)))
        self.end_headers()
        self.wfile.write(grown)

    do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815 - named by http.server

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _grown(value: Any) -> Any:
    if isinstance(value, list):
        return [_grown(each) for each in value]
    if isinstance(value, dict):
        return {name: _grown(each) for name, each in value.items()} | {"later": "unknown"}
    return value
