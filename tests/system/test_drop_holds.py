"""Held loads of a real drop directory, accepted by real commands that are killed or race (D158)."""

import os
import random
import secrets
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

import pytest

from app.registers.generations import is_being_loaded
from app.registers.history import list_loads
from app.storage.engine import close_quietly
from tests.system.drop import Drop
from tests.system.full_disk import Disk
from tests.system.processes import environment, run_command, until
from tests.system.warm import WarmProcess

pytestmark = pytest.mark.system_long
HEADER = "registration,make,insured,lastUpdated,padding\n"
WORDS = ("imports", "accept", "2")
KILLS = 12
SECONDS = 0.6
"""About as long as an acceptance takes."""


def cars(count: int, insured: bool = True) -> str:
    """Return a file of cars. It is larger than a piece, so that its load forks."""
    row = "AB{:05},FORD,{},2026-0{}-01T00:00:00Z,{}\n".format
    filler = "-" * 2_000
    return HEADER + "".join(
        row(n, str(insured).lower(), 1 if insured else 2, filler) for n in range(count)
    )


def hold(drop: Drop, mode: str) -> None:
    """Load 2,000 cars, and let a file be held that takes the cover of all of them."""
    drop.option("fleet", f"--mode {mode} --kind vehicles")
    drop.put("fleet/a.csv", cars(2_000))
    assert drop.run().returncode == 0
    drop.put("fleet/b.csv", cars(2_000, insured=False))
    ended = drop.run()
    assert (ended.returncode, "imports accept 2" in ended.stderr) == (1, True)
    assert drop.left() == ["fleet/failed/b.csv"]


def begun(drop: Drop, words: Sequence[str] = WORDS) -> WarmProcess:
    """Start an acceptance, or another command, in its own process group."""
    with open(os.devnull, "r+") as null:
        streams = [null.fileno()] * 3
        return WarmProcess(list(words), streams, env=environment(**drop.settings), is_leader=True)


def insured(drop: Drop) -> bool:
    """Tell whether the answer for a car is that it is insured."""
    found = run_command("lookup", "AB00001", "--json", **drop.settings)
    return '"insured":true' in found.stdout.replace(" ", "")


@pytest.mark.sample
def test_the_right_file_is_loaded_after_a_look(drop, world):
    """What an operator types, from the alert to the record of actions."""
    hold(drop, "replace")
    told = run_command("check", **drop.settings).stdout
    assert "Load 2, a replace of vehicles of the register fleet, breaks rules (insured)" in told
    assert "2,000 plates would lose their cover" in (
        run_command("imports", "show", "2", **drop.settings).stdout
    )
    assert insured(drop)
    ended = run_command(*WORDS, **drop.settings)
    assert ended.returncode == 0, ended.stderr
    assert not insured(drop)
    assert (drop.left(), drop.loaded()) == ([], ["fleet/loaded/a.csv", "fleet/loaded/b.csv"])
    assert "held" not in run_command("check", **drop.settings).stdout
    actions = run_command("actions", "list", "--action", "imports.accept", **drop.settings).stdout
    assert "accept:insured" in actions
    assert "accepted before" in run_command(*WORDS, **drop.settings).stderr


@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_a_killed_acceptance_can_be_repeated(drop, world, mode):
    """Until the rows are in, it is held; the file is never lost, and loaded once."""
    hold(drop, mode)
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(KILLS):
        process = begun(drop)
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.05, SECONDS))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not is_being_loaded(world.engine, "fleet"), "the lock to be free")
        close_quietly(world.engine)
        assert [name for name in [*drop.left(), *drop.loaded()] if name.endswith("b.csv")]
    ended = run_command(*WORDS, **drop.settings)
    if ended.returncode:
        assert "accepted before" in ended.stderr, ended.stderr
    assert not insured(drop)
    done = [line for line in list_loads(world.engine) if line.status == "done"]
    assert [line.accepts for line in done] == [2, None]


def test_of_two_at_once_one_loads(drop, world):
    """The other one fails and says why."""
    hold(drop, "replace")
    both = [begun(drop), begun(drop)]
    assert sorted(process.wait() for process in both) == [0, 1]
    assert not insured(drop)
    assert (drop.left(), len(drop.loaded())) == ([], 2)


def test_of_an_acceptance_and_a_rejection_one_counts(drop, world):
    """Whichever comes first: the other one fails, and the answers and the history agree."""
    hold(drop, "replace")
    decisions = [begun(drop), begun(drop, ("imports", "reject", "2"))]
    accepted, rejected = (process.wait() for process in decisions)
    assert {accepted, rejected} == {0, 1}
    assert insured(drop) == (rejected == 0)
    (line,) = [line for line in list_loads(world.engine) if line.id == 2]
    assert str(line.reason).startswith("rejected by" if rejected == 0 else "the load breaks")
    assert drop.left() == ([] if accepted == 0 else ["fleet/failed/b.csv"])


def test_a_full_disk_holds_it_longer(drop, world, little_disk):
    """Nothing is changed, and the file waits until there is room."""
    hold(drop, "replace")
    disk = Disk(little_disk)
    drop.settings |= disk.move_here(world)
    disk.fill()
    ended = run_command(*WORDS, **drop.settings)
    assert ended.returncode == 1
    assert "space" in ended.stderr or "full" in ended.stderr, ended.stderr
    disk.empty()
    assert insured(drop)
    assert run_command(*WORDS, **drop.settings).returncode == 0
    assert not insured(drop)
