"""Workers: slow requests are answered, and no worker outlives its master (D45)."""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import apsw
import pytest

from app.documentation.resources import ASSETS
from tests.system.processes import GUNICORN, Service, connected, lives, read_answer, until
from tests.system.slow_clients import LONG_ANSWER

IMPATIENT = (*GUNICORN[:-1], "--timeout", "1", GUNICORN[-1])
LAST_SECONDS_MAX = 1
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = (
    "POST /api/domains HTTP/1.1\r\nHost: x\r\n"
    "Content-Type: application/json\r\nX-API-Key: {key}\r\n"
)
BODY = b'{"name": "example.com"}'
BEGUN = {
    "a body that is read": "Content-Length: 100\r\n\r\n{",
    "a body that is too large": "Content-Length: 2000000\r\n\r\n{",
    "a chunked body": "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "a head": "X-",
}


def begin(service: Service, rest: str) -> socket.socket:
    """Send a part of a request."""
    connection = connected(service.bind)
    connection.sendall((HEAD.format(key=service.key) + rest).encode())
    return connection


@pytest.mark.parametrize("begun", BEGUN)
def test_a_slow_request_is_refused(serve, begun):
    """A request that does not arrive in time gets 400, and occupies nobody."""
    service = serve(command=IMPATIENT, workers=1)
    workers = service.workers()
    with begin(service, BEGUN[begun]) as connection:
        assert service.get("/api/domains").json() == {"domains": []}
        answer = read_answer(connection)
    assert (answer.status, answer.json()["code"]) == (400, "invalid_request")
    if begun != "a chunked body":  # It is refused at once.
        assert answer.json()["detail"] == "The request did not arrive in time."
    assert service.workers() == workers
    told = [line for line in service.lines("stdout") if line["status"] == 400]
    assert [line["request_id"] for line in told] == [answer.headers["X-Request-ID"]]


