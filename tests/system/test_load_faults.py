"""Loads that are killed, or run out of room, while a real service goes on answering (D28)."""

import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.database import close_quietly
from app.registers.history import list_loads
from tests.system.processes import environment, run_command

CAR = {"registration": "AB12CDE", "make": "FORD"}
PATH = "/v1/vehicle/AB12CDE/insurance"
KILLED_AT = """
import os, signal, sys
from app.cli import main
from app.registers import history, load, sorting

def killed(*_args, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

{place} = killed
main(["import", *sys.argv[1:]])
"""


@pytest.fixture
def big_file(tmp_path: Path) -> Path:
    """A file of 20,000 vehicles, more than the little disk below has room for."""
    path = tmp_path / "big.csv"
    rows = (f"AA{n:05},{'X' * 100},{'Y' * 100}" for n in range(20_000))
    path.write_text("\n".join(("registration,make,model", "AB12CDE,SKODA,", *rows)))
    return path


def make_of(service) -> str:
    """The make of the car, as the service answers it."""
    answer = service.get(PATH)
    assert answer.status == 200
    return str(answer.json()["vehicle"]["make"])


@pytest.mark.parametrize(
    ("place", "make", "status", "reason"),
    [
        ("sorting.Runs.batches", "FORD", "failed", "interrupted"),
        ("load.note_applied", "FORD", "failed", "interrupted"),
        ("history.History.finish", "SKODA", "done", None),
    ],
    ids=["while reading", "before its commit", "between its commits"],
)
def test_a_killed_load_is_settled_by_the_next(serve, world, place, make, status, reason):
    """A load killed at any moment is all there or not at all, and the next one tells which."""
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


def test_a_load_onto_a_full_disk_changes_nothing(serve, world, little_disk, big_file):
    """It ends with a clear message; look-ups go on, and with room again the load succeeds."""
    world.load([CAR])
    close_quietly(world.engine)
    for path in world.directory.glob("verifyd.*"):
        shutil.move(path, little_disk)
    settings = {
        "database_url": f"sqlite:///{little_disk / 'verifyd.db'}",
        "state_dir": world.directory / "state",
    }
    service = serve(workers=1, **settings)
    ended = run_command("import", big_file, **settings)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "disk is full" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert make_of(service) == "FORD"
    subprocess.run(["mount", "-o", "remount,size=60m", str(little_disk)], check=True)
    again = run_command("import", big_file, "--json", **settings)
    assert json.loads(again.stdout)["changed"] == 20_001
    assert make_of(service) == "SKODA"


def test_a_load_that_may_write_no_more_changes_nothing(serve, world, big_file):
    """A limit on the size of files ends a load like a full disk does."""
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
    """`zcat FILE | verifyd import -` loads what comes, to its end."""
    ended = subprocess.run(
        [sys.executable, "-m", "app", "import", "-", "--json"],
        env=environment(database_url=world.config.database_url),
        input=b"registration,make\nAB12CDE,FORD\n",
        capture_output=True,
        check=True,
    )
    assert json.loads(ended.stdout)["loaded"] == 1
