"""Usage of real workers: exact after a graceful end, late after faults, and never twice (D128)."""

import http.client
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from functools import partial

import apsw
import pytest

from app.accounts.administration import set_plan
from app.accounts.usage.report import By, usage_of_days
from app.accounts.usage.store import interval_seconds
from app.storage.engine import close_quietly, open_engine
from tests.conftest import World
from tests.postgres import Cluster
from tests.stores import PostgresTemplate
from tests.system.full_disk import Disk
from tests.system.processes import GUNICORN, Service, connected, until
from tests.system.threads import Threads

CAR = {"registration": "AB12CDE", "make": "FORD"}
LOOK_UP = "/v1/vehicle/AB12CDE/insurance"
UNKNOWN = "/v1/compliance/NONE1"
PATHS = (LOOK_UP, UNKNOWN, "/v1/account", "/nothing")
OPERATIONS = ("insurance", "compliance", "account", "other")
CLIENTS = 4
WAIT_SECONDS = 4
"""Less than a statement waits for a lock of the database, and much more than a look-up takes."""
EVER = (date(2000, 1, 1), date(2100, 1, 1))
# Writes ten times a second, so that tests of faults need not wait.
HURRIED = """
import sys
from app.cli import main
from app.accounts.usage import store

store.INTERVAL_SECONDS = 0.1
sys.exit(main(["serve"]))
"""
SERVE_HURRIED = (sys.executable, "-c", HURRIED)

Used = Counter[tuple[str, str]]
"""Answers by operation and class."""


class Clients(Threads):
    """Clients that send look-ups and other requests, and count the answers; `with` runs them."""

    def __init__(self, *services: Service) -> None:
        self._lock = threading.Lock()
        self.answers: Used = Counter()
        clients = ((services[number % len(services)], number) for number in range(CLIENTS))
        super().__init__(*(partial(self._run, *each) for each in clients))

    def wait_for(self, more: int) -> None:
        """Wait until this many further answers have come."""
        enough = self.answers.total() + more
        until(lambda: self.answers.total() >= enough, "further answers")

    def _run(self, service: Service, number: int) -> None:
        """Send requests, some of them on the same connection, until the clients or the server end.

        A new connection is tried again, because a worker may be ending.
        """
        headers = {"Authorization": f"Bearer {service.key}"}
        while not self.over.is_set():
            connection = http.client.HTTPConnection("localhost")
            try:
                connection.sock = connected(service.bind)
                for _ in range(10):
                    number += 1
                    connection.request("GET", PATHS[number % len(PATHS)], headers=headers)
                    response = connection.getresponse()
                    response.read()
                    self._count(OPERATIONS[number % len(PATHS)], response.status)
                    if response.will_close:
                        break
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)
            finally:
                connection.close()

    def _count(self, operation: str, status: int) -> None:
        with self._lock:
            self.answers[operation, "429" if status == 429 else f"{status // 100}xx"] += 1


def used(url: str) -> Used:
    """Return what a database holds."""
    engine = open_engine(url)
    try:
        rows = usage_of_days(engine, *EVER, (By.OPERATION,))
    finally:
        close_quietly(engine)
    classes = ("2xx", "4xx", "429", "5xx")
    return Counter(
        {
            (str(row.operation), name): answers
            for row in rows
            for name, answers in zip(classes, row.by_class, strict=True)
            if answers
        }
    )


def looked_up(service: Service, times: int) -> None:
    """Send look-ups, none of which may wait."""
    for _ in range(times):
        started = time.monotonic()
        assert service.get(LOOK_UP).status == 200
        assert time.monotonic() - started < WAIT_SECONDS


def faults(service: Service) -> list[str]:
    """Return the levels of the lines that were logged about usage."""
    return [each["level"] for each in service.lines("stderr") if each["logger"] == "verifyd.usage"]


def limit(world: World, requests: int = 10**9) -> None:
    """Set what the accounts may send in a minute."""
    limits = {"window_seconds": 60, "bulk_max": 10, "domains_max": 10}
    set_plan(world.engine, "standard", {**limits, "requests": requests})
    close_quietly(world.engine)


@pytest.fixture
def loaded(world: World) -> World:
    """The installation, with a vehicle and without a limit."""
    world.load([CAR])
    limit(world)
    return world


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.system_long)]
)
def test_nothing_is_missing_after_a_stop_under_load(serve, loaded, number):
    """Every answer that a client got is counted once, whatever ended the server gracefully."""
    service = serve(workers=3)
    with Clients(service) as clients:
        clients.wait_for(500)
        service.process.send_signal(number)
        assert service.wait() == 0
    assert used(loaded.store.url) == clients.answers


def test_refused_requests_are_counted(serve, loaded):
    """Of many requests at once exactly those are counted as 429 that were refused."""
    limit(loaded, requests=50)
    service = serve(workers=3)
    with Clients(service) as clients:
        clients.wait_for(200)
    assert service.stop() == 0
    assert used(loaded.store.url) == clients.answers
    assert sum(count for (_, name), count in clients.answers.items() if name == "429") > 100


@pytest.mark.system_long
def test_nothing_is_missing_after_reloads(serve, loaded):
    """Workers that HUP replaces write what they have counted."""
    service = serve(workers=2)
    with Clients(service) as clients:
        for _ in range(3):
            before = set(service.workers())
            clients.wait_for(50)
            service.process.send_signal(signal.SIGHUP)
            until(lambda: before.isdisjoint(service.workers()), "new workers")  # noqa: B023
    assert service.stop() == 0
    assert used(loaded.store.url) == clients.answers


