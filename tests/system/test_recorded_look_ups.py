"""The audit trail of a running service: no answer without its record, whatever happens (D125)."""

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from itertools import count

import pytest

from app.accounts.administration import set_plan
from app.audit.seal import seal
from app.audit.verify import verify
from tests.enquiry import set_enquiry
from tests.system.full_disk import Disk
from tests.system.processes import GUNICORN, SERVE, connected, read_answer, run_command, until
from tests.unit.audit_trails import lines

CAR = {"registration": "AB12CDE", "make": "CANARYMAKE"}
PATH = "/v1/vehicle/AB12CDE/insurance"
BULK = "/v1/vehicle/bulk-insurance"
CLIENTS = 8
LONG = pytest.mark.system_long


@pytest.fixture
def directory(tmp_path):
    """The directory of the trail."""
    return tmp_path / "audit"


@pytest.fixture
def audited(serve, world):
    """`audited(directory)` starts a service that records there; the account has a high limit."""
    world.load([CAR])
    limits = {"window_seconds": 60, "bulk_max": 1_000, "domains_max": 1_000}
    set_plan(world.engine, "standard", {**limits, "requests": 1_000_000})
    return lambda directory, **options: serve(audit="on", audit_dir=directory, **options)


class Client(threading.Thread):
    """Looks vehicles up until it is stopped, and keeps what it was answered."""

    def __init__(self, service, number):
        super().__init__()
        self._service = service
        self._number = number
        self.is_stopped = False
        self.answers = {}
        """The plates of each answered look-up, by request id."""
        self.others = []
        self.start()

    def run(self):
        for number in count():
            if self.is_stopped:
                return
            plates = [f"C{self._number}N{number}"]
            if number % 10 == 0:
                plates += [f"C{self._number}B{n}" for n in range(200)]
            try:
                answer = self._ask(plates)
            except (OSError, HTTPException):  # Its worker was killed.
                continue
            if answer.status in (200, 404):
                self.answers[answer.headers["X-Request-ID"]] = plates
            else:
                self.others.append(answer.status)

    def _ask(self, plates):
        if len(plates) > 1:
            return self._service.post(BULK, {"registrations": plates})
        return self._service.get(f"/v1/compliance/{plates[0]}")


@pytest.mark.parametrize(
    ("workers", "kills"),
    [(3, 5), (1, 5), pytest.param(3, 50, marks=LONG), pytest.param(1, 50, marks=LONG)],
)
def test_every_answer_that_a_client_saw_has_its_record(audited, directory, workers, kills):
    """With eight clients and workers killed at random, also in units; no record is torn."""
    random.seed(17)
    service = audited(directory, workers=workers)
    clients = [Client(service, number) for number in range(CLIENTS)]
    try:
        for _ in range(kills):
            enough = {client: len(client.answers) + 3 for client in clients}
            until(lambda: all(len(c.answers) >= n for c, n in enough.items()), "more answers")  # noqa: B023
            killed = random.choice(service.workers())
            os.kill(killed, signal.SIGKILL)
            until(lambda: killed not in service.workers(), "the end of the worker")  # noqa: B023
            until(lambda: len(service.workers()) == workers, "a new worker")
    finally:
        for client in clients:
            client.is_stopped = True
        for client in clients:
            client.join()
    assert [status for client in clients for status in client.others] == []
    assert service.stop() == 0
    seen = {key: plates for client in clients for key, plates in client.answers.items()}
    assert len(seen) >= 3 * kills * CLIENTS
    recorded = {
        line["request_id"]: [plate["plate"] for plate in line["plates"]]
        for line in lines(directory)
    }
    assert seen.items() <= recorded.items()
    seal(directory, current=True)
    assert verify(directory).faults == []


