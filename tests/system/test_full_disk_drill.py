"""A small disk is filled and emptied at random moments under load (D57)."""

import json
import random
import secrets
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from app.accounts.administration import set_plan
from app.domains.repository import Domain
from app.storage.engine import close_quietly, open_engine
from tests.system.creators import Creators
from tests.system.full_disk import Disk, Greed
from tests.system.processes import EVERY_RULE_ACCEPTED, run_command, send
from tests.system.threads import Threads

PATH = "/v1/vehicle/AB12CDE/insurance"
BULK = "/v1/vehicle/bulk-insurance"
MAKES = ("FORD", "SKODA", "SEAT")
CYCLES = 20


class Readers(Threads):
    """Clients that look vehicles up; `with` runs them. Every answer is counted."""

    def __init__(self, bind: str, key: str) -> None:
        self._bind = bind
        self._headers = {"X-API-Key": key, "Content-Type": "application/json"}
        self.answers: Counter[tuple[int, object]] = Counter()
        super().__init__(self._one, self._many)

    def _one(self) -> None:
        while not self.over.is_set():
            answer = send(self._bind, "GET", PATH, headers=self._headers)
            told = answer.json()["vehicle"]["make"] if answer.status == 200 else answer.body
            self.answers[answer.status, told] += 1

    def _many(self) -> None:
        body = json.dumps({"registrations": ["AB12CDE", "AA000001", "ZZ99ZZZ"]})
        while not self.over.is_set():
            answer = send(self._bind, "POST", BULK, body=body, headers=self._headers)
            told = answer.json()["successful"] if answer.status == 200 else answer.body
            self.answers[answer.status, told] += 1


class Operator(Threads):
    """Runs commands one after the other, in any order, whether the disk is full or not."""

    def __init__(self, directory: Path, disk: Disk, settings: dict[str, Any], seed: int) -> None:
        self._chance = random.Random(seed)
        self._settings = settings
        self.ended: Counter[tuple[str, int]] = Counter()
        self.tracebacks: list[str] = []
        self._files = {make: cars(directory, make, 8_000) for make in MAKES}
        self._backups = disk.path / "backups"
        super().__init__(self._run)

    def _run(self) -> None:
        while not self.over.is_set():
            file = self._files[self._chance.choice(MAKES)]
            commands: dict[str, tuple[object, ...]] = {
                "merge": ("import", file, *EVERY_RULE_ACCEPTED),
                "replace": ("import", file, "--mode", "replace", *EVERY_RULE_ACCEPTED),
                "backup": ("backup", self._backups, "--keep", "2", "--registers"),
                "rollback": ("imports", "rollback"),
            }
            name, words = self._chance.choice(list(commands.items()))
            ended = run_command(*words, **self._settings)
            self.ended[name, ended.returncode] += 1
            if "Traceback" in ended.stderr:
                self.tracebacks.append(ended.stderr)


def cars(directory: Path, make: str, rows: int) -> Path:
    """A register file of vehicles of one make."""
    path = directory / f"{make}.csv"
    lines = (f"AA{n:06},{make},{'X' * 40}\n" for n in range(rows))
    path.write_text(f"registration,make,model\nAB12CDE,{make},\n" + "".join(lines))
    return path


@pytest.mark.system_long
def test_a_disk_filled_and_emptied_under_load(serve, world, make_disk):
    """Nothing acknowledged is lost, every look-up is answered, and no restart is needed."""
    seed = secrets.randbits(32)
    chance = random.Random(seed)
    disk = Disk(make_disk(64))
    set_plan(
        world.engine,
        "drill",
        {"requests": 1_000_000, "window_seconds": 1, "bulk_max": 100, "domains_max": 10**6},
    )
    keys = [world.key_of(name, "drill") for name in ("carol", "dave")]
    settings = disk.move_here(world) | {"state_dir": disk.path / "state"}
    assert run_command("import", cars(world.directory, "FORD", 8_000), **settings).returncode == 0
    service = serve(**settings)
    creators = Creators(service.bind, keys)
    readers = Readers(service.bind, keys[0])
    operator = Operator(world.directory, disk, settings, seed)
    with creators, readers, operator:
        for _ in range(CYCLES):
            time.sleep(chance.uniform(0.1, 1.5))  # This test tries random moments.
            with ExitStack() as full:
                if chance.random() < 0.5:
                    full.enter_context(Greed(disk))
                else:
                    disk.fill(leave_bytes=chance.choice([0, 0, 100_000, 1_000_000]))
                time.sleep(chance.uniform(0.1, 1.5))
            disk.empty()
        creators.wait_for(10)
    told = f"seed {seed}: {operator.ended}, {readers.answers}, {creators.statuses('POST')}"
    print(told)
    assert operator.tracebacks == []
    assert {answer[0] for answer in readers.answers} == {200}, told
    assert {answer[1] for answer in readers.answers} <= {*MAKES, 2}, told
    assert creators.statuses("POST") == {201, 503}, told
    assert creators.statuses("GET") <= {200, 404}, told
    require_all_kept(settings, creators.acknowledged())
    last = run_command(
        "import", cars(world.directory, "SEAT", 8_000), *EVERY_RULE_ACCEPTED, **settings
    )
    assert last.returncode == 0
    assert run_command("backup", world.directory / "last", **settings).returncode == 0
    assert service.get("/readyz").json()["warnings"] == []
    assert service.get(PATH).json()["vehicle"]["make"] == "SEAT"
    loads = json.loads(run_command("imports", "list", "--json", **settings).stdout)
    assert {load["status"] for load in loads} == {"done", "failed"}
    assert all(load["reason"] for load in loads if load["status"] == "failed")


def require_all_kept(settings: dict[str, Any], acknowledged: set[str]) -> None:
    """Fail unless every domain with a 201 is stored, and all files are sound."""
    engine = open_engine(settings["database_url"])
    stored = {name for (name,) in Domain.select(Domain.name).tuples().execute(engine)}
    assert acknowledged <= stored
    close_quietly(engine)
    for path in settings["state_dir"].parent.glob("verifyd*.db"):
        connection = apsw.Connection(str(path))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
