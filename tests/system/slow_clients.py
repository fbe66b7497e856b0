"""Clients without a key that write and read as slowly as they are allowed.

`python -m tests.system.slow_clients ADDRESS:PORT` holds a thousand of them until its stdin ends.
"""

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from app.documentation.resources import ASSETS
from tests.system.http2 import Http2
from tests.system.processes import connected

CLIENTS, ADDRESSES = 1_000, 100
LONG_ANSWER = f"/docs/{ASSETS['swagger-ui-bundle.js'].served_name}"
_FILES = 8_192
SlowClient = Callable[[ExitStack, str, str], None]


def hold(stack: ExitStack, bind: str, client: SlowClient, clients: int = CLIENTS) -> None:
    """Open so many connections from a hundred addresses, until the stack closes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, _FILES), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    sources = [f"127.0.1.{number % ADDRESSES + 1}" for number in range(clients)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(partial(client, stack, bind), sources))


def slow_header(stack: ExitStack, bind: str, source: str) -> None:
    """Send nearly all of a header of the maximum length."""
    connection = stack.enter_context(connected(bind, source=source))
    connection.sendall(
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 8_000 + b"\r\nY: " + b"a" * 7_000
    )


def slow_body(stack: ExitStack, bind: str, source: str) -> None:
    """Send a body without its last byte."""
    connection = stack.enter_context(connected(bind, source=source))
    head = b"POST /v1/vehicle/bulk-insurance HTTP/1.1\r\nHost: x\r\nContent-Length: 150000\r\n\r\n"
    connection.sendall(head + b"x" * 149_999)


def slow_reader(stack: ExitStack, bind: str, source: str) -> None:
    """Request 1.5 MB, and do not read them."""
    connection = stack.enter_context(connected(bind, source=source))
    connection.sendall(f"GET {LONG_ANSWER} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def slow_body_over_http_2(stack: ExitStack, bind: str, source: str) -> None:
    """Send the longest frame of a body that continues."""
    client = stack.enter_context(Http2(bind, source=source))
    client.request("POST", "/v1/vehicle/bulk-insurance", body=b"x" * 16_384, length=150_000)


def slow_reader_over_http_2(stack: ExitStack, bind: str, source: str) -> None:
    """Request 1.5 MB, and allow the server to send none of it."""
    stack.enter_context(Http2(bind, source=source, window=0)).request("GET", LONG_ANSWER)


def every_stream_over_http_2(stack: ExitStack, bind: str, source: str) -> None:
    """Open as many requests as one connection may have, and allow the server to answer none."""
    client = stack.enter_context(Http2(bind, source=source, window=0))
    for _ in range(client.streams_max):
        client.request("GET", LONG_ANSWER)
    client.wait_until_read()


if __name__ == "__main__":
    with ExitStack() as held:
        hold(held, sys.argv[1], slow_body)
        sys.stdin.read()
