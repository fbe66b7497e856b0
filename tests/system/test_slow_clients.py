"""Clients that are slow, idle or in a hurry hold up nobody else, even at a single worker."""

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import apsw
import pytest

from app.serve.worker.connection import HELD_BYTES_MAX
from tests.bench.processes import cpu_seconds
from tests.system.processes import DEADLINE_SECONDS, SERVE, Service, connected, read_answer, until
from tests.system.slow_clients import CLIENTS, LONG_ANSWER, hold
from tests.system.test_raw_requests import split

HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/vehicle/bulk-insurance HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
PROMPT_SECONDS = 1
PIPELINED = 10_000
BULK_CLIENTS, BULKS = 8, 30
MEBIBYTE = 1024 * 1024
READERS, REST_BYTES = 60, 270_000
_RECEIVED_BYTES = 4_096


def idle(_connection: socket.socket) -> None:
    """Send nothing."""


def half_a_request(connection: socket.socket) -> None:
    """Send a head without its end."""
    connection.sendall(HEAD + b"X: ")


def a_slow_body(connection: socket.socket) -> None:
    """Send a body without its last byte."""
    connection.sendall(POST % 10_000 + b"x" * 9_999)


def a_slow_chunk(connection: socket.socket) -> None:
    """Send a part of a chunked body."""
    head = POST.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
    connection.sendall(head + b"10000\r\nx")


