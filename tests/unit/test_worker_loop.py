"""In which order a worker serves, takes and closes connections, and how long it waits."""

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import copy
from itertools import count

import pytest

from app import clock
from app.serve.http.context import Environ
from app.serve.worker import connection
from app.serve.worker.connection import HELD_BYTES_MAX, SECOND_NS, Phase
from app.serve.worker.worker import LINGER_SECONDS, connections_max
from tests.unit.worker_server import (
    ANSWER,
    CONNECTIONS_MAX,
    FILE_REQUEST,
    LONG_ANSWER,
    LONG_REQUEST,
    MILLISECOND_NS,
    PATIENCE,
    REQUEST,
    Server,
    is_open,
    new_lobby,
    received,
)

MALFORMED = b"GET / HTTP/1.1\r\n\r\n"


@pytest.fixture
def server() -> Iterator[Server]:
    """A loop without other workers."""
    with ExitStack() as stack:
        yield Server(stack, new_lobby(stack, is_shared=False))


@pytest.fixture
def later(server, monkeypatch) -> Callable[[int], None]:
    """Let seconds pass at once, and then the worker have a turn."""
    now_ns = clock.monotonic_ns()
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns)

    def go_on(seconds: int) -> None:
        nonlocal now_ns
        now_ns += seconds * SECOND_NS
        server.turn()

    return go_on


def test_a_busy_worker_takes_as_many_new_connections_as_it_serves(server, monkeypatch):
    """New clients do not wait for as many turns as there are new clients."""
    now_ns = clock.monotonic_ns()
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns)
    kept = [server.client() for _ in range(40)]
    for client in kept:
        server.take(client)
    new = [server.client() for _ in range(40)]
    for client in kept + new:
        client.send(REQUEST)
    server.loop.turn()
    assert [received(client) for client in kept + new] == [ANSWER] * 80


def test_a_worker_accepts_for_a_short_time(server, monkeypatch):
    """A burst of new clients does not keep those waiting that are connected."""
    kept = [server.client() for _ in range(20)]
    for client in kept:
        server.take(client)
    for client in [server.client() for _ in range(20)] + kept:
        client.send(REQUEST)
    reads = count(clock.monotonic_ns(), MILLISECOND_NS)
    monkeypatch.setattr(clock, "monotonic_ns", lambda: next(reads))
    server.loop.turn()
    assert 1 <= len(server.loop.connections) - len(kept) <= 5


def test_a_connection_that_moves_keeps_its_listener():
    """Another worker answers it with the environment of the same listener, too."""
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        one, other = (Server(stack, lobby, listeners=2) for _ in range(2))
        clients = [one.client(listener=number) for number in (1, 0)]
        for client in clients:
            one.take(client)
        one.shared.hand_over_idle()
        for client in clients:
            other.take(client)
        for server in (one, other):
            assert [each["listener"] for each in server.answered] == [1, 0]


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


@pytest.mark.parametrize("at_rest", [REQUEST, MALFORMED], ids=["idle", "closing"])
def test_a_connection_at_rest_is_pushed_out_first(server, at_rest):
    """One that is answered goes before those with a request, although they are older."""
    waiting = [server.client() for _ in range(CONNECTIONS_MAX - 1)]
    for client in waiting:
        client.send(REQUEST[:-2])
    while len(server.loop.connections) < len(waiting):
        server.turn()
    resting = server.client()
    server.take(resting, at_rest)
    server.take(server.client())
    assert [is_open(client) for client in (resting, *waiting)] == [False] + [True] * len(waiting)


def test_of_waiting_connections_the_oldest_is_pushed_out(server):
    """If all have begun a request, the client that has taken longest loses its connection."""
    waiting = [server.client() for _ in range(CONNECTIONS_MAX)]
    for client in waiting:
        server.take(client)
    for client in reversed(waiting):
        client.send(REQUEST[:-2])
        server.turn()
    server.take(server.client())
    assert [is_open(client) for client in waiting] == [True] * (CONNECTIONS_MAX - 1) + [False]


def test_a_refused_client_may_send_so_much_and_no_more(server, monkeypatch):
    """What follows a refusal is discarded up to a limit, so that the client can read it."""
    monkeypatch.setattr(connection, "DRAINED_BYTES_MAX", 1_000)
    client = server.client()
    server.take(client, MALFORMED)
    for length, phases in ((999, [Phase.CLOSING]), (1, [Phase.CLOSING]), (1, [])):
        client.send(bytes(length))
        server.turn()
        assert server.phases() == phases


def test_a_client_that_reads_slowly_has_as_much_time_as_one_that_does_not(server, later):
    """The answer must be read within the time, however often the client reads a part of it."""
    client = server.client()
    server.take(client, LONG_REQUEST)
    for _ in range(29):
        read_bytes = 0
        while read_bytes < 20_000:
            read_bytes += len(received(client))
        later(1)
    assert server.phases() == [Phase.WRITING]
    assert server.shared.held_bytes < len(LONG_ANSWER) // 2
    later(1)
    assert server.phases() == []


