"""A server that answers each request as a script says: wrongly, late, in part, or not at all."""

import json
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from email.message import Message
from email.utils import formatdate
from http import HTTPStatus
from http.client import parse_headers
from typing import NamedTuple, Self

HTML = b"<html><h1>502 Bad Gateway</h1></html>"
CLOSED = "closed"
RESET = "reset"
SILENT = "silent"
Step = bytes | str
"""The bytes of an answer; or close the connection, reset it, or say nothing."""


def answer(status: int, body: object = None, **headers: str) -> bytes:
    """Return an answer: JSON, a text of HTML, or no body.

    Args:
        headers: with underscores instead of hyphens.
    """
    kind = "text/html" if isinstance(body, bytes) else "application/json"
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Date": formatdate(usegmt=True), "Connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    if status != 204:
        named |= {"Content-Type": kind, "Content-Length": str(len(content))}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in named.items()]
    head = "\r\n".join([*lines, "", ""]).encode()
    return head if status == 204 else head + content


class Request(NamedTuple):
    """A request that arrived."""

    method: str
    path: str
    headers: Message
    body: object


class Scripted:
    """Listens on a port; the first segment of a path says which script is to be followed.

    Args:
        scripts: for each first segment, what is done with its requests, one after the other.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Step]]) -> None:
        self._scripts = {name: iter(steps) for name, steps in scripts.items()}
        self.seen: dict[str, list[Request]] = {name: [] for name in scripts}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._silent: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._silent:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer one request, then close the connection."""
        with connection.makefile("rb") as reader:
            line = reader.readline().decode()
            headers = parse_headers(reader)
            body = reader.read(int(headers.get("Content-Length", 0)))
        if not line:  # Node opens connections in advance.
            connection.close()
            return
        method, target, _ = line.split()
        _, name, path = target.split("/", 2)
        sent = json.loads(body) if body else None
        self.seen[name].append(Request(method, f"/{path}", headers, sent))
        step = next(self._scripts[name])
        if step == SILENT:
            self._silent.append(connection)
            return
        if step == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if isinstance(step, bytes):
            connection.sendall(step)
        connection.close()
