"""Each answer is sent once, in order, to its own client, whatever clients and workers do."""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import cycle
from typing import NamedTuple
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from app import clock
from app.serve.http.context import REFUSAL, Environ
from app.serve.worker.answers import REST
from app.serve.worker.connection import SECOND_NS
from app.serve.worker.worker import LINGER_SECONDS
from tests.unit.worker_server import QUICK, Server, new_lobby

WORKERS = 2
CLIENTS = 8
"""How many are open; new ones replace others."""
IDLE_TURNS_MAX = 50
"""How many turns may pass in which no client receives anything, although one should."""
_TICK_NS = SECOND_NS // 50_000
_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: close at once, and tell the other end."""


class Asked(NamedTuple):
    """A request."""

    method: str
    answer_bytes: int
    body_bytes: int
    kind: str
    """`file` has an answer in pieces, and `given up` ends the turn of its worker."""


REQUESTS = [
    Asked(method, answer_bytes, body_bytes, kind)
    for kind in (*["usual"] * 16, "file", "file", "last", "given up", "malformed")
    for body_bytes in (0, 20_000)
    for answer_bytes in (0, 0, 300_000)
    for method in ("GET", "POST")
]
# PERF: each value that is drawn takes longer than a turn.
PORTIONS = [
    (most, is_last) for most in (*[1_000_000] * 5, 0, 30, 5_000) for is_last in (False, True)
]
"""How many bytes are sent at once, and whether nothing follows them."""
CLIENT = st.integers(0, CLIENTS - 1)
WORKER = st.integers(0, WORKERS - 1)


class Client:
    """A connection, what was sent on it, and what was answered and received."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self._connection = connection
        self._asked: list[tuple[Asked, int]] = []
        """Each request, and where it ends in what is sent."""
        self._sent = 0
        self._unsent = b""
        self._answers: list[bytes] = []
        self._received = b""
        self._is_answered_last = False
        self.is_at_end = False
        self.is_sure = True
        """Whether all whole requests must be answered."""
        self.is_excused = False
        """Whether answers may be lost, because the client resets or does not read for long."""

    def ask(self, asked: Asked, most: int) -> None:
        """Send a request after the others, and no more than so many bytes now."""
        if not self.is_at_end:
            number = len(self._asked)
            line = f"{asked.method} {QUICK}{number} HTTP/1.1\r\nHost: x\r\n"
            if asked.kind == "malformed":
                line += "No colon\r\n"
            if asked.kind == "last":
                line += "Connection: close\r\n"
            head = f"{line}Content-Length: {asked.body_bytes}\r\n\r\n"
            self._unsent += head.encode() + self._body(number, asked.body_bytes)
            self._asked.append((asked, self._sent + len(self._unsent)))
            self.send(most)

    def _body(self, number: int, length: int) -> bytes:
        return (b"%d.%d," % (self.number, number) * length)[:length]

    def send(self, most: int) -> None:
        """Send more of the requests."""
        with suppress(OSError):
            sent = self._connection.send(self._unsent[:most]) if self._unsent else 0
            self._sent, self._unsent = self._sent + sent, self._unsent[sent:]

    def finish(self) -> None:
        """Tell the worker that nothing more follows."""
        self.is_at_end = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Go without reading the answers."""
        self.is_at_end = self.is_excused = True
        with suppress(OSError):  # Closed already.
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._connection.close()

    def read(self, most: int) -> int:
        """Read, and compare it with the answers; return how much came."""
        try:
            came = self._connection.recv(most)
        except OSError:
            came = b""
        self._received += came
        assert b"".join(self._answers).startswith(self._received)
        return len(came)

    def answered(self, environ: Environ, is_last: bool) -> tuple[bytes, Asked | None]:
        """Note an answer to this client; return it, and the request."""
        assert not self._is_answered_last
        self._is_answered_last = is_last
        number = len(self._answers)
        answer, asked = b"<%d.%d:" % (self.number, number), None
        if REFUSAL not in environ:
            asked, end = self._asked[number]
            assert environ["PATH_INFO"] == f"{QUICK}{number}"
            body = environ["wsgi.input"].read()
            assert body == self._body(number, asked.body_bytes)[: len(body)]
            assert len(body) == asked.body_bytes or self._sent < end
            answer += b"x" * asked.answer_bytes
        self._answers.append(answer + b">")
        return self._answers[-1], asked

    @property
    def has_all(self) -> bool:
        """Whether every answer was received, and every request answered if that is sure."""
        whole = sum(end <= self._sent for _, end in self._asked)
        is_answered = len(self._answers) >= whole or self._is_answered_last or not self.is_sure
        return self.is_excused or (is_answered and not self.unread_bytes)

    @property
    def unread_bytes(self) -> int:
        """How much of the answers was not received."""
        return sum(map(len, self._answers)) - len(self._received)


class Workers(RuleBasedStateMachine):
    """Two workers with the same lobby, and their clients, each with an address of its own.

    The clock goes on by itself only as fast as it is read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._now_ns = 0
        self._clients: list[Client] = []
        self._stopped: set[Server] = set()
        self._stack.enter_context(mock.patch.object(clock, "monotonic_ns", self._read_clock))
        lobby = new_lobby(self._stack, is_shared=True)
        self._servers = [
            Server(self._stack, lobby, self._answer, look_every_seconds=0) for _ in range(WORKERS)
        ]

    def _read_clock(self) -> int:
        self._now_ns += _TICK_NS
        return self._now_ns

    def _answer(self, environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        client = self._clients[int(environ["REMOTE_ADDR"].rpartition(".")[2])]
        answer, asked = client.answered(environ, is_last)
        if asked and asked.kind == "given up":
            for server in self._servers:
                server.loop.interrupt()
        if asked and asked.kind == "file":
            environ[REST] = pieces(answer[1:])
            answer = answer[:1]
        return answer, is_last

    def _connect(self, server: Server) -> Client:
        number = len(self._clients)
        self._clients.append(Client(number, server.client(f"127.0.1.{number}")))
        return self._clients[-1]

    def _open_clients(self) -> list[Client]:
        """Return the clients that can ask; new ones replace others as long as a worker accepts."""
        running = [server for server in self._servers if server not in self._stopped]
        found = [client for client in self._clients if not client.is_at_end]
        while running and len(found) < CLIENTS:
            server = running[len(found) % len(running)]
            found.append(self._connect(server))
            server.turn()
        return found

    def _client(self, number: int) -> Client:
        newest = self._clients[-CLIENTS:] or self._open_clients()
        return newest[number % len(newest)]

    @rule(
        asking=st.lists(
            st.tuples(st.sampled_from(REQUESTS), st.sampled_from(PORTIONS)), min_size=2, max_size=7
        ),
        left_by=st.sampled_from([None, *range(WORKERS)]),
    )
    def ask(self, asking: list[tuple[Asked, tuple[int, bool]]], left_by: int | None) -> None:
        """Clients send requests or parts of them; a worker may leave them to the next one."""
        for client, (asked, (most, is_last)) in zip(self._open_clients(), cycle(asking)):
            client.ask(asked, most)
            if is_last:
                client.finish()
        if left_by is not None:
            self._servers[left_by].loop.hand_over_idle()
            self._fill_gaps()
            self._servers[left_by - 1].turn()

    @rule(number=CLIENT, most=st.sampled_from([1, 3_000, 1_000_000]))
    def go_on(self, number: int, most: int) -> None:
        """A client reads and sends a part of what is left."""
        client = self._client(number)
        client.read(most)
        client.send(most)

    @rule(number=CLIENT)
    def reset(self, number: int) -> None:
        """A client goes without reading its answers."""
        self._client(number).reset()

    def _fill_gaps(self) -> None:
        """Use the descriptors that were freed: in another process they would not be free here."""
        last = max(map(int, os.listdir("/proc/self/fd")))
        descriptor = 0
        while descriptor < last:
            descriptor = os.open(os.devnull, os.O_RDONLY)
            self._stack.callback(os.close, descriptor)

    @rule(workers=st.lists(WORKER, min_size=1, max_size=3))
    def turn(self, workers: list[int]) -> None:
        """Workers have turns."""
        for worker in workers:
            self._servers[worker].turn()

    @precondition(lambda self: len(self._clients) >= 4 * CLIENTS)
    @rule(worker=WORKER, takes_waiting=st.booleans(), is_quick=st.booleans())
    def stop(self, worker: int, takes_waiting: bool, is_quick: bool) -> None:
        """A worker stops; the last one takes the connections that were left."""
        server = self._servers[worker]
        if server in self._stopped:
            return
        self._stopped.add(server)
        self._excuse()
        is_last = len(self._stopped) == WORKERS
        server.loop.stop(LINGER_SECONDS, takes_waiting=takes_waiting or is_last)
        if is_quick:
            server.loop.close_idle()

    @precondition(lambda self: len(self._clients) >= 2 * CLIENTS)
    @rule(seconds=st.sampled_from([3, 3, 3, 11, 31]))
    def wait(self, seconds: int) -> None:
        """Nothing happens for some time."""
        self._excuse()
        # NOTE: a longer time between two turns would not count.
        for server in self._servers * seconds:
            self._now_ns += SECOND_NS // WORKERS
            server.turn()

    def _excuse(self) -> None:
        """Let connections be closed, also those whose answers are not read."""
        for client in self._clients:
            client.is_sure = False
            client.is_excused |= client.unread_bytes > 0

    def teardown(self) -> None:
        """Let the workers and clients finish."""
        with self._stack:
            idle_turns = 0
            while not all(client.has_all for client in self._clients):
                assert idle_turns < IDLE_TURNS_MAX
                for server in self._servers:
                    server.turn()
                came = sum(client.read(1_000_000) for client in self._clients)
                idle_turns = 0 if came else idle_turns + 1


def pieces(answer: bytes) -> Iterator[bytes]:
    """Yield an answer in pieces."""
    for begin in range(0, len(answer), 100_000):
        yield answer[begin : begin + 100_000]


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(stateful_step_count=30)