def a_slow_reader(connection: socket.socket) -> None:
    """Request 1.5 MB, and do not read them."""
    connection.sendall(f"GET {LONG_ANSWER} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def a_slow_pipeline(connection: socket.socket) -> None:
    """Send requests as long as the service reads them, and read no answer."""
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            connection.send((HEAD + b"\r\n") * 1_000)


EVERY_CLIENT = pytest.mark.parametrize(
    "client", [idle, half_a_request, a_slow_body, a_slow_chunk, a_slow_reader, a_slow_pipeline]
)


@pytest.fixture
def single(serve) -> Service:
    """A service with one worker, whom everybody who holds up others would hold up."""
    return serve(workers=1, anonymous_limit=1_000_000)


def require_prompt(service: Service) -> None:
    """Fail unless the service answers others soon."""
    for _ in range(10):
        began = time.monotonic()
        assert service.get("/api/domains").status == 200
        assert time.monotonic() - began < PROMPT_SECONDS


def open_connection(bind: str) -> socket.socket:
    """Return a connection that receives little before it is read."""
    host, _, port = bind.rpartition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
    connection.connect((host, int(port)))
    return connection


@EVERY_CLIENT
def test_a_slow_client_holds_up_nobody(single, client: Callable[[socket.socket], None]):
    """A worker with ten slow clients answers others as soon as without."""
    with ExitStack() as stack:
        for _ in range(10):
            client(stack.enter_context(open_connection(single.bind)))
        require_prompt(single)


@pytest.mark.parametrize(
    "client", [idle, pytest.param(half_a_request, marks=pytest.mark.system_long)]
)
def test_too_many_connections_push_out_the_oldest(single, client: Callable[[socket.socket], None]):
    """More connections than a worker keeps open lock out nobody."""

    def slow(stack: ExitStack, bind: str, source: str) -> None:
        client(stack.enter_context(connected(bind, source=source)))

    with ExitStack() as stack:
        hold(stack, single.bind, slow, CLIENTS + 200)
        require_prompt(single)
        (worker,) = single.workers()
        assert len(list(Path(f"/proc/{worker}/fd").iterdir())) < CLIENTS + 100


@pytest.mark.sample
@pytest.mark.system_long
@pytest.mark.parametrize("files", [256, 64])
def test_few_descriptors_are_enough(serve, files):
    """A worker that may open few files keeps fewer connections, but those of a proxy."""
    limited = ("sh", "-c", f'ulimit -n {files} && exec "$@"', "sh")
    service = serve(workers=1, command=(*limited, *SERVE))
    with ExitStack() as stack:
        kept = [stack.enter_context(connected(service.bind)) for _ in range(16)]
        for _ in range(2):
            for connection in kept:
                connection.sendall(HEAD + b"\r\n")
                assert read_answer(connection).status == 200
        for _ in range(300):
            stack.enter_context(connected(service.bind))
        require_prompt(service)


@pytest.mark.system_long
def test_slow_clients_hold_little_memory(single):
    """Bodies and answers that wait for clients are limited together, whoever sends them."""
    (worker,) = single.workers()
    require_prompt(single)
    before = memory_bytes(worker)
    with ExitStack() as stack:
        for number in range(100):
            connection = stack.enter_context(open_connection(single.bind))
            connection.settimeout(10)
            with suppress(OSError):  # The service pushed it out.
                if number % 2:
                    a_slow_reader(connection)
                else:
                    connection.sendall(POST % MEBIBYTE + b"x" * (MEBIBYTE - 1))
        require_prompt(single)
        assert memory_bytes(worker) - before < HELD_BYTES_MAX * 2


@pytest.mark.system_long
def test_a_rest_of_an_answer_holds_little_memory(single):
    """An answer of which a client has read the most takes no more memory than what is left."""
    (worker,) = single.workers()
    length = len(single.get(LONG_ANSWER).body)
    before = memory_bytes(worker)
    with ExitStack() as stack:
        for _ in range(READERS):
            connection = stack.enter_context(open_connection(single.bind))
            connection.settimeout(10)
            a_slow_reader(connection)
            received = 0
            while received < length - REST_BYTES:
                received += len(connection.recv(65_536))
        assert memory_bytes(worker) - before < HELD_BYTES_MAX
    assert READERS * length > HELD_BYTES_MAX * 2


def test_clients_that_hold_much_are_pushed_out_first(single):
    """If slow clients hold too much memory, one whose head comes in two pieces does not suffer."""
    with ExitStack() as stack:
        others = stack.enter_context(closing(select.epoll()))
        small = stack.enter_context(connected(single.bind))
        small.sendall(HEAD)
        for _ in range(HELD_BYTES_MAX // MEBIBYTE + 2):
            connection = stack.enter_context(connected(single.bind))
            connection.sendall(POST % MEBIBYTE + b"x" * (MEBIBYTE - 1))
            others.register(connection, select.EPOLLIN)
        until(lambda: others.poll(0), "a connection to be pushed out")
        small.sendall(b"\r\n")
        assert read_answer(small).status == 200


def memory_bytes(pid: int) -> int:
    """Return the memory of a process that is its own."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(int(line.split()[1]) for line in text.splitlines() if "Private" in line)


def test_idle_connections_do_not_wait_for_a_busy_worker(serve, world):
    """While a worker waits for SQLite's lock, another answers on the connections that it had."""
    service = serve()
    writer = apsw.Connection(str(world.database))
    writer.execute("BEGIN IMMEDIATE")
    creation = b"POST /api/domains HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    creation += b"X-API-Key: %b\r\nContent-Length: 19\r\n\r\n" % service.key.encode()
    with ExitStack() as stack:
        stack.callback(writer.close)
        kept = [stack.enter_context(connected(service.bind)) for _ in range(20)]
        for connection in kept:
            connection.sendall(HEAD + b"\r\n")
            assert read_answer(connection).status == 200
        kept[0].sendall(creation + b'{"name": "a.examp"}')
        for connection in kept[1:]:
            began = time.monotonic()
            connection.sendall(HEAD + b"\r\n")
            assert read_answer(connection).status == 200
            assert time.monotonic() - began < PROMPT_SECONDS
        writer.execute("ROLLBACK")
        assert read_answer(kept[0]).status == 201


@pytest.mark.system_long  # How evenly depends on what else runs.
def test_clients_of_long_requests_take_turns(serve):
    """Of clients that send one bulk after the other, none waits while others get many answers."""
    service = serve()
    body = b'{"registrations": [%b]}' % b", ".join(b'"A%d"' % n for n in range(500))
    head = POST % len(body)
    head = head[:-2] + b"Content-Type: application/json\r\nX-API-Key: %b\r\n\r\n"
    request = head % service.key.encode() + body
    answered: Counter[int] = Counter()
    all_connected, is_over = threading.Barrier(BULK_CLIENTS), threading.Event()

    def ask(number: int) -> None:
        with connected(service.bind) as connection:
            connection.sendall(HEAD + b"\r\n")
            assert read_answer(connection).status == 200
            all_connected.wait(DEADLINE_SECONDS)
            while not is_over.is_set():
                connection.sendall(request)
                assert read_answer(connection).status == 200
                answered[number] += 1
                if answered[number] == BULKS:
                    is_over.set()

    with ThreadPoolExecutor(BULK_CLIENTS) as clients:
        list(clients.map(ask, range(BULK_CLIENTS)))
    assert min(answered[number] for number in range(BULK_CLIENTS)) > BULKS / 6


@pytest.mark.system_long
def test_pipelined_requests_are_answered_in_order(single):
    """Ten thousand requests sent at once get as many answers, and others are answered meanwhile."""
    request = f"GET /api/domains HTTP/1.1\r\nHost: x\r\nX-API-Key: {single.key}\r\n\r\n"
    numbered = [request.replace("domains", f"domains/d{n}.example") for n in range(PIPELINED)]
    with connected(single.bind) as connection, ExitStack() as stack:
        stack.enter_context(ThreadPoolExecutor(1)).submit(
            connection.sendall, "".join(numbered).encode()
        )
        received = b""
        while received.count(b"HTTP/1.1 ") < 100:
            received += connection.recv(65_536)
        require_prompt(single)
        while received.count(b"HTTP/1.1 ") < PIPELINED:
            received += connection.recv(65_536)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65_536):
            received += part
    answers = split(received)
    assert len(answers) == PIPELINED
    assert {answer.status for answer in answers} <= {404, 429}


def test_a_connection_answers_many_requests(single):
    """A client can keep its connection, and sends the next request after each answer."""
    with connected(single.bind) as connection:
        for number in range(100):
            connection.sendall(HEAD + b"\r\n")
            answer = read_answer(connection)
            assert (answer.status, answer.headers["Connection"]) == (200, "keep-alive"), number
        connection.sendall(HEAD + b"Connection: close\r\n\r\n")
        assert read_answer(connection).headers["Connection"] == "close"
        assert connection.recv(1) == b""


def test_a_request_may_come_byte_by_byte(single):
    """A request is one, however it is cut into pieces."""
    body = b'{"name": "example.com"}'
    request = b"POST /api/domains HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    request += b"X-API-Key: %b\r\nContent-Length: %d\r\n\r\n%b"
    with connected(single.bind) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request % (single.key.encode(), len(body), body):
            connection.sendall(bytes([byte]))
        assert read_answer(connection).status == 201


def test_a_worker_that_waits_costs_nothing(single):
    """Idle connections, and clients that close only their side, make no worker busy."""
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(connected(single.bind))
            connection.sendall(HEAD + b"\r\n")
            read_answer(connection)
        closed = stack.enter_context(connected(single.bind))
        closed.sendall(HEAD + b"X: ")
        closed.shutdown(socket.SHUT_WR)
        assert closed.recv(1) == b""
        (worker,) = single.workers()
        before = cpu_seconds(worker)
        ends_at = time.monotonic() + 2
        until(lambda: time.monotonic() > ends_at, "two seconds to pass")
        assert cpu_seconds(worker) - before < 0.1
