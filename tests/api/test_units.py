"""Requests that a worker answers together, with the application behind a worker's loop (D170)."""

import json
import shutil
import sys
from contextlib import ExitStack, suppress

import peewee
import pytest

from app import clock, logs
from app.accounts.administration import revoke_key
from app.accounts.tokens import parse_token
from app.audit.record import AuditError
from app.audit.trail import Trail
from app.serve.worker.answers import answer_of
from app.serve.worker.connection import SECOND_NS
from app.storage.sqlite import VERSION, SqliteEngine
from tests.api.test_metrics import counted, read
from tests.conftest import ON_SQLITE
from tests.unit.audit_trails import lines
from tests.unit.worker_server import Server, new_lobby

CAR = {"registration": "AB12CDE", "make": "FORD"}
LOOK_UP = "/v1/vehicle/AB12CDE/insurance"
CLIENTS = 8
ENVIRON = {
    "SCRIPT_NAME": "",
    "SERVER_NAME": "localhost",
    "SERVER_PORT": "80",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": False,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
}


class Worker:
    """A worker's loop with the application, and connected clients.

    `before` can be set to a function that is called with each path before it is answered.
    """

    def __init__(self, stack, world, **settings):
        self.world = world
        self.client = world.client(world.alice_key, **settings)
        app = self.client.application
        self.before = lambda path: None

        def answer(environ, is_last):
            environ |= {**ENVIRON, **environ}
            self.before(environ["PATH_INFO"])
            return answer_of(app, environ, is_last=is_last), is_last

        self.server = Server(stack, new_lobby(stack, is_shared=False), answer, unit=app.unit)
        self._clients = [self.server.client() for _ in range(CLIENTS)]
        for each in self._clients:
            self.ask_together(["/healthz"], [each])

    def send(self, paths, clients=None, key=None):
        """Let each client ask for one path."""
        for each, path in zip(clients or self._clients, paths, strict=False):
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key or self.world.alice_key}\r\n"
            each.send(f"{head}\r\n".encode())

    def ask_together(self, paths, clients=None, key=None):
        """Let each client ask for one path, and return status, headers and body of each answer."""
        self.send(paths, clients, key)
        return [self.answer(each) for each, _ in zip(clients or self._clients, paths, strict=False)]

    def answer(self, client):
        """Return status, headers and body of the next answer."""
        received = b""
        while not (found := parsed(received)):
            self.server.turn()
            with suppress(BlockingIOError):
                received += client.recv(65_536)
        return found


def parsed(received):
    """Return status, headers and JSON of an answer; None if it is not complete."""
    head, end, body = received.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    length = int(headers.get("content-length", 0))
    if not end or len(body) < length:
        return None
    return int(status.split()[1]), headers, json.loads(body) if body else None


@pytest.fixture(autouse=True)
def passed(monkeypatch):
    """`passed(nanoseconds)` moves the clock, which stands still, so that no unit ends by itself."""
    now_ns = clock.monotonic_ns()
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns)

    def go_on(nanoseconds):
        nonlocal now_ns
        now_ns += nanoseconds

    return go_on


@pytest.fixture
def worker(world, tmp_path):
    """A worker that records look-ups."""
    world.load([CAR])
    with ExitStack() as stack:
        yield Worker(stack, world, audit=True, audit_dir=tmp_path / "audit", access_log=True)


@pytest.fixture
def trail(tmp_path):
    """The directory of the trail."""
    return tmp_path / "audit"


def statuses(answers):
    return [status for status, *_ in answers]


