"""`verifyd serve` and gunicorn alone: HTTP, signals, and errors before a request."""

import fcntl
import os
import signal
import socket
from functools import partial

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.storage.registers import Register
from tests.conftest import SHARED
from tests.system.processes import (
    GUNICORN,
    SERVE,
    Answer,
    Service,
    connected,
    environment,
    free_port,
    read_answer,
    run_command,
    send,
    until,
)

CAR = {"registration": "AB12CDE", "make": "FORD", "motExpiry": "2099-01-31", "taxStatus": "taxed"}
POLICY = {
    "registration": "AB12CDE",
    "number": "P-1",
    "validFrom": "2026-01-01",
    "validTo": "2099-12-31",
}
ACCESS_MEMBERS = "time event request_id key method route status duration_ms".split()
MALFORMED = {
    "no request line": b"GARBAGE\r\n\r\n",
    "unknown version": b"GET / HTTP/9.9\r\n\r\n",
    "method in lower case": b"get / HTTP/1.1\r\n\r\n",
    "bytes beyond ASCII": "GET /é HTTP/1.1\r\n\r\n".encode(),
    "a NUL": b"GET /\x00 HTTP/1.1\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: x\n\n",
    "a handshake": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a header without colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "a space in a name": b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n",
    "too long a header": b"GET / HTTP/1.1\r\nX: " + b"a" * 9_000 + b"\r\n\r\n",
    "a huge header": b"GET / HTTP/1.1\r\nX: " + b"a" * 900_000 + b"\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 65 + b"\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "a negative length": b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\nx",
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx",
    "an unknown expectation": b"POST / HTTP/1.1\r\nExpect: tea\r\nContent-Length: 1\r\n\r\nx",
}

DROPPED = "verifyd_log_lines_dropped"


@pytest.fixture
def serve(serve):
    """Start every server with `python -m app serve`."""
    return partial(serve, command=SERVE)


def load_car(world) -> None:
    """Load a car that is insured and road-legal."""
    world.load([CAR])
    world.load([POLICY])


def in_flight(service: Service, name: str) -> tuple[socket.socket, bytes]:
    """Begin a request, and return when a worker waits for its body."""
    body = b'{"name": "%s"}' % name.encode()
    head = (
        "POST /api/domains HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {service.key}\r\nExpect: 100-continue\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = connected(service.bind)
    connection.sendall(head.encode())
    assert connection.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return connection, body


def finished(connection: socket.socket, body: bytes) -> Answer:
    """Send the body of a request in flight, and return its answer."""
    with connection:
        connection.sendall(body)
        return read_answer(connection)


def require_problem(answer: Answer, status: int, code: str) -> None:
    """Fail unless an answer has the common error body (D5)."""
    assert (answer.status, answer.media_type) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["code"]) == (status, code)
    assert answer.json()["request_id"] == answer.headers["X-Request-ID"]


@pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
def test_all_six_operations_answer_over_http(serve, world, command):
    """`verifyd serve`, and gunicorn with our settings, answer all operations."""
    load_car(world)
    service = serve(command=command)
    created = service.post("/api/domains", {"name": "example.com"})
    assert created.status == 201
    assert service.get(created.headers["Location"]).json() == created.json()
    assert service.get("/api/domains").json() == {"domains": [created.json()]}
    assert service.get("/v1/vehicle/AB12CDE/insurance").json()["insured"] is True
    bulk = service.post("/v1/vehicle/bulk-insurance", {"registrations": ["AB12CDE", "X1"]}).json()
    assert (bulk["processed"], bulk["successful"], bulk["failed"]) == (2, 1, 1)
    assert service.get("/v1/compliance/AB12CDE").json()["compliant"] is True


