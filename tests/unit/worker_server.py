"""A worker's loop in this process, and its clients."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from app.serve.http.context import Environ
from app.serve.http.unit import Unit
from app.serve.worker.answers import REST
from app.serve.worker.connection import SECOND_NS, Patience, Phase, Shared
from app.serve.worker.lobby import Lobby
from app.serve.worker.loop import Loop
from app.serve.worker.received import ReceivedRequests

QUICK = "/v1/vehicle/"
"""The beginning of paths whose requests are answered together."""
REQUEST = f"GET {QUICK} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
PATIENCE = Patience(idle_ns=30 * SECOND_NS, head_ns=10 * SECOND_NS, transfer_ns=30 * SECOND_NS)
CONNECTIONS_MAX = 100
LONG_REQUEST = REQUEST.replace(b"/ ", b"/long ")
FILE_REQUEST = REQUEST.replace(b"/ ", b"/file ")
LONG_ANSWER = ANSWER + b"x" * 1_000_000
MILLISECOND_NS = SECOND_NS // 1_000


Answer = Callable[[Environ, bool], tuple[bytes, bool]]


class Server:
    """A loop in this process, and the clients that connect to it.

    Args:
        answer: the application; by default one of short and long answers.
        look_every_seconds: how long a turn waits at most.
        listeners: how many addresses it has.
        unit: of requests that are answered together; by default one that records nothing.
    """

    def __init__(
        self,
        stack: ExitStack,
        lobby: Lobby,
        answer: Answer | None = None,
        look_every_seconds: float = 0.01,
        listeners: int = 1,
        unit: Unit[Any] | None = None,
    ) -> None:
        self._stack = stack
        self.rest: Iterator[bytes] | None = None
        """What follows the answer to FILE_REQUEST."""
        self.answered: list[Environ] = []
        self._listeners = [
            socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS_MAX)
            for _ in range(listeners)
        ]
        self._addresses = [each.getsockname() for each in self._listeners]
        self.shared = Shared(
            ReceivedRequests(answer or self._answer, unit or Unit(None)), PATIENCE, lobby
        )
        readable, writable = os.pipe()
        self.loop = Loop(
            self._listeners,
            readable,
            self.shared,
            [{"listener": number} for number in range(listeners)],
            connections_max=CONNECTIONS_MAX,
            look_every_seconds=look_every_seconds,
        )
        closers = [each.close for each in self._listeners]
        for close in (*closers, self.shared.epoll.close, self._close_all):
            stack.callback(close)
        for descriptor in (readable, writable):
            stack.callback(os.close, descriptor)

    def _answer(self, environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        self.answered.append(environ)
        environ[REST] = self.rest if environ["PATH_INFO"].endswith("/file") else None
        return LONG_ANSWER if environ["PATH_INFO"].endswith("/long") else ANSWER, is_last

    def _close_all(self) -> None:
        for connection in self.loop.connections:
            connection.close()

    def client(self, source: str = "127.0.0.1", listener: int = 0) -> socket.socket:
        """Connect to one of the listeners, from an address of this host."""
        client = self._stack.enter_context(socket.socket())
        client.bind((source, 0))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.connect(self._addresses[listener])
        client.setblocking(False)
        return client

    def turn(self) -> None:
        """Do what a worker does again and again."""
        self.loop.turn()
        if self.loop.is_time_to_look:
            self.loop.look()

    def phases(self) -> list[Phase]:
        """Return what the connections wait for."""
        return [connection.phase for connection in self.loop.connections]

    def take(self, client: socket.socket, request: bytes = REQUEST) -> None:
        """Let turns pass until the client is answered."""
        client.send(request)
        while not received(client):
            self.loop.turn()


def new_lobby(stack: ExitStack, *, is_shared: bool) -> Lobby:
    """Return a lobby that is closed with the stack."""
    lobby = Lobby(is_shared=is_shared)
    for end in (lobby._entrance, lobby._exit):
        stack.callback(end.close)
    return lobby


def received(client: socket.socket) -> bytes:
    """Return what a client has received; nothing if its connection is closed."""
    try:
        return client.recv(65_536)
    except BlockingIOError:
        return b""
    except ConnectionResetError:
        return b""


def is_open(client: socket.socket) -> bool:
    """Tell whether the server has not closed a connection on which it sends nothing."""
    try:
        client.recv(1)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    return False
