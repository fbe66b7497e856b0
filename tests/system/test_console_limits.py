"""Limits of plates per person and day, with several hosts, kills and a full disk."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from app.console.rendering import ROOT
from app.people.plates import PersonDay
from app.people.sessions import create_link
from app.settings.roles import Role
from app.storage.engine import closed_afterwards, open_engine
from tests.conftest import World
from tests.postgres import Cluster
from tests.stores import PostgresTemplate
from tests.system.conftest import serving
from tests.system.full_disk import Disk
from tests.system.processes import Service, send, until
from tests.system.test_console_tasks import FORM, Person
from tests.unit.audit_trails import lines

pytestmark = pytest.mark.system_long
LIMIT = 60
TABS = 4
CONSOLE = {"console": "on", "audit": "on", "console_limits": f"clerk={LIMIT},viewer=10000"}


def ask(service: Service, person: Person, plates: int = 1) -> int:
    """Look plates up, and return the status of the answer."""
    body = urlencode({"plates": "AB12CDE\n" * plates})
    headers = {**FORM, "Cookie": person.cookie}
    return send(service.bind, "POST", f"{ROOT}/look-up", body=body, headers=headers).status


def counted(url: str) -> int:
    """Return the plates that the limit has counted; 0 if it has counted none."""
    with closed_afterwards(open_engine(url)) as engine:
        return sum(each.plates for each in PersonDay.select().execute(engine))


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path) -> Iterator[World]:
    """An installation on each database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("world")
        return
    cluster = Cluster(tmp_path / "postgres.log")
    template = PostgresTemplate(cluster.url)
    world = World(tmp_path, template.store(tmp_path), template.keys)
    template.release()
    yield world
    world.close()
    cluster.stop("immediate")


def test_a_limit_holds_across_hosts_and_kills(world):
    """A killed host costs at most the plates that it was answering, and gives none away."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    trails = [world.directory / f"audit{number}" for number in range(2)]
    statuses: Counter[int] = Counter()
    are_killed = threading.Event()

    def look_up(number: int) -> None:
        """Look up at a host until the limit is reached, whether it is killed or not."""
        service, person = services[number % 2], people[number % 2]
        while not statuses[429] or number % 2:
            try:
                status = ask(service, person)
            except (OSError, http.client.HTTPException):
                are_killed.wait()  # The second host has been started again.
                service = services[number % 2]
                continue
            statuses[status] += 1
            if status == 429:
                return

    with serving(world) as serve:

        def start(number: int) -> Service:
            state = world.directory / f"host{number}"
            return serve(state_dir=state, audit_dir=trails[number], **CONSOLE)

        services = [start(number) for number in range(2)]
        people = [Person(world, service, Role.CLERK) for service in services]
        with ThreadPoolExecutor(TABS) as pool:
            tabs = [pool.submit(look_up, number) for number in range(TABS)]
            until(lambda: statuses[200] > LIMIT // 3, "some answers")
            services[1].kill()
            services[1] = start(1)
            are_killed.set()
            for each in tabs:
                each.result()
    assert statuses.keys() == {200, 429}
    assert LIMIT - TABS <= statuses[200] <= LIMIT
    assert counted(world.store.url) == LIMIT
    recorded = sum(len(each["plates"]) for trail in trails for each in lines(trail))
    assert statuses[200] <= recorded <= LIMIT


@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
def test_a_full_disk_answers_no_look_up_that_it_cannot_count(world, serve, make_disk):
    """Look-ups are refused until there is room, and cost nothing."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    disk = Disk(make_disk(24))
    trail = world.directory / "audit"
    settings = {**disk.move_here(world), "audit_dir": trail, **CONSOLE}
    service = serve(workers=1, **settings)
    with closed_afterwards(open_engine(settings["database_url"])) as engine:
        token = create_link(engine, "ann", Role.VIEWER)
    person = Person(world, service, token=token)
    assert ask(service, person, 2) == 200
    disk.fill()
    answered = 2
    # The log of the database may still have room for some writes.
    while (status := ask(service, person)) == 200:
        answered += 1
        assert answered < 10_000
    assert status == 503
    assert [ask(service, person) for _ in range(3)] == [503] * 3
    disk.empty()
    until(lambda: ask(service, person) == 200, "room")
    assert counted(settings["database_url"]) == answered + 1
    assert sum(len(each["plates"]) for each in lines(trail)) == answered + 1