class TestTogether:
    def test_look_ups_are_recorded_with_one_write(self, worker, trail, monkeypatch):
        """All records of a unit are there before the first of its answers leaves."""
        written = []
        append = Trail.append

        def note(self, *records):
            written.append(len(records))
            append(self, *records)

        monkeypatch.setattr(Trail, "append", note)
        answers = worker.ask_together([LOOK_UP] * CLIENTS)
        assert statuses(answers) == [200] * CLIENTS
        assert written == [CLIENTS]
        ids = [headers["x-request-id"] for _, headers, _ in answers]
        assert sorted(ids) == sorted(line["request_id"] for line in lines(trail))

    @ON_SQLITE
    def test_the_database_is_asked_once_for_its_version(self, worker, monkeypatch):
        """All requests have arrived before (D109)."""
        worker.ask_together([LOOK_UP])  # It opens the database.
        seen = []
        rows = SqliteEngine.rows

        def note(self, sql, params):
            seen.append(sql)
            return rows(self, sql, params)

        monkeypatch.setattr(SqliteEngine, "rows", note)
        worker.ask_together([LOOK_UP] * CLIENTS)
        assert seen.count(VERSION) == 1

    def test_each_request_takes_its_token(self, worker):
        """The headers of each answer say what is left after it (D11)."""
        answers = worker.ask_together([LOOK_UP] * CLIENTS)
        left = [int(headers["x-ratelimit-remaining"]) for _, headers, _ in answers]
        assert sorted(left) == list(range(max(left) - CLIENTS + 1, max(left) + 1))

    def test_a_slow_one_ends_its_unit(self, worker, trail, passed):
        """What was answered before is recorded and sent after a millisecond; the rest follows."""
        asked, recorded = [], []

        def pass_time(path):
            asked.append(path)
            recorded.append(len(list(lines(trail))) if trail.exists() else 0)
            if "SLOW" in path:
                passed(SECOND_NS // 1_000 + 1)

        worker.before = pass_time
        slow = "/v1/vehicle/SLOW/insurance"
        answers = worker.ask_together([LOOK_UP, slow, *[LOOK_UP] * (CLIENTS - 2)])
        assert statuses(answers) == [200, 404] + [200] * (CLIENTS - 2)
        before = asked.index(slow) + 1
        assert recorded == [0] * before + [before] * (CLIENTS - before)

    def test_a_broken_one_does_not_concern_the_others(self, worker, trail):
        """Malformed requests, unknown plates and missing keys are answered beside look-ups."""
        first, second, *others = worker._clients
        first.send(b"GET /v1/account HTTP/1.1\r\n\r\n")
        second.send(f"GET {LOOK_UP} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answers = worker.ask_together(["/v1/compliance/!", *[LOOK_UP] * 5], others)
        assert statuses(answers) == [400] + [200] * 5
        assert statuses(worker.answer(each) for each in (first, second)) == [400, 401]
        assert len(list(lines(trail))) == 5

    def test_the_log_has_a_line_for_each(self, worker, capfd):
        """With the id and the status of each answer."""
        capfd.readouterr()
        answers = worker.ask_together([LOOK_UP, "/v1/account", "/v1/vehicle/X/insurance"])
        logged = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        told = [(line["request_id"], line["status"]) for line in logged]
        assert sorted(told) == sorted((headers["x-request-id"], s) for s, headers, _ in answers)

    def test_a_full_disk_at_the_log_is_counted(self, world):
        """Each line that was dropped counts, and the answers are sent."""
        world.load([CAR])
        logs.take_dropped()
        with ExitStack() as stack:
            full = stack.enter_context(open("/dev/full", "wb"))
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(
                "app.main.LineWriter", lambda _: logs.LineWriter(full.fileno())
            )
            worker = Worker(stack, world, access_log=True)
            before = counted(read(worker.client), "log_lines_dropped_total")
            assert statuses(worker.ask_together([LOOK_UP] * CLIENTS)) == [200] * CLIENTS
            worker.client.get("/healthz")
            # The line of the request that reads the metrics is not counted yet.
            dropped = counted(read(worker.client), "log_lines_dropped_total") - before
            assert dropped == CLIENTS + 2


class TestUnrecorded:
    PATHS = (
        LOOK_UP,
        "/v1/account",
        "/v1/compliance/NONE1",
        "/v1/compliance/!",
        LOOK_UP,
        "/healthz",
    )
    STATUSES = (503, 200, 503, 400, 503, 200)

    @pytest.fixture
    def broken(self, worker, monkeypatch):
        """A worker whose trail cannot be written to."""

        def fail(*_records):
            raise AuditError("no")

        monkeypatch.setattr(Trail, "append", fail)
        return worker

    def test_look_ups_are_refused_and_nothing_else(self, broken):
        """503 with what every answer has, and as much left as if they had been answered (D5)."""
        answers = broken.ask_together(self.PATHS)
        assert tuple(statuses(answers)) == self.STATUSES
        for status, headers, body in answers:
            if status == 503:
                assert body["code"] == "service_unavailable"
                assert body["request_id"] == headers["x-request-id"]
                assert headers["retry-after"] == "2"
        left = [int(headers["x-ratelimit-remaining"]) for _, headers, _ in answers[:-1]]
        assert sorted(left) == list(range(max(left) - len(left) + 1, max(left) + 1))

    def test_log_metrics_and_usage_have_the_last_answer(self, broken, capfd):
        """Each request is told once, as its client was answered; no vehicle counts."""
        route = "/v1/vehicle/{registration}/insurance"
        before = read(broken.client)
        capfd.readouterr()
        broken.ask_together(self.PATHS)
        logged = [json.loads(line)["status"] for line in capfd.readouterr().out.splitlines()]
        assert sorted(logged) == sorted(self.STATUSES)
        after = read(broken.client)
        for status, number in (("200", 0), ("503", 2)):
            labels = {"route": route, "status": status}
            name = "request_seconds_count"
            assert counted(after, name, **labels) - counted(before, name, **labels) == number
        broken.client.application.usage.flush()
        usage = {each["operation"]: each for each in broken.client.get("/v1/usage").json["usage"]}
        told = usage["insurance"]
        assert (told["answers"], told["status5xx"], told["vehicles"]) == (2, 2, 0)

    def test_a_trail_that_is_there_again_is_used(self, worker, trail, monkeypatch):
        """A moved directory refuses look-ups until it is back."""
        worker.ask_together([LOOK_UP])
        shutil.move(trail, f"{trail}.away")
        # The directory is compared ten times a second.
        later_ns = clock.now_ns() + SECOND_NS // 10
        monkeypatch.setattr(clock, "now_ns", lambda: later_ns)
        assert statuses(worker.ask_together([LOOK_UP])) == [503]
        shutil.move(f"{trail}.away", trail)
        assert statuses(worker.ask_together([LOOK_UP] * 3)) == [200] * 3

    def test_an_unexpected_error_is_answered_as_one(self, worker, monkeypatch):
        """As the same error would be while a request is answered."""

        def fail(*_records):
            raise peewee.OperationalError("gone")

        monkeypatch.setattr(Trail, "append", fail)
        answers = worker.ask_together([LOOK_UP, "/v1/account"])
        assert statuses(answers) == [503, 200]
        assert answers[0][2]["code"] == "database_unavailable"


class TestChanges:
    def test_a_revoked_key_does_not_work_in_the_next_unit(self, worker):
        """Whoever asks after the revocation is refused, however many ask meanwhile."""
        token = parse_token(worker.world.alice_key)
        assert token is not None
        other = worker.world.key_of("other", "standard")

        def revoke(path):
            if "REVOKE" in path:
                revoke_key(worker.world.engine, token.key_id)

        worker.before = revoke
        first, second, *_ = worker._clients
        worker.ask_together(["/v1/compliance/REVOKE", LOOK_UP])
        assert statuses(worker.ask_together([LOOK_UP], [first])) == [401]
        assert statuses(worker.ask_together([LOOK_UP], [second], key=other)) == [200]

    def test_a_register_that_is_replaced_meanwhile(self, worker):
        """Requests of the unit have one of both answers, and the next unit the new one."""
        path = worker.world.directory / "new.csv"
        path.write_text("registration,make\nAB12CDE,SEAT\n")

        def replace(asked):
            if "REPLACE" in asked:
                worker.world.load_files(path, mode="replace", allow_shrink=True)

        worker.before = replace
        answers = worker.ask_together([LOOK_UP, "/v1/compliance/REPLACE", LOOK_UP, LOOK_UP])
        assert statuses(answers) == [200, 404, 200, 200]
        makes = {body["vehicle"]["make"] for status, _, body in answers if status == 200}
        assert makes <= {"FORD", "SEAT"}
        ((_, _, body),) = worker.ask_together([LOOK_UP])
        assert body["vehicle"]["make"] == "SEAT"


def test_outside_a_unit_a_look_up_is_recorded_while_it_is_answered(world, trail):
    """As in a command, a test or another server."""
    world.load([CAR])
    client = world.client(world.alice_key, audit=True, audit_dir=trail)
    assert client.get(LOOK_UP).status_int == 200
    assert len(list(lines(trail))) == 1