def test_the_log_has_each_request_and_nothing_secret(served, world):
    """A line has exactly the documented members; no key, registration, name or body (D7)."""
    load_car(world)
    looked_up = served.get("/v1/vehicle/AB12CDE/insurance", **{"X-Request-ID": "AB12CDE"})
    served.post("/v1/vehicle/bulk-insurance", {"registrations": ["AB12CDE", "BODY"]})
    served.post("/api/domains", {"name": "secret.example.com"})
    served.get("/api/domains/secret.example.com?limit=QUERY")
    send(served.bind, "GET", "/v1/compliance/AB12CDE", headers={"X-API-Key": served.key[:-1]})
    lines = served.lines("stdout")
    assert {tuple(line) for line in lines} == {tuple(ACCESS_MEMBERS)}
    assert [(line["method"], line["route"], line["status"]) for line in lines[-5:]] == [
        ("GET", "/v1/vehicle/{registration}/insurance", 200),
        ("POST", "/v1/vehicle/bulk-insurance", 200),
        ("POST", "/api/domains", 201),
        ("GET", "/api/domains/{domain}", 400),
        ("GET", None, 401),
    ]
    assert lines[-5]["request_id"] == looked_up.headers["X-Request-ID"]
    assert [line["key"] for line in lines[-2:]] == [served.key[10:18], None]
    written = served.output("stdout") + served.output("stderr")
    for secret in (served.key, served.key[19:], "AB12CDE", "secret.example", "BODY", "QUERY"):
        assert secret not in written


@SHARED
def test_a_request_id_is_a_proxys_only(serve, served, socket_directory):
    """The id is used from a Unix socket; at an address anybody could send one (D7)."""
    given = "5f0c6a9e2b7d4c1f8a3e9d6b0c2f4a71"
    on_socket = serve(bind=f"unix:{socket_directory}/socket", workers=1)
    assert on_socket.get("/nothing", **{"X-Request-ID": given}).headers["X-Request-ID"] == given
    until(lambda: given in on_socket.output("stdout"), "the request to be logged")
    assert served.get("/nothing", **{"X-Request-ID": given}).headers["X-Request-ID"] != given
    assert given not in served.output("stdout") + served.output("stderr")


def test_the_access_log_can_be_switched_off(serve):
    """With `VERIFYD_ACCESS_LOG=off` stdout stays empty."""
    service = serve(access_log="off")
    assert service.get("/api/domains").status == 200
    assert service.output("stdout") == ""


@SHARED
def test_malformed_http_gets_the_common_error_body(served):
    """Refusals of malformed requests are problem bodies, and the service continues."""
    for request in MALFORMED.values():
        with connected(served.bind) as connection:
            connection.sendall(request)
            answer = read_answer(connection)
        require_problem(answer, 400, "invalid_request")
        assert answer.headers["Cache-Control"] == "no-store"
    assert served.get("/api/domains").status == 200


@SHARED
def test_too_long_a_request_line_gets_the_one_error_body(served):
    """A request line of 8,190 bytes is the longest that reaches the application."""
    for path_bytes, status, code in ((8_177, 401, "unauthorized"), (8_178, 414, "uri_too_long")):
        answer = send(served.bind, "GET", "/".ljust(path_bytes, "a"))
        require_problem(answer, status, code)


@SHARED
def test_a_broken_chunk_gets_the_one_error_body(served):
    """A chunked body is refused whatever it holds (D5)."""
    head = f"POST /api/domains HTTP/1.1\r\nHost: x\r\nX-API-Key: {served.key}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    for chunk in (b"zz\r\n", b"5;\r\nabc", b"2\r\n{}\r\n0\r\n\r\n"):
        with connected(served.bind) as connection:
            connection.sendall(head.encode() + chunk)
            connection.shutdown(socket.SHUT_WR)
            require_problem(read_answer(connection), 400, "invalid_request")


@SHARED
def test_a_client_that_goes_away_harms_nobody(served):
    """A body that never comes ends with its connection, and the service continues."""
    connection, _ = in_flight(served, "gone.example.com")
    connection.close()
    assert served.get("/api/domains").json() == {"domains": []}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_request_in_flight_is_finished_at_the_stop(serve, number):
    """TERM, INT and QUIT end the service with 0, after the requests in flight."""
    service = serve(workers=1)
    connection, body = in_flight(service, "example.com")
    service.process.send_signal(number)
    until(lambda: "Handling signal" in service.output("stderr"), "the signal to be handled")
    assert finished(connection, body).status == 201
    assert service.wait() == 0
    with pytest.raises(ConnectionRefusedError):
        connected(service.bind)