@pytest.mark.system_long
def test_nothing_is_missing_if_workers_are_renewed(serve, loaded):
    """Workers that end after a number of requests write what they have counted, too."""
    service = serve(workers=2, command=(*GUNICORN, "--max-requests", "40"))
    before = set(service.workers())
    with Clients(service) as clients:
        until(lambda: before.isdisjoint(service.workers()), "new workers")
    assert service.stop() == 0
    assert used(loaded.store.url) == clients.answers


def test_a_killed_worker_loses_only_what_was_not_written(serve, loaded):
    """What was written stays, and nothing is counted twice."""
    service = serve(workers=1, command=SERVE_HURRIED)
    looked_up(service, 20)
    until(lambda: used(loaded.store.url).total() == 20, "usage to be written")
    looked_up(service, 5)
    (before,) = service.workers()
    os.kill(before, signal.SIGKILL)
    until(lambda: service.workers() not in ([], [before]), "a new worker")
    looked_up(service, 5)
    assert service.stop() == 0
    assert 25 <= used(loaded.store.url).total() <= 30


def certainly_counted(service: Service, seconds: float, kill: Callable[[], object]) -> range:
    """Kill a worker or a service some time after its first answer; return what may be counted.

    The first number is of answers that a killed process must have written.
    """
    answered_at: list[float] = []
    while not answered_at or time.monotonic() - answered_at[0] < seconds:
        looked_up(service, 1)
        answered_at.append(time.monotonic())
    kill()
    # A busy machine may need some time to wake up and to write.
    lost_seconds = 1.5 * interval_seconds(time.monotonic() - answered_at[0]) + 0.3
    old = [at for at in answered_at if at < answered_at[-1] - lost_seconds]
    return range(len(old), len(answered_at) + 1)


@pytest.mark.system_long
def test_a_killed_worker_loses_at_most_a_tenth_of_its_life(serve, loaded):
    """Answers that are older are in the database, however often workers are killed."""
    service = serve(workers=1)
    limits = range(1)
    for seconds in (0.1, 1, 2, 3, 0.5, 30):
        (before,) = service.workers()
        found = certainly_counted(service, seconds, lambda: os.kill(before, signal.SIGKILL))  # noqa: B023
        limits = range(limits.start + found.start, limits.stop + found.stop - 1)
        until(lambda: service.workers() not in ([], [before]), "a new worker")  # noqa: B023
        assert used(loaded.store.url).total() in limits
    assert limits.start > 0.75 * limits.stop


@pytest.mark.system_long
def test_a_service_that_is_killed_again_and_again_counts(serve, loaded):
    """Usage survives a loop of crashes in which no process lives for ten seconds."""
    lowest = answers = 0
    for _ in range(12):
        service = serve()
        with Clients(service) as clients:
            end = time.monotonic() + 1.5
            until(lambda: time.monotonic() > end, "some answers")  # noqa: B023
            service.kill()
        answers += clients.answers.total()
        lowest += clients.answers.total() // 2
        assert lowest <= used(loaded.store.url).total() <= answers + CLIENTS


@pytest.mark.system_long
def test_a_locked_database_delays_usage_and_no_look_up(serve, loaded):
    """Look-ups go on, the log has one line, and later everything is written."""
    service = serve(workers=1, command=SERVE_HURRIED)
    with closing(apsw.Connection(str(loaded.database))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        looked_up(service, 20)
        until(lambda: faults(service) == ["error"], "the log")
        looked_up(service, 20)
        holder.execute("ROLLBACK")
    until(lambda: used(loaded.store.url).total() == 40, "usage to be written")
    until(lambda: faults(service) == ["error", "info"], "the log")


@pytest.mark.system_long
def test_a_full_disk_delays_usage_and_no_look_up(serve, loaded, make_disk):
    """Look-ups go on, the log has one line, and later everything is written."""
    disk = Disk(make_disk(24))
    settings = disk.move_here(loaded)
    service = serve(workers=1, command=SERVE_HURRIED, **settings)
    looked_up(service, 10)
    disk.fill()
    written = 0
    # The log of the database may still have room for some writes.
    while not faults(service):
        looked_up(service, 10)
        written += 10
        assert written < 100_000
    looked_up(service, 10)
    assert faults(service) == ["error"]
    disk.empty()
    until(lambda: faults(service) == ["error", "info"], "usage to be written")
    assert service.stop() == 0
    assert used(settings["database_url"]).total() == 20 + written


class TestPostgres:
    @pytest.fixture
    def world(self, cluster: Cluster, tmp_path) -> Iterator[World]:
        """An installation on its own Postgres."""
        template = PostgresTemplate(cluster.url)
        world = World(tmp_path, template.store(tmp_path), template.keys)
        template.release()
        yield world
        world.close()

    @pytest.mark.system_long
    def test_several_hosts_add_up(self, serve, loaded):
        """Four workers of two servers add to the same numbers, and none waits for another."""
        services = [
            serve(command=SERVE_HURRIED, state_dir=loaded.directory / f"host{number}")
            for number in range(2)
        ]
        with Clients(*services) as clients:
            clients.wait_for(1_000)
        for service in services:
            assert service.stop() == 0
            assert faults(service) == []
        assert used(loaded.store.url) == clients.answers

    @pytest.mark.system_long
    def test_a_stopped_server_delays_usage(self, serve, loaded, cluster):
        """What was counted before is written when the server is back."""
        service = serve(workers=1)
        looked_up(service, 20)
        cluster.stop()
        assert service.get(LOOK_UP).status == 503
        cluster.start()
        until(lambda: service.get(LOOK_UP).status == 200, "the service to be back")
        assert service.stop() == 0
        assert used(loaded.store.url)["insurance", "2xx"] == 21
