"""If Postgres stops or ends connections, the answer is 503 at worst, and recovers (D45)."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from app.accounts.administration import set_plan
from tests.conftest import World
from tests.postgres import connect
from tests.stores import PostgresTemplate
from tests.system.processes import SERVE, Answer, Service, send, until
from tests.system.threads import Threads

CAR = {"registration": "AB12CDE", "make": "FORD"}
LOOK_UP = "/v1/vehicle/AB12CDE/insurance"
BULK = "/v1/vehicle/bulk-insurance"
CLIENTS = 6
PAGE = 5
KILLS = 25
ANSWERS_BETWEEN_KILLS = 20
# Operators are promised this time. It takes a hundredth, so that a busy machine suffices.
SECONDS_MAX = 2


@pytest.fixture
def world(cluster, tmp_path) -> Iterator[World]:
    """An installation on its own Postgres, with one vehicle."""
    template = PostgresTemplate(cluster.url)
    world = World(tmp_path, template.store(tmp_path), template.keys)
    template.release()
    many = {"requests": 10**9, "window_seconds": 1, "bulk_max": 10, "domains_max": 10**6}
    set_plan(world.engine, "standard", many)
    world.load([CAR])
    yield world
    world.close()


def requests(service: Service, number: int) -> dict[str, Answer]:
    """One request of each kind."""
    return {
        "look-up": service.get(LOOK_UP),
        "bulk": service.post(BULK, {"registrations": ["AB12CDE"]}),
        "list": service.get(f"/api/domains?limit={PAGE}"),
        "create": service.post("/api/domains", {"name": f"d{number}.example.com"}),
    }


def test_a_stopped_database_is_503_and_recovers(serve, world, cluster):
    """Answers are 503 within 2 s, /healthz stays up, and the same workers recover."""
    service = serve()
    workers = service.workers()
    assert {answer.status for answer in requests(service, 0).values()} == {200, 201}
    cluster.stop()
    for number in range(3):
        started = time.monotonic()
        answers = requests(service, number).values()
        assert (time.monotonic() - started) / len(answers) < SECONDS_MAX
        for answer in answers:
            assert (answer.status, answer.json()["code"]) == (503, "database_unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
    ready = send(service.bind, "GET", "/readyz")
    assert (ready.status, ready.json()["detail"]) == (503, "The database cannot be reached.")
    assert send(service.bind, "GET", "/healthz").status == 200
    cluster.start()
    until(lambda: service.get(LOOK_UP).status == 200, "the service to be back", SECONDS_MAX)
    for number in range(1, 4):  # Every worker has recovered, for reads and writes.
        statuses = [answer.status for answer in requests(service, number).values()]
        assert statuses == [200, 200, 200, 201]
    assert service.workers() == workers


class Clients(Threads):
    """Clients that count their answers; `with` runs them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.wrong: list[bytes] = []
        self.created: list[str] = []
        super().__init__(*(partial(self._send, number) for number in range(CLIENTS)))

    def wait_for(self, answers: int) -> None:
        """Wait until this many further requests were answered."""
        aim = self.statuses.total() + answers
        until(lambda: self.statuses.total() >= aim, "the clients to be answered")

    def _send(self, client: int) -> None:
        number = client
        while not self.over.is_set():
            created_before = len(self.created)
            for kind, answer in requests(self._service, number).items():
                self.statuses[kind, answer.status] += 1
                if answer.status == 200 and not is_right(kind, answer, created_before):
                    self.wrong.append(answer.body)
                if answer.status == 201:
                    self.created.append(f"d{number}.example.com")
            number += CLIENTS


def is_right(kind: str, answer: Answer, created_before: int) -> bool:
    """Tell whether a 200 is right, when this many domains had been created before."""
    document = answer.json()
    if kind == "look-up":
        return bool(document["vehicle"]["make"] == "FORD")
    if kind == "bulk":
        return bool(document["successful"] == 1)
    names = [each["name"] for each in document["domains"]]
    return names == sorted(names) and len(names) >= min(PAGE, created_before)


@pytest.mark.system_long
def test_no_file_takes_the_place_of_a_closed_stream(serve, world):
    """Otherwise the log would go into that file; on SQLite the engine prevents it."""
    service = serve(command=("sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *SERVE))
    assert service.get(LOOK_UP).status == 200
    for pid in (service.process.pid, *service.workers()):
        streams = {os.readlink(f"/proc/{pid}/fd/{stream}") for stream in range(3)}
        assert streams == {os.devnull}


@pytest.mark.system_long
def test_connections_that_are_ended_under_load_cost_no_wrong_answer(serve, world, cluster):
    """Reads are retried, writes succeed or give 503, and each 201 is stored."""
    service = serve()
    with Clients(service) as clients, connect(world.store.url) as operator:
        for _ in range(KILLS):
            clients.wait_for(ANSWERS_BETWEEN_KILLS)
            operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'verifyd'"
            )
    assert {status for _, status in clients.statuses} <= {200, 201, 409, 503}
    assert clients.wrong == []
    for kind in ("look-up", "bulk", "list"):
        assert clients.statuses[kind, 503] <= KILLS
    held = {each["name"] for each in service.get("/api/domains").json()["domains"]}
    assert set(clients.created) <= held
    assert len(set(clients.created)) == len(clients.created)
