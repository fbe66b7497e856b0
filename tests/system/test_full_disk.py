"""On a full disk look-ups and commands that free space work, without a restart (D57)."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest

from app.accounts.tokens import parse_token
from app.storage.engine import close_quietly, open_engine
from tests.system.full_disk import Disk, Greed
from tests.system.processes import environment, run_command, until

CAR = {"registration": "AB12CDE", "make": "FORD"}
PATH = "/v1/vehicle/AB12CDE/insurance"


@pytest.fixture
def disk(make_disk):
    """A disk of 24 MB."""
    return Disk(make_disk(24))


def csv_of(directory, rows, make="SKODA"):
    """Write a register file of the car and others; 58 bytes per row."""
    path = directory / "cars.csv"
    lines = (f"AA{n:06},{make},{'X' * 40}\n" for n in range(rows - 1))
    path.write_text(f"registration,make,model\nAB12CDE,{make},\n" + "".join(lines))
    return path


def loads(settings):
    """Return the history of loads, the latest first."""
    return json.loads(run_command("imports", "list", "--json", **settings).stdout)


def statuses(ask, times):
    """Return the number of answers per status."""
    return Counter(ask(number).status for number in range(times))


BOTH_MODES = pytest.mark.parametrize(
    "mode", ["replace", pytest.param("merge", marks=pytest.mark.system_long)]
)
# A load cannot know what else takes the disk's space meanwhile.
UNFORESEEN = """
import sys
from app.cli import main
from app.registers.space import Space