def test_a_killed_worker_is_replaced(served):
    """The service continues, and soon has as many workers as before."""
    before = served.workers()
    os.kill(before[0], signal.SIGKILL)
    until(lambda: before[0] not in served.workers(), "the worker to be gone")
    assert served.get("/api/domains").status == 200
    until(lambda: len(served.workers()) == 2, "a new worker")
    assert served.get("/api/domains").status == 200


def test_hup_renews_the_workers(served):
    """HUP replaces the workers, and finishes requests in flight."""
    before = set(served.workers())
    connection, body = in_flight(served, "example.com")
    served.process.send_signal(signal.SIGHUP)
    until(lambda: set(served.workers()) - before, "new workers")
    assert finished(connection, body).status == 201
    until(lambda: before.isdisjoint(served.workers()), "the old workers to go")
    assert served.get("/api/domains/example.com").status == 200


@SHARED
def test_a_second_server_at_the_same_address_is_refused(serve, served, socket_directory):
    """The second server exits with 1 and a reason; the first one keeps port and socket."""
    on_socket = serve(bind=f"unix:{socket_directory}/socket", workers=1)
    for first, command in ((served, SERVE), (on_socket, GUNICORN)):
        second = serve(bind=first.bind, command=command, wait=False)
        assert second.wait() == 1
        assert f"another program listens at {first.bind}" in second.output("stderr")
        assert first.get("/healthz").status == 200


def test_a_socket_left_by_a_killed_server_is_taken_over(serve, socket_directory):
    """A socket file on which nobody listens must not stop the start."""
    bind = f"unix:{socket_directory}/socket"
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(bind.removeprefix("unix:"))
    assert serve(bind=bind, workers=1).get("/healthz").status == 200


@pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
def test_wrong_settings_stop_the_start(world, command):
    """All of them are reported at once, by name, and nothing listens."""
    bind = f"127.0.0.1:{free_port()}"
    with Service(world.directory, bind, command, workers="many", colour="blue") as service:
        assert service.wait() == 1
    told = service.output("stderr")
    assert "VERIFYD_WORKERS: must be a whole number" in told
    assert "VERIFYD_COLOUR: no such setting" in told
    assert "Traceback" not in told


def test_the_program_runs_as_a_module(world):
    """`python -m app` is `verifyd`."""
    ended = run_command("check", database_url=world.config.database_url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "VERIFYD_DATABASE_URL" in environment(database_url="x")


@SHARED
def test_check_asks_a_service_whether_it_is_ready(served, world):
    """`verifyd check --ready` exits with 0 when the service answers at /readyz."""
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    assert run_command("check", "--ready", served.bind, **settings).returncode == 0


def test_a_stale_register_is_logged_at_the_start(serve, world):
    """One line in the log names the register; the service is still ready (D51)."""
    world.load([{"registration": "AB12CDE"}])
    Register.update(loaded_at=1_700_000_000).execute(world.engine)
    service = serve(stale_after="rdw=1s,*=7d")
    told = [line for line in service.lines("stderr") if "last loaded" in line["message"]]
    assert [line["level"] for line in told] == ["warning"]
    assert told[0]["message"].startswith("The register native was last loaded ")
    assert told[0]["message"].endswith("VERIFYD_STALE_AFTER allows 7 d.")


def test_a_stalled_log_reader_does_not_stop_the_service(serve, world, tmp_path):
    """Lines that nobody reads are dropped and counted, and every request is answered."""
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    logged = ("sh", "-c", f'exec "$@" >"{fifo}" 2>&1', "sh", *SERVE)
    service = serve(command=logged)
    for _ in range(100):
        assert service.get("/api/domains").status == 200

    def dropped():
        told = text_string_to_metric_families(service.get("/metrics").body.decode())
        return next(each.samples[0].value for each in told if each.name == DROPPED)

    until(lambda: dropped() >= 50, "the counts of all workers")
    os.read(reader, 1 << 20)
    until(
        lambda: service.get("/api/domains").status == 200 and os.read(reader, 1 << 20),
        "lines again",
    )
    os.close(reader)
