"""Loads that are killed, or have no space, while a real service continues to answer (D28)."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.accounts.administration import set_plan
from app.processes import CORES
from app.registers.history import list_loads
from app.storage.engine import close_quietly, open_engine
from tests.conftest import World
from tests.postgres import connect
from tests.system.full_disk import Disk
from tests.system.processes import environment, run_command, until

CAR = {"registration": "AB12CDE", "make": "FORD"}
PATH = "/v1/vehicle/AB12CDE/insurance"
KILLED_AT = """
import os, signal, sys
from app.cli import main
from app.registers import modes
from app.registers.reading import sorted_runs as sorting

def killed(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

{place} = killed
main(["import", *sys.argv[1:]])
"""


@pytest.fixture
def big_file(tmp_path: Path) -> Path:
    """A file of 20,000 vehicles, too large for the little disk below."""
    path = tmp_path / "big.csv"
    rows = (f"AA{n:05},{'X' * 100},{'Y' * 100}" for n in range(20_000))
    path.write_text("\n".join(("registration,make,model", "AB12CDE,SKODA,", *rows)))
    return path


def many_rows(directory: Path, rows: int) -> Path:
    """A file that several processes read and that is sorted on disk: AB12CDE, and others."""
    path = directory / "many.csv"
    lines = (f"AA{n:06},SKODA,{'X' * 60}\n" for n in range(rows - 1))
    path.write_text("registration,make,model\nAB12CDE,SKODA,\n" + "".join(lines))
    return path


def started_load(world: World, file: Path, mode: str) -> "subprocess.Popen[str]":
    """Start a load in its own process group, and wait until it is in the history."""
    lines = len(list_loads(world.engine))
    # A background process ignores Ctrl-C, and so would its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    load = subprocess.Popen(
        [sys.executable, "-m", "app", "import", str(file), "--mode", mode],
        env=environment(database_url=world.config.database_url, state_dir=world.config.state_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(list_loads(world.engine)) > lines, "the load to begin")
    return load


def make_of(service) -> str:
    """Return the make of the car, as the service answers it."""
    answer = service.get(PATH)
    assert answer.status == 200
    return str(answer.json()["vehicle"]["make"])


@pytest.mark.parametrize(
    ("place", "make", "status", "reason"),
    [
        ("sorting.Runs.batches", "FORD", "failed", "interrupted"),
        ("modes.note_applied", "FORD", "failed", "interrupted"),
        ("modes.finish_merge", "SKODA", "done", None),
    ],
    ids=["while reading", "before its commit", "between its commits"],
)
def test_a_killed_load_is_settled_by_the_next(serve, world, place, make, status, reason):
    """A load killed at any moment is complete or absent, and the next one records which."""
    world.load([CAR])
    service = serve(workers=1)
    file = world.directory / "new.csv"
    file.write_text("registration,make\nAB12CDE,SKODA\n")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_AT.format(place=place), str(file)],
        env=environment(database_url=world.config.database_url),
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert make_of(service) == make
    world.load([CAR | {"registration": "AB13CDE"}])
    load = list_loads(world.engine)[1]
    assert (load.status, load.reason) == (status, reason)
    assert make_of(service) == make


@pytest.mark.parametrize("mode", ["merge", pytest.param("replace", marks=pytest.mark.system_long)])
def test_a_load_onto_too_small_a_disk_changes_nothing(serve, world, little_disk, big_file, mode):
    """It fails with a clear message, look-ups work, and with space the load succeeds."""
    world.load([CAR])
    settings = Disk(little_disk).move_here(world)
    service = serve(workers=1, **settings)
    before = sorted(path.name for path in little_disk.iterdir())
    ended = run_command("import", big_file, "--mode", mode, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the load needs about" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert make_of(service) == "FORD"
    assert sorted(path.name for path in little_disk.iterdir()) == before
    subprocess.run(["mount", "-o", "remount,size=60m", str(little_disk)], check=True)
    again = run_command("import", big_file, "--mode", mode, "--json", **settings)
    assert json.loads(again.stdout)["changed"] == 20_001
    assert make_of(service) == "SKODA"


def test_rows_that_find_no_room_to_wait_are_refused(world, little_disk):
    """Sorted runs are on disk, next to the data, and are removed with the load."""
    world.load([CAR])
    settings = Disk(little_disk).move_here(world)
    file = many_rows(world.directory, 250_000)
    free = shutil.disk_usage(little_disk).free
    ended = run_command("import", file, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    told = ended.stderr.splitlines()[-1]
    # The space is estimated after the first piece, unless it runs out before.
    assert "the load needs about" in told or "No space left on device" in told
    assert free - shutil.disk_usage(little_disk).free < 100_000


def test_a_load_onto_a_disk_that_was_full_before_changes_nothing(world, little_disk):
    """It is refused, as the history shows, and the disk's content can still be read."""
    world.load([CAR])
    disk = Disk(little_disk)
    settings = disk.move_here(world)
    file = world.directory / "new.csv"
    file.write_text("registration,make\nAB12CDE,SKODA\n")
    engine = open_engine(settings["database_url"])  # as the service has
    assert list_loads(engine)
    disk.fill()
    ended = run_command("import", file, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert [(load.status, bool(load.reason)) for load in list_loads(engine)] == [
        ("failed", True),
        ("done", False),
    ]
    disk.empty()
    close_quietly(engine)
    again = run_command("import", file, "--json", **settings)
    assert json.loads(again.stdout)["changed"] == 1


@pytest.mark.parametrize(
    ("number", "mode"), [(signal.SIGTERM, "merge"), (signal.SIGINT, "replace")]
)
def test_a_load_that_is_stopped_leaves_nothing(world, number, mode):
    """Ctrl-C, also of its children, or TERM leaves one line, the old data, and no files."""
    world.load([CAR])
    before = sorted(path.name for path in world.directory.glob("verifyd.*"))
    file = many_rows(world.directory, 250_000)
    load = started_load(world, file, mode)
    if CORES > 1:  # Otherwise a load reads its file by itself.
        until(Path(f"/proc/{load.pid}/task/{load.pid}/children").read_text, "its children")
    os.killpg(load.pid, number)
    stdout, stderr = load.communicate()
    assert (load.returncode, stdout) == (128 + number, "")
    assert stderr == "interrupted\n"
    assert sorted(path.name for path in world.directory.glob("verifyd.*")) == before
    assert [(each.status, each.reason) for each in list_loads(world.engine)] == [
        ("failed", "interrupted"),
        ("done", None),
    ]
    assert world.load([CAR]).held == 1


@pytest.mark.parametrize("mode", ["replace", pytest.param("merge", marks=pytest.mark.system_long)])
def test_the_service_goes_on_during_a_load(serve, world, mode):
    """Look-ups are answered, and domains can be created."""
    world.load([CAR])
    service = serve(workers=2)
    # However fast the service is beside the load, no limit is reached.
    many = {"requests": 10**6, "window_seconds": 60, "bulk_max": 1, "domains_max": 10**6}
    set_plan(world.engine, "many", many)
    service.key = world.key_of("carol", "many")
    load = started_load(world, many_rows(world.directory, 40_000), mode)
    created = 0
    while load.poll() is None:
        assert make_of(service) in ("FORD", "SKODA")
        assert service.post("/api/domains", {"name": f"d{created}.example.com"}).status == 201
        created += 1
    load.communicate()
    assert load.returncode == 0
    assert created > 3
    assert make_of(service) == "SKODA"


@pytest.mark.system_long
@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_a_load_whose_postgres_stops_changes_nothing(cluster, tmp_path, mode):
    """It fails with a clear message, and succeeds when the database is back."""
    cluster.configure()  # Otherwise the server could lose the latest history.
    settings = {"database_url": cluster.url, "state_dir": tmp_path / "state"}
    assert run_command("migrate", **settings).returncode == 0
    car = tmp_path / "car.csv"
    car.write_text("registration,make\nAB12CDE,FORD\n")
    assert run_command("import", car, **settings).returncode == 0
    file = many_rows(tmp_path, 40_000)
    load = subprocess.Popen(
        [sys.executable, "-m", "app", "import", str(file), "--mode", mode],
        env=environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    busy = (
        "SELECT 1 FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() "
        """AND query SIMILAR TO '(COPY|INSERT)%register_native"."vehicle"%'"""
    )
    with connect(cluster.url) as operator:
        until(lambda: operator.execute(busy).fetchone(), "rows to be written")
    cluster.stop("immediate")
    _, stderr = load.communicate()
    assert load.returncode == 1
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1]
    cluster.start()
    (line, _) = json.loads(run_command("imports", "list", "--json", **settings).stdout)
    assert line["status"] == "interrupted"
    again = run_command("import", file, "--mode", mode, "--json", **settings)
    assert json.loads(again.stdout)["changed"] == 40_000


def test_a_load_that_may_write_no_more_changes_nothing(serve, world, big_file):
    """A limit on the size of files stops a load like a full disk."""
    world.load([CAR])
    service = serve(workers=1)
    ended = subprocess.run(
        [sys.executable, "-m", "app", "import", str(big_file)],
        env=environment(database_url=world.config.database_url),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the database cannot be used: " in ended.stderr
    assert make_of(service) == "FORD"
    assert [load.status for load in list_loads(world.engine)] == ["failed", "done"]


def test_a_piped_load_reads_standard_input(world):
    """`zcat FILE | verifyd import -` loads its input to the end."""
    ended = subprocess.run(
        [sys.executable, "-m", "app", "import", "-", "--json"],
        env=environment(database_url=world.config.database_url),
        input=b"registration,make\nAB12CDE,FORD\n",
        capture_output=True,
        check=True,
    )
    assert json.loads(ended.stdout)["loaded"] == 1