@pytest.mark.parametrize(
    ("seconds", "phases"),
    [([1] * 9, [Phase.HEAD]), ([1] * 10, [Phase.CLOSING]), ([60] + [1] * 9, [Phase.HEAD])],
    ids=["in time", "too late", "after a long answer"],
)
def test_clients_do_not_pay_for_a_long_answer(server, later, seconds, phases):
    """The time in which the worker could not read does not count."""
    server.client().send(REQUEST[:-2])
    while server.phases() != [Phase.HEAD]:
        server.turn()
    for passed in seconds:
        later(passed)
    assert server.phases() == phases


@pytest.mark.system_long
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
    """Connections that become idle when the worker already ends have as little time."""
    client = server.client()
    server.take(client, LONG_REQUEST)
    assert server.phases() == [Phase.WRITING]
    server.loop.stop(LINGER_SECONDS, takes_waiting=True)
    while server.phases() == [Phase.WRITING]:
        received(client)
        server.loop.turn()
    assert server.phases() == [Phase.IDLE]
    (connection,) = server.loop.connections
    assert connection.deadline_ns <= server.shared.now_ns + LINGER_SECONDS * SECOND_NS


def test_a_file_is_read_as_the_client_reads_it(server):
    """Of a large answer one piece is in memory, and the next request is answered after it."""
    piece, most = b"x" * 256 * 1024, 0
    server.rest = iter([piece] * 40)
    client = server.client()
    client.send(FILE_REQUEST + REQUEST)
    got = bytearray()
    while not got.endswith(ANSWER) or len(got) <= 2 * len(ANSWER):
        server.loop.turn()
        most = max(most, server.shared.held_bytes)
        got += received(client)
    assert got == ANSWER + piece * 40 + ANSWER
    assert most <= len(piece) + len(REQUEST)
    assert server.phases() == [Phase.IDLE]
    assert server.shared.held_bytes == 0


def test_each_piece_of_a_file_has_the_time_of_an_answer(server):
    """A client that reads nothing any more is not waited for; one that is only slow is."""
    server.rest = iter([b"x" * 1_000_000] * 3)
    client = server.client()
    server.take(client, FILE_REQUEST)
    (reading,) = server.loop.connections
    first_ns = reading.deadline_ns
    while reading.deadline_ns == first_ns:
        received(client)
        server.loop.turn()
    assert server.phases() == [Phase.WRITING]
    assert reading.deadline_ns == server.shared.now_ns + PATIENCE.transfer_ns
    reading.deadline_ns = server.shared.now_ns
    server.loop.look()
    assert server.phases() == []


def test_a_file_that_cannot_be_read_ends_the_connection(server):
    """The client notices, because the answer is shorter than it says; the file is closed."""

    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise OSError

    server.rest = pieces()
    client = server.client()
    server.take(client, FILE_REQUEST)
    while server.loop.connections:
        server.loop.turn()
    assert next(server.rest, None) is None


def test_a_worker_that_was_killed_no_longer_counts_as_waiting():
    """A connection is only left to workers that live; the next worker says when it waits."""
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        killed, next_one = copy(lobby), copy(lobby)  # As after a fork.
        lobby.enter(1)
        killed.enter(2)
        told = []
        for happens in (
            killed.wait,
            lambda: next_one.enter(3),
            next_one.wait,
            lobby.work,
            next_one.work,
        ):
            happens()
            told.append(lobby.is_one_waiting)
        assert told == [True, False, True, True, False]


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
    left.loop.hand_over_idle()
    taker.loop.turn()
    (connection,) = taker.loop.connections
    assert (connection.since_ns, connection.deadline_ns) == before
    assert left.loop.connections == []


def test_all_who_were_left_are_answered_in_one_turn(servers):
    """Otherwise each would wait for another long request of a new connection."""
    left, taker = servers
    clients = [left.client() for _ in range(5)]
    for client in clients:
        left.take(client)
    left.loop.hand_over_idle()
    for client in clients:
        client.send(REQUEST)
    taker.loop.turn()
    assert [received(client) for client in clients] == [ANSWER] * 5


def test_new_connections_do_not_wait_for_a_long_request_that_comes_with_them(servers):
    """Those that were accepted together are left to other workers before it begins."""
    worker, other = servers
    kept = [worker.client() for _ in range(3)]
    for client in kept:
        worker.take(client)
    for client in kept:
        client.send(REQUEST)
    long, *others = [worker.client() for _ in range(3)]
    answer, came = worker.shared.received.answer_request, list[bytes]()

    def answer_slowly(environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        if environ["REQUEST_METHOD"] == "POST":
            while not worker.shared.lobby.is_empty:
                other.loop.turn()
            came.extend(received(client) for client in others)
        return answer(environ, is_last)

    worker.shared.received.answer_request = answer_slowly
    for client in (long, *others):
        client.send(REQUEST if client in others else REQUEST.replace(b"GET", b"POST"))
    worker.loop.turn()
    assert came == [ANSWER] * 2
    assert received(long) == ANSWER


def test_connections_are_left_more_seldom_the_more_there_are(servers):
    """A worker with many short changes does not spend its time leaving connections."""
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


@pytest.mark.parametrize("files", [64, 256, 1_024, 2_128])
def test_each_connection_can_have_a_file_open(monkeypatch, files):
    """Clients that read files slowly, however many, leave others to be opened."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert 2 * connections_max(1_000) <= files - min(files // 3, 128)