def test_an_answer_that_nobody_reads_is_cut_off(serve, world):
    """A client that reads too slowly loses its connection, and nothing else is sent to it."""
    service = serve(command=IMPATIENT, workers=1)
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, _, port = service.bind.rpartition(":")
        connection.connect((host, int(port)))
        connection.sendall(f"GET {LONG_ANSWER} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        until(lambda: is_established(connection), "the request to arrive")
        until(lambda: not is_established(connection), "the worker to close the connection")
        received = b""
        connection.settimeout(10)
        with suppress(OSError):
            while part := connection.recv(65_536):
                received += part
    assert received.startswith(b"HTTP/1.1 200 ")
    assert received.count(b"HTTP/1.1 ") == 1
    assert len(received) < len(ASSETS["swagger-ui-bundle.js"].file.read_bytes())


def is_established(connection: socket.socket) -> bool:
    """Tell whether the server still has its end of a connection (proc(5), /proc/net/tcp)."""
    own = f":{connection.getsockname()[1]:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return any(row[2].endswith(own) and row[3] == "01" for row in rows)


SLOW_APPLICATION = (*IMPATIENT[:-1], "tests.system.slow_application:create_app()")


def test_a_request_that_takes_too_long_gets_the_common_error_body(serve):
    """The answer is a 500 in the log, and another worker continues, also for idle clients (D45)."""
    service = serve(command=SLOW_APPLICATION, workers=1)
    (worker,) = service.workers()
    with connected(service.bind) as idle_connection:
        idle_connection.sendall(REQUEST)
        assert read_answer(idle_connection).status == 200
        answer = service.get("/nothing?slowly")
        idle_connection.sendall(REQUEST)
        assert read_answer(idle_connection).headers["Connection"] == "keep-alive"
    assert (answer.status, answer.json()["code"]) == (500, "internal_error")
    assert answer.json()["request_id"] == answer.headers["X-Request-ID"]
    until(lambda: service.workers() not in ([worker], []), "another worker")
    assert service.get("/api/domains").json() == {"domains": []}
    assert "Traceback" not in service.output("stderr")
    assert "X-RateLimit-Limit" in answer.headers
    told = [line for line in service.lines("stdout") if line["status"] == 500]
    assert [line["request_id"] for line in told] == [answer.json()["request_id"]]
    (stack,) = [line["stack"] for line in service.lines("stderr") if "stack" in line]
    assert any("slow_application.py" in frame for frame in stack)


LATE_WORKERS = (*GUNICORN[:-2], "python:tests.system.late_workers", GUNICORN[-1])


def test_a_worker_that_has_just_been_forked_is_ended(serve):
    """A signal that comes before a worker can handle it is not lost."""
    service = serve(command=LATE_WORKERS, workers=2)
    service.process.terminate()
    assert service.wait() == 0


BATCH = 8


def test_the_time_limit_is_that_of_each_request(serve):
    """Requests that come together are answered, although together they take too long (D45)."""
    service = serve(command=SLOW_APPLICATION, workers=1)
    workers = service.workers()
    with ExitStack() as stack:
        kept = [stack.enter_context(connected(service.bind)) for _ in range(BATCH)]
        for query in (b"", b"?briefly"):
            for connection in kept:
                connection.sendall(REQUEST.replace(b"/healthz", b"/healthz" + query))
            assert [read_answer(connection).status for connection in kept] == [200] * BATCH
    assert service.workers() == workers


def test_a_request_that_was_given_up_costs_no_other(serve):
    """Requests that came together with one that takes too long are left to the next worker."""
    service = serve(command=SLOW_APPLICATION, workers=1)
    (worker,) = service.workers()
    queries = [b"?briefly", b"?slowly"] + [b"?briefly"] * BATCH
    with ExitStack() as stack:
        kept = [stack.enter_context(connected(service.bind)) for _ in queries]
        for connection in kept:
            connection.sendall(REQUEST)
            assert read_answer(connection).status == 200
        os.kill(worker, signal.SIGSTOP)
        for connection, query in zip(kept, queries, strict=True):
            connection.sendall(REQUEST.replace(b"/healthz", b"/healthz" + query))
        os.kill(worker, signal.SIGCONT)
        answers = [read_answer(connection) for connection in kept]
    assert [answer.status for answer in answers] == [200, 500] + [200] * BATCH
    assert {answer.headers["Connection"] for answer in answers[2:]} == {"keep-alive"}


def idle(_service: Service, _database: Path) -> Callable[[], object]:
    """No request."""
    return lambda: None


def reading(service: Service, _database: Path) -> Callable[[], object]:
    """A request whose body does not come."""
    return begin(service, BEGUN["a body that is read"]).close


def draining(service: Service, _database: Path) -> Callable[[], object]:
    """A request with a discarded, endless body."""
    return begin(service, BEGUN["a chunked body"]).close


def waiting(service: Service, database: Path) -> Callable[[], object]:
    """A request that waits for SQLite's lock, where Python handles no signals."""
    writer = apsw.Connection(str(database))
    writer.execute("BEGIN IMMEDIATE")
    connection = begin(service, f"Content-Length: {len(BODY)}\r\n\r\n{BODY.decode()}")

    def end() -> None:
        connection.close()
        writer.close()

    return end


@pytest.mark.parametrize("state", [idle, reading, draining, waiting])
def test_workers_end_within_a_second_of_their_master(serve, world, state):
    """Workers end whatever they are doing."""
    service = serve()
    workers = service.workers()
    end = state(service, world.database)
    try:
        # Connections are accepted in order, so a worker now has the first one.
        assert service.get("/healthz").status == 200
        service.process.kill()
        service.process.wait()
        killed_at = time.monotonic()
        until(lambda: not any(map(lives, workers)), "the workers to end")
        assert time.monotonic() - killed_at < LAST_SECONDS_MAX
    finally:
        end()


def test_the_next_server_is_not_refused_for_the_last_ones_workers(serve):
    """The server gets the address, although a killed master had a request in flight."""
    service = serve()
    with begin(service, BEGUN["a body that is read"]):
        assert service.get("/healthz").status == 200
        service.process.kill()
        service.process.wait()
        assert serve(bind=service.bind).get("/api/domains").json() == {"domains": []}


def test_an_answer_that_is_soon_done_still_goes_out(serve):
    """A request in flight is answered although its master was killed."""
    service = serve(workers=1)
    with begin(
        service, f"Expect: 100-continue\r\nContent-Length: {len(BODY)}\r\n\r\n"
    ) as connection:
        assert connection.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        service.process.kill()
        service.process.wait()
        connection.sendall(BODY)
        assert read_answer(connection).status == 201


def test_a_worker_without_a_master_does_not_begin(serve):
    """A worker whose master ends during its start ends, too."""
    service = serve()
    before = set(service.workers())
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    new = until(lambda: set(service.workers()) - before, "a new worker")
    service.process.kill()
    service.process.wait()
    until(lambda: not any(map(lives, new)), "the new worker to end", seconds=3)
