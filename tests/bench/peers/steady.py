"""Look-ups at a fixed rate, however long the answers take (an open loop).

A request is measured from the moment it was due, so that waiting for others counts.
"""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Sequence

from tests.system.processes import connected

_CLIENTS = 32
_HEAD_END = b"\r\n\r\n"


class _Client:
    """One connection, kept open for as long as the server keeps it."""

    def __init__(self, bind: str, key: str) -> None:
        self._bind = bind
        self._head = f"HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {key}\r\n\r\n"
        self._connection: socket.socket | None = None

    def get(self, path: str) -> None:
        """Send a request and read its answer. Raises RuntimeError unless it is a success."""
        request = f"GET {path} {self._head}".encode()
        if self._connection is not None:
            try:
                self._exchange(self._connection, request)
            except ConnectionError:  # The server closed the idle connection.
                self.close()
            else:
                return
        self._connection = connected(self._bind)
        self._exchange(self._connection, request)

    def _exchange(self, connection: socket.socket, request: bytes) -> None:
        connection.sendall(request)
        data = b""
        while _HEAD_END not in data:
            data += _received(connection)
        head, _, body = data.partition(_HEAD_END)
        head = head.lower()
        if not head.startswith(b"http/1.1 200 "):
            raise RuntimeError(f"a look-up failed: {head.splitlines()[0].decode()}")
        left = int(head.partition(b"content-length:")[2].split()[0]) - len(body)
        while left > 0:
            left -= len(_received(connection))
        if b"\r\nconnection: close" in head:
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65_536)
    if not data:
        raise ConnectionResetError("the server closed the connection")
    return data


def ask_steadily(
    bind: str, key: str, paths: Sequence[str], rate: int, is_over: Callable[[], bool]
) -> list[float]:
    """Send so many requests a second until it is over.

    Returns the seconds that each took, sorted. Raises the first failure, if there was one.
    """
    numbers, times, failures = itertools.count(), list[float](), list[Exception]()
    started = time.monotonic()

    def run() -> None:
        client = _Client(bind, key)
        try:
            while not failures:
                number = next(numbers)
                due = started + number / rate
                time.sleep(max(due - time.monotonic(), 0))
                if is_over():
                    break
                client.get(paths[number % len(paths)])
                times.append(time.monotonic() - due)
        except Exception as error:
            failures.append(error)
        finally:
            client.close()

    threads = [threading.Thread(target=run) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sorted(times)


def percentile_ms(times: Sequence[float], part: float) -> float:
    """Return the time that this share of sorted times, 0 to 1, did not exceed, in milliseconds."""
    return times[min(int(len(times) * part), len(times) - 1)] * 1000
