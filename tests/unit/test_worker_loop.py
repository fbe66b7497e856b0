"""In which order a worker serves, takes and closes connections, and how long it waits (D105)."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.worker.head import Environ
from app.worker.lobby import Lobby
from app.worker.loop import HELD_BYTES_MAX, Loop
from app.worker.shared import SECOND_NS, Patience, Phase, Shared
from app.worker.worker import LINGER_SECONDS

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
PATIENCE = Patience(idle_ns=30 * SECOND_NS, head_ns=10 * SECOND_NS, transfer_ns=30 * SECOND_NS)
CONNECTIONS_MAX = 50
LONG_REQUEST = REQUEST.replace(b"/", b"/long", 1)
LONG_ANSWER = ANSWER + b"x" * 1_000_000
MILLISECOND_NS = SECOND_NS // 1_000


class Server:
    """A loop in this process, and the clients that connect to it."""

    def __init__(self, stack: ExitStack, lobby: Lobby) -> None:
        self._stack = stack
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS_MAX)
        self._address = self._listener.getsockname()
        self.shared = Shared(self._answer, PATIENCE, lobby)
        readable, writable = os.pipe()
        self.loop = Loop(
            [self._listener],
            readable,
            self.shared,
            {"wsgi.url_scheme": "http"},
            connections_max=CONNECTIONS_MAX,
            look_every_seconds=0.01,
        )
        for close in (self._listener.close, self.shared.epoll.close, self._close_all):
            stack.callback(close)
        for descriptor in (readable, writable):
            stack.callback(os.close, descriptor)

    def _answer(self, environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        return LONG_ANSWER if environ["PATH_INFO"] == "/long" else ANSWER, is_last

    def _close_all(self) -> None:
        for connection in self.loop.connections:
            connection.close()

    def client(self) -> socket.socket:
        """Connect."""
        client = self._stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(self._address)
        client.setblocking(False)
        return client

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


@pytest.fixture
def server() -> Iterator[Server]:
    """A loop without other workers."""
    with ExitStack() as stack:
        yield Server(stack, new_lobby(stack, is_shared=False))


def test_a_busy_worker_takes_several_new_connections_in_a_turn(server):
    """New clients do not wait for as many turns as there are new clients."""
    kept = [server.client() for _ in range(20)]
    for client in kept:
        server.take(client)
    new = [server.client() for _ in range(20)]
    for client in kept + new:
        client.send(REQUEST)
    server.loop.turn()
    assert [received(client) for client in kept + new] == [ANSWER] * 40


def test_a_worker_that_serves_nobody_takes_one_new_connection(server):
    """Others of those that come together are for workers that are idle, too."""
    for _ in range(5):
        server.client()
    server.loop.turn()
    assert len(server.loop.connections) == 1


def test_the_connection_that_was_idle_longest_is_pushed_out(server):
    """A client that has just connected is not, although it has less time for its request."""
    kept = [server.client() for _ in range(CONNECTIONS_MAX - 1)]
    for client in reversed(kept):
        server.take(client)
    new = server.client()
    while len(server.loop.connections) < CONNECTIONS_MAX:
        server.loop.turn()
    server.take(server.client())
    assert [is_open(client) for client in (*kept, new)] == [True] * (len(kept) - 1) + [False, True]


def test_requests_that_wait_for_their_turn_hold_no_more_memory(server):
    """Long answers to pipelined requests are limited within one turn, too."""
    clients = [server.client() for _ in range(CONNECTIONS_MAX)]
    for client in clients:
        server.take(client)
    for client in clients:
        client.send(REQUEST + LONG_REQUEST)
    for _ in range(2):
        server.loop.turn()
    assert server.shared.held_bytes <= HELD_BYTES_MAX
    assert len(server.loop.connections) < CONNECTIONS_MAX


def test_a_client_that_reads_its_answer_after_the_stop_is_not_waited_for_longer(server):
    """Connections that become idle when the worker already ends have as little time (D107)."""
    client = server.client()
    server.take(client, LONG_REQUEST)
    assert server.phases() == [Phase.WRITING]
    server.loop.stop(LINGER_SECONDS, takes_left=True)
    while server.phases() == [Phase.WRITING]:
        received(client)
        server.loop.turn()
    assert server.phases() == [Phase.IDLE]
    (connection,) = server.loop.connections
    assert connection.deadline_ns <= server.shared.now_ns + LINGER_SECONDS * SECOND_NS


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """Two workers with the same lobby."""
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        yield Server(stack, lobby), Server(stack, lobby)


def test_a_connection_that_is_left_has_no_more_time(servers):
    """Another worker closes it when the first one would have done so."""
    left, taker = servers
    left.client()
    left.loop.turn()
    (connection,) = left.loop.connections
    before = connection.since_ns, connection.deadline_ns
    left.loop.leave_idle()
    taker.loop.turn()
    (connection,) = taker.loop.connections
    assert (connection.since_ns, connection.deadline_ns) == before
    assert left.loop.connections == []


def test_connections_are_left_more_seldom_the_more_there_are(servers):
    """A worker with many short changes does not spend its time leaving connections (D106)."""
    worker, other = servers

    def kept() -> int:
        worker.shared.make_way()
        while not worker.shared.lobby.is_empty:
            other.loop.turn()
        return len(worker.loop.connections)

    for _ in range(10):
        worker.take(worker.client())
    first_ns = worker.shared.now_ns
    assert kept() == 0
    for _ in range(3):
        worker.take(worker.client())
    worker.shared.now_ns = first_ns + 10 * MILLISECOND_NS - 1
    assert kept() == 3
    worker.shared.now_ns += 1
    assert kept() == 0


def test_answers_of_a_turn_are_sent_before_a_long_request_begins(server):
    """Whoever comes together with a request that can take long does not wait for it."""
    long, quick = server.client(), server.client()
    for client in (long, quick):
        server.take(client)
    answered: list[bool] = []
    answer = server.shared.answer

    def answer_slowly(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        if environ["REQUEST_METHOD"] == "DELETE":
            answered.append(quick.recv(len(ANSWER)) == ANSWER)
        return answer(environ, is_last)

    server.shared.answer = answer_slowly
    quick.send(REQUEST)
    long.send(REQUEST.replace(b"GET", b"DELETE"))
    server.loop.turn()
    assert answered == [True]


def test_answers_of_a_turn_take_little_memory_until_they_are_sent(server):
    """Large answers are sent one by one."""
    clients = [server.client() for _ in range(CONNECTIONS_MAX)]
    for client in clients:
        server.take(client)
    unsent: list[int] = []
    answer = server.shared.answer

    def note(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        unsent.append(sum(each.phase is Phase.ANSWER for each in server.loop.connections))
        return answer(environ, is_last)

    server.shared.answer = note
    for client in clients:
        client.send(LONG_REQUEST)
    server.loop.turn()
    assert max(unsent) == 1