Space._require = lambda *_: None
sys.exit(main(["import", *sys.argv[1:]]))
"""


def unforeseen_load(*words, **settings):
    """Run a load that does not check the free space."""
    return subprocess.run(
        [sys.executable, "-c", UNFORESEEN, *map(str, words)],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )


def require_unharmed(service, expected):
    """Fail unless domains can be created, and look-ups answer as before."""
    created = statuses(lambda n: service.post("/api/domains", {"name": f"d{n}.example"}), 10)
    assert created == {201: 10}
    assert statuses(lambda _: service.get(PATH), 20) == {expected: 20}


@pytest.fixture(
    params=[
        pytest.param(404, id="a new register", marks=pytest.mark.system_long),
        pytest.param(200, id="a register that is there"),
    ]
)
def expected(request):
    """Return the answer to a look-up of the car before the load."""
    return request.param


@pytest.fixture
def settings(world, disk, expected):
    """Return the settings of an installation on the disk, with the car or without registers."""
    if expected == 200:
        world.load([CAR])
    return disk.move_here(world)


@BOTH_MODES
def test_a_load_that_fills_the_disk_gives_it_back(serve, world, disk, settings, expected, mode):
    """Its files are removed at once, the history has the reason, and the service continues."""
    service = serve(**settings)
    assert statuses(lambda _: service.get(PATH), 20) == {expected: 20}
    before = disk.names
    disk.fill(leave_bytes=1_200_000)
    free_bytes = disk.free_bytes
    ended = unforeseen_load(csv_of(world.directory, 17_000), "--mode", mode, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Traceback" not in ended.stderr
    assert disk.names == before
    assert free_bytes - disk.free_bytes < 100_000
    line = loads(settings)[0]
    assert line["status"] == "failed"
    assert re.search("full|No space left", line["reason"])
    require_unharmed(service, expected)


@BOTH_MODES
def test_a_load_without_room_is_refused(serve, world, disk, settings, expected, mode):
    """The refusal has the needed and the free space; with enough space the load succeeds."""
    service = serve(**settings)
    disk.fill(leave_bytes=1_200_000)
    rows = csv_of(world.directory, 17_000)
    refused = run_command("import", rows, "--mode", mode, **settings)
    assert refused.returncode == 1
    told = (
        rf"the load needs about \d\.\d MB of disk space in {disk.path}, "
        r"but only [\d.]+ [kM]B are free"
    )
    assert re.search(told, refused.stderr)
    line = loads(settings)[0]
    assert line["status"] == "failed"
    assert re.match(told, line["reason"])
    require_unharmed(service, expected)
    disk.empty()
    assert run_command("import", rows, "--mode", mode, **settings).returncode == 0
    assert service.get(PATH).json()["vehicle"]["make"] == "SKODA"


@BOTH_MODES
def test_a_load_is_refused_with_figures_on_a_full_disk(world, disk, mode):
    """The refusal works without a service, which would have made log and index before."""
    world.load([CAR])
    settings = disk.move_here(world)
    assert run_command("imports", "list", **settings).returncode == 0
    disk.fill()
    refused = run_command("import", csv_of(world.directory, 9), "--mode", mode, **settings)
    assert refused.returncode == 1
    assert "the load needs about 1" in refused.stderr
    assert " kB are free; make room" in loads(settings)[0]["reason"]


@pytest.mark.system_long
@pytest.mark.parametrize("is_serving", [True, False], ids=["served", "stopped"])
def test_registers_can_be_dropped_and_rolled_back_on_a_full_disk(serve, world, disk, is_serving):
    """Freeing space needs no free space, because of the reserve."""
    world.load([CAR])
    world.load([CAR], register="other")
    settings = disk.move_here(world)
    replaced = run_command("import", csv_of(world.directory, 9), "--mode", "replace", **settings)
    assert replaced.returncode == 0
    service = serve(**settings) if is_serving else None
    disk.fill()
    rolled_back = run_command("imports", "rollback", **settings)
    assert rolled_back.returncode == 0, rolled_back.stderr
    assert loads(settings)[0]["status"] == "done"
    if service is not None:
        makes = {service.get(PATH).json()["vehicle"]["make"] for _ in range(20)}
        assert makes == {"FORD"}
    require_done("drop", "native", "--yes", **settings)
    if service is not None:
        assert statuses(lambda _: service.get(PATH), 20) == {200: 20}
    require_done("undrop", "native", **settings)
    require_done("drop", "other", "--yes", "--purge", **settings)
    require_done("drop", "native", "--yes", **settings)
    if service is not None:
        assert statuses(lambda _: service.get(PATH), 20) == {404: 20}
    require_done("drop", "native", "--yes", "--purge", **settings)
    assert not [name for name in disk.names if "register" in name]


def require_done(*words, **settings):
    """Run `verifyd imports WORDS`, which must succeed and be the latest line of the history."""
    ended = run_command("imports", *words, **settings)
    assert ended.returncode == 0, ended.stderr
    assert loads(settings)[0]["mode"] == ("purge" if "--purge" in words else words[0])


def test_a_key_can_be_revoked_on_a_full_disk(serve, world, disk):
    """A leaked key must not work until somebody has freed space."""
    world.load([CAR])
    token = parse_token(world.alice_key)
    assert token is not None
    settings = disk.move_here(world)
    service = serve(**settings)
    with_key = service.get(PATH).status
    disk.fill()
    assert run_command("keys", "revoke", token.key_id, **settings).returncode == 0
    assert (with_key, service.get(PATH).status) == (200, 401)


@pytest.mark.system_long
def test_look_ups_go_on_while_others_take_every_block(serve, world, disk):
    """Refused creations leave the connections and files that reading needs."""
    world.load([CAR])
    key = world.key_of("carol", "enterprise")
    settings = disk.move_here(world)
    service = serve(**settings)
    service.key = key
    # Each creation needs a new name, so that the log grows past its last block.
    numbers = iter(range(1_000_000))

    def create(_number):
        answer = service.post("/api/domains", {"name": f"d{next(numbers)}.example"})
        assert service.get(PATH).status == 200
        return answer

    with Greed(disk):
        until(lambda: create(0).status == 503, "the log to be full")
        assert statuses(create, 100) == {503: 100}
        assert statuses(lambda _: service.get("/api/domains"), 20) == {200: 20}
    assert statuses(create, 10) == {201: 10}
    assert statuses(lambda _: service.get(PATH), 20) == {200: 20}


@pytest.mark.system_long
def test_new_workers_read_on_a_full_disk(serve, world, disk):
    """Workers that replace killed ones, all at once, have the same space as those."""
    world.load([CAR])
    settings = disk.move_here(world)
    service = serve(**settings)
    assert statuses(lambda _: service.get(PATH), 20) == {200: 20}
    disk.fill()
    before = set(service.workers())
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: len(set(service.workers()) - before) == 2, "new workers")
    assert statuses(lambda _: service.get(PATH), 40) == {200: 40}


def test_a_new_generation_can_be_read_on_a_full_disk(serve, world, disk):
    """Reading works even if no block is left for the index of the new generation."""
    world.load([CAR])
    settings = disk.move_here(world)
    service = serve(**settings)
    rows = csv_of(world.directory, 9)
    engine = open_engine(settings["database_url"])
    assert run_command("import", rows, "--mode", "replace", **settings).returncode == 0
    with Greed(disk):
        makes = {service.get(PATH).json()["vehicle"]["make"] for _ in range(40)}
        assert makes == {"SKODA"}
    close_quietly(engine)
    seats = csv_of(world.directory, 9, "SEAT")
    assert run_command("import", seats, "--accept", "identity", **settings).returncode == 0
    makes = {service.get(PATH).json()["vehicle"]["make"] for _ in range(40)}
    assert makes == {"SEAT"}


@pytest.mark.parametrize(
    "is_full_first",
    [
        pytest.param(True, id="before the stop"),
        pytest.param(False, id="since the stop", marks=pytest.mark.system_long),
    ],
)
def test_a_service_starts_on_a_full_disk(serve, world, disk, is_full_first):
    """After a restart look-ups answer as before."""
    world.load([CAR])
    settings = disk.move_here(world)
    first = serve(**settings)
    assert first.get(PATH).status == 200
    if is_full_first:
        disk.fill()
    assert first.stop() == 0
    if not is_full_first:
        disk.fill()
    checked = run_command("check", **settings)
    assert checked.returncode == 0, checked.stderr
    second = serve(**settings)
    assert statuses(lambda _: second.get(PATH), 20) == {200: 20}


def test_a_full_disk_is_a_warning(serve, world, disk):
    """The service stays ready while look-ups work, and reports what fails."""
    world.load([CAR])
    settings = disk.move_here(world)
    service = serve(**settings)
    assert service.get("/readyz").json()["warnings"] == []
    disk.fill()
    told = service.get("/readyz")
    assert (told.status, told.json()["status"]) == (200, "ready")
    full, next_load = told.json()["warnings"]
    assert full == f"The disk of {disk.path} is full: 0 bytes are free."
    assert next_load.startswith("The next load of the register native needs about")
    assert b"verifyd_database_writable 0.0" in service.get("/metrics").body
    disk.empty()
    assert service.get("/readyz").json()["warnings"] == []


def test_metrics_work_on_a_full_disk(serve, world, disk):
    """New workers without space to count in answer, too: the metrics alert the operator."""
    world.load([CAR])
    settings = disk.move_here(world) | {"state_dir": disk.path / "state"}
    service = serve(**settings)
    disk.fill()
    with Greed(disk):
        shutil.rmtree(disk.path / "state" / "metrics")
        assert statuses(lambda _: service.get(PATH), 20) == {200: 20}
        told = service.get("/metrics")
        assert told.status == 200
        assert b"verifyd_database_writable 0.0" in told.body


@pytest.mark.system_long
def test_a_read_only_database_is_a_warning(serve, world, disk):
    """Look-ups work and creations do not, until the database is writable again."""
    world.load([CAR])
    settings = disk.move_here(world)
    database = str(disk.path / "verifyd.db")
    first = serve(**settings)
    subprocess.run(["mount", "-o", "bind,ro", database, database], check=True)
    try:
        service = serve(**settings)
        assert service.post("/api/domains", {"name": "example.com"}).status == 503
        told = service.get("/readyz")
        assert (told.status, len(told.json()["warnings"])) == (200, 1)
        assert "cannot be written to" in told.json()["warnings"][0]
        assert service.get(PATH).status == 200
    finally:
        first.kill()
        subprocess.run(["umount", "--lazy", database], check=True)
    numbers = iter(range(1_000_000))

    def create(_number):
        return service.post("/api/domains", {"name": f"d{next(numbers)}.example"})

    # Each worker notices with its first write, and any worker may answer.
    until(lambda: statuses(create, 20) == {201: 20}, "both workers to write again")
    assert service.get("/readyz").json()["warnings"] == []
