"""Answers of a turn are sent together, but not later than the turn, and none is lost."""

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import count

import pytest

from app import clock
from app.serve.http.context import REFUSAL, Environ
from app.serve.worker import connection as shared
from app.serve.worker import loop
from app.serve.worker.connection import Phase
from app.serve.worker.worker import LINGER_SECONDS
from tests.rows import each_row
from tests.unit.worker_server import (
    ANSWER,
    CONNECTIONS_MAX,
    LONG_REQUEST,
    QUICK,
    REQUEST,
    Server,
    new_lobby,
    received,
)

TURNS_MAX = 50_000


@pytest.fixture
def server() -> Iterator[Server]:
    """A loop without other workers."""
    with ExitStack() as stack:
        yield Server(stack, new_lobby(stack, is_shared=False))


def test_answers_of_a_turn_are_sent_before_a_long_request_begins(server):
    """Whoever comes together with a request that can take long does not wait for it."""
    long, quick = server.client(), server.client()
    for client in (long, quick):
        server.take(client)
    answered: list[bool] = []
    answer = server.shared.received.answer_request

    def answer_slowly(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        if environ["REQUEST_METHOD"] == "DELETE":
            answered.append(quick.recv(len(ANSWER)) == ANSWER)
        return answer(environ, is_last)

    server.shared.received.answer_request = answer_slowly
    quick.send(REQUEST)
    long.send(REQUEST.replace(b"GET", b"DELETE"))
    server.loop.turn()
    assert answered == [True]


@pytest.mark.system_long
def test_answers_of_a_turn_take_little_memory_until_they_are_sent(server):
    """Large answers are sent one by one."""
    clients = [server.client() for _ in range(CONNECTIONS_MAX)]
    for client in clients:
        server.take(client)
    unsent: list[int] = []
    answer = server.shared.received.answer_request

    def note(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        # Those that hold most memory are closed.
        closed = CONNECTIONS_MAX - len(server.loop.connections)
        unsent.append(len(unsent) - server.phases().count(Phase.WRITING) - closed)
        return answer(environ, is_last)

    server.shared.received.answer_request = note
    for client in clients:
        client.send(LONG_REQUEST)
    server.loop.turn()
    assert unsent == [0] * CONNECTIONS_MAX


def test_a_request_that_came_too_late_is_refused_at_once(server):
    """What arrives after the refusal is not answered, and not done."""
    client = server.client()
    client.send(REQUEST[:-2])
    server.loop.turn()
    answered: list[bool] = []
    answer = server.shared.received.answer_request

    def note(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        answered.append(REFUSAL not in environ)
        return answer(environ, is_last)

    server.shared.received.answer_request = note
    (connection,) = server.loop.connections
    connection.deadline_ns = server.shared.now_ns = clock.monotonic_ns()
    server.loop.look()
    assert received(client) == ANSWER
    client.send(REQUEST[-2:])
    server.loop.turn()
    assert answered == [False]


def test_a_request_that_was_left_is_answered_when_the_last_worker_stops():
    """Its client does not wait for another turn, in which more could arrive."""
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        left, last = Server(stack, lobby), Server(stack, lobby)
        client = left.client()
        left.loop.turn()
        client.send(REQUEST)
        left.loop.hand_over_idle()
        last.shared.now_ns = clock.monotonic_ns()
        last.loop.stop(LINGER_SECONDS, takes_waiting=True)
        assert received(client) == ANSWER


def test_an_answer_is_sent_to_a_connection_with_the_number_of_another():
    """A worker that takes a connection may have closed a ready one with the same descriptor."""
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        left, taker = Server(stack, lobby), Server(stack, lobby)
        ready, long, quick = taker.client(), left.client(), left.client()
        for server, client in ((taker, ready), (left, long), (left, quick)):
            server.take(client)
        ready.send(REQUEST)
        long.send(REQUEST.replace(b"GET", b"POST"))  # It makes its worker leave `ready`.
        quick.send(REQUEST)
        quick.shutdown(socket.SHUT_WR)
        left.loop.hand_over_idle()
        for client in (long, quick, ready):
            while not (answer := received(client)):
                taker.loop.turn()
            assert answer == ANSWER


def test_a_request_that_came_during_the_last_turn_is_answered(server):
    """A worker that ends without waiting for idle connections looks at each of them once more."""
    asking, idle = server.client(), server.client()
    for client in (asking, idle):
        server.take(client)
    asking.send(REQUEST)
    server.loop.stop(LINGER_SECONDS, takes_waiting=True)
    server.loop.close_idle()
    assert received(asking) == ANSWER
    assert server.phases() == [Phase.CLOSING]


def test_a_connection_is_not_closed_with_an_answer_to_be_sent(server):
    """A new client pushes out one that has its answer."""
    clients = [server.client() for _ in range(CONNECTIONS_MAX)]
    for client in clients:
        server.take(client)
    clients.append(server.client())
    for client in clients:
        client.send(REQUEST)
    server.loop.turn()
    assert [received(client) for client in clients] == [ANSWER] * len(clients)


def test_memory_of_answered_requests_is_not_freed_with_their_answers(server, monkeypatch):
    """A request whose answer waits needs no memory, and its connection stays open."""
    for module in (loop, shared):
        monkeypatch.setattr(module, "HELD_BYTES_MAX", 1_000)
    with_body = REQUEST[:-2] + b"Content-Length: 900\r\n\r\n" + b"x" * 900
    answered, incomplete = server.client(), server.client()
    for client in (answered, incomplete):
        server.take(client)
        client.send(with_body[:-100] if client is answered else with_body[:100])
        server.loop.turn()
    server.loop.turn()  # Nothing is left to do, so what comes now is read in its order.
    answered.send(with_body[-100:])
    incomplete.send(with_body[100:-100])
    server.loop.turn()
    assert received(answered) == ANSWER
    assert server.phases() == [Phase.IDLE, Phase.BODY]


@each_row("seed", range(8))
def test_each_client_gets_its_answers_once_and_in_order(seed):
    """Whatever the pieces in which requests come, and whichever worker takes them."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        servers = [Server(stack, lobby) for _ in range(2)]
        for server in servers:
            server.shared.received.answer_request = echo
        clients = [Pipeline(number, servers[number % 2].client(), chance) for number in range(16)]
        turns = count()
        while not all(client.is_done for client in clients):
            assert next(turns) < TURNS_MAX
            for client in chance.sample(clients, len(clients)):
                client.go_on()
            for server in servers:
                server.loop.turn()
            if chance.random() < 0.1:
                servers[0].loop.hand_over_idle()


def echo(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
    """Answer with the path, and as many bytes as the query says."""
    return environ["PATH_INFO"].encode() + b"x" * int(environ["QUERY_STRING"]), is_last


class Pipeline:
    """A client that sends requests in random pieces, without waiting for answers."""

    def __init__(self, number: int, client: socket.socket, chance: random.Random) -> None:
        self._client, self._chance = client, chance
        self._unsent = self._missing = b""
        for request in range(chance.randint(1, 12)):
            method = chance.choice(["GET", "POST"])
            path, size = f"{QUICK}{number}.{request}:", chance.choice([0, 10, 3_000, 200_000])
            body = b"y" * chance.choice([0, 1, 50, 20_000])
            head = f"{method} {path}?{size} HTTP/1.1\r\nHost: x\r\n"
            self._unsent += head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
            self._missing += path.encode() + b"x" * size

    @property
    def is_done(self) -> bool:
        """Whether all answers have come."""
        return not self._missing

    def go_on(self) -> None:
        """Send a piece, and check what has come meanwhile."""
        with suppress(BlockingIOError):
            piece = self._unsent[: self._chance.choice([1, 40, 1_000, 1_000_000])]
            self._unsent = self._unsent[self._client.send(piece) if piece else 0 :]
        came = received(self._client)
        assert self._missing.startswith(came)
        self._missing = self._missing[len(came) :]