class TestFullDisk:
    @pytest.fixture
    def disk(self, little_disk):
        """A small disk that holds nothing but the trail."""
        return Disk(little_disk)

    def test_what_cannot_be_recorded_is_not_answered(self, audited, disk, world):
        """503 within a second; 200 when there is room, by the same workers."""
        directory = disk.path / "audit"
        service = audited(directory)
        assert service.get(PATH).status == 200
        workers = service.workers()
        disk.fill()
        plates = [f"P{number}" for number in range(100)]
        seen: set[str] = set()
        until(lambda: self._asks(service, plates, seen).status == 503, "the first refusal")
        for _ in range(20):
            began = time.monotonic()
            refused = self._asks(service, plates, seen)
            assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
            assert time.monotonic() - began < 1
        assert refused.json()["code"] == "service_unavailable"
        assert b"P1" not in refused.body
        assert service.post("/api/domains", {"name": "a.example"}).status == 201
        assert service.get("/healthz").status == 200
        disk.empty()
        assert {self._asks(service, plates, seen).status for _ in range(20)} == {200}
        assert service.workers() == workers
        assert seen == {line["request_id"] for line in lines(directory) if "P1" in str(line)}

    def test_the_rate_limit_counts_meanwhile(self, audited, disk, world):
        """A look-up that is answered 503 takes a token, and the 429 comes when it should."""
        set_plan(
            world.engine,
            "tiny",
            {"requests": 10, "window_seconds": 3_600, "bulk_max": 100, "domains_max": 1},
        )
        service = audited(disk.path / "audit")
        service.key = world.key_of("carol", "tiny")
        plates = [f"P{number}" for number in range(100)]
        assert service.get(PATH).headers["X-RateLimit-Remaining"] == "9"
        disk.fill()
        answers = [service.post(BULK, {"registrations": plates}) for _ in range(10)]
        assert [int(each.headers["X-RateLimit-Remaining"]) for each in answers] == [
            *range(8, -1, -1),
            0,
        ]
        statuses = [each.status for each in answers]
        assert statuses[-1] == 429
        assert 503 in statuses
        assert statuses.count(200) < 3

    def test_a_service_starts_on_a_full_disk(self, audited, disk):
        """It uses the trail that is there, and records as soon as there is room."""
        directory = disk.path / "audit"
        first = audited(directory)
        assert first.get(PATH).status == 200
        first.stop()
        disk.fill()
        second = answering(audited(directory, wait=False))
        plates = [f"P{number}" for number in range(1_000)]
        until(lambda: self._asks(second, plates, set()).status == 503, "the refusal")
        assert second.get("/readyz").status == 503
        disk.empty()
        assert second.get(PATH).status == 200
        assert second.get("/readyz").status == 200

    def test_a_read_only_disk(self, audited, disk):
        """Look-ups are refused until it is writable, without a restart."""
        directory = disk.path / "audit"
        first = audited(directory)
        assert first.get(PATH).status == 200
        assert first.stop() == 0
        remount(disk, "ro")
        second = answering(audited(directory, wait=False))
        assert {second.get(PATH).status for _ in range(6)} == {503}
        assert second.get("/api/domains").status == 200
        remount(disk, "rw")
        second.wait_ready()
        assert {second.get(PATH).status for _ in range(6)} == {200}

        def told(what):
            lines = (each for each in second.lines("stderr") if "audit" in each["logger"])
            return any(what in each["message"] for each in lines)

        assert told("Read-only file system")
        # Each process says so after the first look-up that it can record.
        again = "look-ups can be recorded again"
        until(lambda: second.get(PATH).status == 200 and told(again), again)

    def _asks(self, service, plates, seen):
        answer = service.post(BULK, {"registrations": plates})
        if answer.status == 200:
            seen.add(answer.headers["X-Request-ID"])
        return answer


def answering(service):
    """Wait until a service that need not be ready answers, and return it."""

    def answers():
        with suppress(OSError, HTTPException):
            return service.get("/healthz").status == 200
        return False

    until(answers, "the first answer")
    return service


