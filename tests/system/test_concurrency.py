"""Many clients at once, on several workers, while registers are loaded."""

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from app.registers.history import list_loads
from app.storage.registers import Register
from app.storage.stores import store_of
from app.storage.tables import Vehicle
from tests.system.processes import Service, environment, until

CLIENTS = 16
NAMES = 10
PATH = "/v1/vehicle/AB12CDE/insurance"
CAR = {"registration": "AB12CDE", "make": "FORD"}


def create(service: Service, name: str) -> int:
    """Return the status of an attempt to create a domain."""
    return service.post("/api/domains", {"name": name}).status


def test_simultaneous_creates_of_one_name_make_one_domain(serve):
    """Of 16 clients with 4 workers one gets 201, all others 409, for each of ten names."""
    service = serve(workers=4)
    with ThreadPoolExecutor(CLIENTS) as clients:
        for number in range(NAMES):
            name = f"n{number}.example.com"
            statuses = Counter(clients.map(lambda _, name=name: create(service, name), range(16)))
            assert statuses == {201: 1, 409: CLIENTS - 1}
    assert len(service.get("/api/domains").json()["domains"]) == NAMES


def test_simultaneous_creates_of_many_names_make_all_of_them(serve):
    """Writers wait for each other, and none gets an error (D27)."""
    service = serve(workers=4)
    names = [f"n{number}.example.com" for number in range(64)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        statuses = Counter(clients.map(lambda name: create(service, name), names))
    assert statuses == {201: 64}


def test_domains_are_created_while_an_import_runs(served, world):
    """A load that another process reads delays neither writes nor look-ups."""
    world.load([CAR])
    with subprocess.Popen(
        [sys.executable, "-m", "app", "import", "-", "--json"],
        env=environment(database_url=world.config.database_url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as importing:
        assert importing.stdin
        importing.stdin.write(b"registration,make\nAB12CDE,SKODA\n" + b"X1,X\n" * 50_000)
        importing.stdin.flush()
        until(lambda: list_loads(world.engine)[0].status == "running", "the load to be running")
        assert create(served, "example.com") == 201
        assert served.get(PATH).json()["vehicle"]["make"] == "FORD"
        assert importing.poll() is None
        result = json.loads(importing.communicate()[0])
    assert result["changed"] == 2
    assert served.get(PATH).json()["vehicle"]["make"] == "SKODA"


def test_domains_are_created_while_a_register_is_written(serve, world):
    """Domains and registers are written under different locks."""
    world.load([CAR])
    served = serve(workers=1)
    assert served.get(PATH).status == 200
    generation = Register.select(Register.generation).scalar(world.engine)
    with store_of(world.engine, "native").opened(generation) as (register, _):
        with register.atomic():
            Vehicle.update(make="SKODA").execute(register)
            assert create(served, "example.com") == 201
            assert served.get(PATH).json()["vehicle"]["make"] == "FORD"
        assert served.get(PATH).json()["vehicle"]["make"] == "SKODA"


def test_a_new_register_counts_from_the_next_request(served, world):
    """Every worker attaches a new register without a restart."""
    assert {served.get(PATH).status for _ in range(8)} == {404}
    world.load([CAR])
    assert {served.get(PATH).status for _ in range(8)} == {200}
    world.load([CAR | {"registration": "AB13CDE"}], register="other")
    assert {served.get(PATH.replace("12", "13")).status for _ in range(8)} == {200}


def test_a_revoked_key_ends_with_the_next_request(served, world):
    """Workers do not cache keys (D3)."""
    assert {served.get("/api/domains").status for _ in range(8)} == {200}
    words = [sys.executable, "-m", "app", "keys", "revoke", served.key[10:18]]
    subprocess.run(
        words,
        env=environment(database_url=world.config.database_url),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert {served.get("/api/domains").status for _ in range(8)} == {401}
