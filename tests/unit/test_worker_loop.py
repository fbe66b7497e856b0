"""In which order a worker serves, takes and closes connections, and how long it waits (D105)."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.worker.shared import HELD_BYTES_MAX, SECOND_NS, Phase
from app.worker.worker import LINGER_SECONDS
from tests.unit.worker_server import (
    ANSWER,
    CONNECTIONS_MAX,
    FILE_REQUEST,
    LONG_REQUEST,
    MILLISECOND_NS,
    PATIENCE,
    REQUEST,
    Server,
    is_open,
    new_lobby,
    received,
)


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


def test_a_connection_that_moves_keeps_its_listener():
    """Another worker answers it with the environment of the same listener, too (D131)."""
    with ExitStack() as stack:
        lobby = new_lobby(stack, is_shared=True)
        one, other = (Server(stack, lobby, listeners=2) for _ in range(2))
        clients = [one.client(listener=number) for number in (1, 0)]
        for client in clients:
            one.take(client)
        one.shared.leave_idle_connections()
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
    (connection,) = server.loop.connections
    first_ns = connection.deadline_ns
    while connection.deadline_ns == first_ns:
        received(client)
        server.loop.turn()
    assert connection.deadline_ns <= server.shared.now_ns + PATIENCE.transfer_ns
    connection.deadline_ns = server.shared.now_ns
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


def test_all_who_were_left_are_answered_in_one_turn(servers):
    """Otherwise each would wait for another long request of a new connection (D106)."""
    left, taker = servers
    clients = [left.client() for _ in range(5)]
    for client in clients:
        left.take(client)
    left.loop.leave_idle()
    for client in clients:
        client.send(REQUEST)
    taker.loop.turn()
    assert [received(client) for client in clients] == [ANSWER] * 5


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