def remount(disk, how):
    """Make a file system read-only (`ro`) or writable (`rw`)."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk.path)], check=True)


class TestDirectory:
    @pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
    def test_a_trail_that_is_removed_is_missed(self, audited, directory, world, command):
        """No worker creates it again, not even a new one. A copy of it is used at once."""
        service = audited(directory, command=command)
        assert {service.get(PATH).status for _ in range(6)} == {200}
        copy = shutil.copytree(directory, directory.with_name("copy"))
        shutil.rmtree(directory)
        assert {service.get(PATH).status for _ in range(6)} == {503}
        before = service.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(set(service.workers()) - set(before)) == 2, "new workers")
        assert {service.get(PATH).status for _ in range(6)} == {503}
        os.kill(service.process.pid, signal.SIGHUP)
        until(lambda: not set(service.workers()) & set(before), "a reload")
        assert {service.get(PATH).status for _ in range(6)} == {503}
        # A command does not begin another trail either, in which this service would not record.
        settings = {
            "database_url": world.config.database_url,
            "state_dir": world.config.state_dir,
            "audit": "on",
            "audit_dir": directory,
        }
        for words in (
            ["lookup", "AB12CDE"],
            ["audit", "search", "--user", "a", "--directory", copy],
        ):
            ended = run_command(*words, **settings)
            assert (ended.returncode, ended.stdout) == (1, "")
            assert "is gone; put it back" in ended.stderr
        assert not directory.exists()
        copy.rename(directory)
        assert {service.get(PATH).status for _ in range(6)} == {200}

    def test_a_restart_begins_another_trail(self, audited, directory):
        """The operator decides that the former one is lost."""
        service = audited(directory)
        assert service.get(PATH).status == 200
        shutil.rmtree(directory)
        assert service.stop() == 0
        again = audited(directory)
        assert again.get(PATH).status == 200
        assert len(list(lines(directory))) == 1

    def test_a_trail_that_is_replaced_is_not_written_to(self, audited, directory, tmp_path):
        """The trail of another service is left alone, even one of this host."""
        service = audited(directory)
        other = audited(tmp_path / "other")
        assert {each.get(PATH).status for each in (service, other)} == {200}
        directory.rename(tmp_path / "away")
        shutil.copytree(tmp_path / "other", directory)
        until(lambda: {service.get(PATH).status for _ in range(6)} == {503}, "the refusal")
        assert len(list(lines(directory))) == 1

    @pytest.mark.parametrize("command", [SERVE, GUNICORN], ids=["serve", "gunicorn"])
    def test_a_start_refuses_the_trail_of_another_host(self, audited, directory, command):
        """The reason is one line, which says what to do."""
        assert audited(directory).get(PATH).status == 200
        owner = directory / "owner.json"
        owner.write_text(owner.read_text().replace('machine":"', 'machine":"0'))
        service = audited(directory, command=command, wait=False)
        assert service.wait() == 1
        assert "is the audit trail of another host" in service.output("stderr")

    def test_a_start_refuses_a_directory_that_it_cannot_create(self, audited, directory):
        """Better no service than one that answers nothing."""
        directory.write_text("a file")
        service = audited(directory, wait=False)
        assert service.wait() == 1
        assert str(directory) in service.output("stderr")


def test_the_trail_is_switched_on_as_the_page_says(serve, directory, world):
    """`verifyd check && systemctl restart verifyd`, while the service runs without a trail."""
    world.load([CAR])
    service = serve()
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    ended = run_command("check", audit="on", audit_dir=directory, **settings)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert service.stop() == 0
    service = serve(audit="on", audit_dir=directory)
    assert service.get(PATH).status == 200
    shutil.rmtree(directory)
    ended = run_command("check", audit="on", audit_dir=directory, **settings)
    assert ended.returncode == 1
    assert "is gone; put it back" in ended.stderr


def test_commands_and_workers_share_a_trail(audited, directory, world):
    """`verifyd lookup` records beside a service that serves, and `audit search` finds both."""
    service = audited(directory)
    settings = {
        "database_url": world.config.database_url,
        "state_dir": world.config.state_dir,
        "audit": "on",
        "audit_dir": directory,
    }
    assert service.get(PATH).status == 200
    assert run_command("lookup", "AB12CDE", "--reason", "TEST", **settings).returncode == 0
    assert service.get(PATH).status == 200
    found = run_command("audit", "search", "--plate", "AB12CDE", "--json", **settings)
    operations = [record["operation"] for record in json.loads(found.stdout)]
    assert operations == ["insurance", "lookup", "insurance"]


def test_a_header_that_is_sent_twice_is_refused(audited, directory, world):
    """The worker knows it from a comma, over HTTP as a client speaks it."""
    set_enquiry(world.engine, "standard", "required", None)
    service = audited(directory)
    once = "Enquiry-Reason: A,B\r\nenquiry-user: Doe, Jane\r\n"
    for headers, code in (
        (once, ""),
        (once + "Enquiry-User: x\r\n", "invalid_enquiry"),
        (once + "Enquiry-Reference:\r\n", "invalid_enquiry"),
        (once + "Enquiry-Reference: \xfc\r\n", "invalid_enquiry"),
        ("Enquiry-User: x\r\n", "enquiry_reason_required"),
    ):
        head = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: {service.key}\r\n{headers}\r\n"
        with connected(service.bind) as connection:
            connection.sendall(head.encode("latin-1"))
            answer = read_answer(connection)
        assert answer.json().get("code", "") == code
    (record,) = lines(directory)
    assert (record["reason"], record["user"]) == ("A,B", "Doe, Jane")


def test_nothing_of_a_look_up_is_in_the_log(audited, directory):
    """Neither a plate nor what the client said, also while records are refused."""
    service = audited(directory)
    headers = {"Enquiry-Reason": "CANARYREASON", "Enquiry-User": "CANARYUSER"}
    assert service.get(PATH, **headers).status == 200
    shutil.rmtree(directory)
    assert {service.get(PATH, **headers).status for _ in range(6)} == {503}
    assert service.stop() == 0
    logged = service.output("stdout") + service.output("stderr")
    assert "is gone; put it back" in logged
    for canary in ("AB12CDE", "CANARY", service.key):
        assert canary not in logged
