"""Replace: the files are the whole new content (D28)."""

import random
from collections.abc import Callable
from functools import partial
from unittest.mock import Mock

import pytest

from app import clock
from app.errors import OperatorError
from app.processes import ForkedWorker
from app.registers import load as load_module
from app.registers import modes
from app.registers import modes as replacing
from app.registers.applying.table import RegisterTable
from app.registers.generations import Generations
from app.registers.history import list_loads
from app.registers.reading import reader
from app.registers.work import Work
from app.storage.engine import Engine
from app.storage.registers import Register
from app.storage.stores import store_of
from app.storage.tables import Fine, Policy
from tests.conftest import STORAGE
from tests.unit.held import HEADER, generations, held, loaded, makes, vehicles

pytestmark = STORAGE

FIRST, SECOND = 1_900_000_000, 1_900_086_400
POLICIES = "registration,number,validFrom,validTo\nAB12CDE,P-1,2026-01-01,2099-12-31\n"
PATH = "/v1/vehicle/AB12CDE/insurance"


@pytest.fixture
def at(monkeypatch):
    """`at(SECONDS)` sets the clock."""
    return lambda seconds: monkeypatch.setattr(clock, "now", lambda: seconds)


@pytest.fixture
def replace(world):
    """`replace(CONTENT)` replaces the vehicles of the register native by default."""
    return partial(loaded, world)


def many(make: str, numbers: range) -> str:
    """Return a file of many vehicles of one make, unsorted."""
    shuffled = random.Random(make).sample(numbers, len(numbers))
    return HEADER + "".join(f"AB{n:05},{make}\n" for n in shuffled)


def _failing(*_: object, **__: object) -> None:
    raise OSError("no room")


class TestReplace:
    def test_the_file_is_all_there_is(self, world, replace):
        """Rows that are not in the file are removed, and count as changed."""
        replace(vehicles("FORD", "SEAT", "OPEL"))
        result = replace(vehicles("FORD", "KIA"), allow_shrink=True)
        assert makes(world) == ["FORD", "KIA"]
        assert (result.held_before, result.held, result.changed) == (3, 2, 2)
        register = Register.select().get(world.engine)
        assert (register.vehicles, register.kinds) == (2, "v")

    def test_the_same_file_again_changes_nothing(self, world, replace, at):
        """Each unchanged row keeps its time (D21)."""
        for time, changed in ((FIRST, 2), (SECOND, 0)):
            at(time)
            assert replace(vehicles("FORD", "SEAT")).changed == changed
        assert [row[-1] for row in held(world)] == [FIRST, FIRST]

    def test_a_changed_row_gets_the_time_of_its_load(self, world, replace, at):
        """Only the changed row gets the time of the load."""
        at(FIRST)
        replace(vehicles("FORD", "SEAT"))
        at(SECOND)
        assert replace(vehicles("FORD", "KIA")).changed == 1
        assert [row[-1] for row in held(world)] == [FIRST, SECOND]

    @pytest.mark.parametrize(
        "texts", [["FORD", "", "BMW"], ["None", "", "None or so"], ["\\NB", "", "A\\tB\\"], ["%s"]]
    )
    def test_texts_are_held_as_they_are(self, world, replace, texts):
        """Backslashes and texts that look like a null are stored unchanged."""
        assert replace(vehicles(*texts)).loaded == len(texts)
        assert makes(world) == [text or None for text in texts]

    def test_other_kinds_are_carried_over(self, world, replace):
        """Policies and fines, with their times, stay when vehicles are replaced."""
        replace(POLICIES, mode="merge")
        replace("registration,reference,amount\nAB12CDE,F-1,65\n", mode="merge")
        before = held(world, Policy), held(world, Fine)
        replace(vehicles("FORD"))
        assert (held(world, Policy), held(world, Fine)) == before
        register = Register.select().get(world.engine)
        assert (register.kinds, register.policies, register.fines) == ("fpv", 1, 1)

    def test_other_registers_are_left_alone(self, world, replace):
        """A replace affects only its own register (D25)."""
        replace(vehicles("FORD"), register="other")
        replace(vehicles("SEAT"))
        assert [row[1] for row in held(world, register="other")] == ["FORD"]

    def test_a_worker_answers_from_the_new_rows_at_once(self, world, replace, alice):
        """A worker attaches the next generation with its next request."""
        for make in ("FORD", "SEAT"):
            replace(f"{HEADER}AB12CDE,{make}\n")
            assert alice.get(PATH).json["vehicle"]["make"] == make

    def test_the_later_row_of_a_plate_counts(self, world, replace):
        """The later row of a plate counts, as in a merge."""
        assert replace(f"{HEADER}A1,FORD\nA1,SEAT\n").held == 1
        assert makes(world) == ["SEAT"]

    def test_all_of_several_files_is_all_there_is(self, world):
        """The files of one command are the whole new content together."""
        paths = []
        for number in range(3):
            path = world.directory / f"{number}.csv"
            path.write_text(f"{HEADER}A{number},FORD\n")
            paths.append(path)
        assert world.load_files(*paths, mode="replace").held == 3


class TestParallelBuild:
    """Two processes write files of many pieces, each one half of the keys."""

    @pytest.fixture(autouse=True)
    def _small_pieces(self, monkeypatch):
        monkeypatch.setattr(reader, "PIECE_BYTES", 256)

    def test_together_they_are_one_replace(self, world, replace, at, monkeypatch):
        """The result has the same rows and counts as with a single process, and no half fails."""
        ended, wait = list[bool](), ForkedWorker.wait

        def noted(worker: ForkedWorker) -> bool:
            ended.append(wait(worker))
            return ended[-1]

        monkeypatch.setattr(ForkedWorker, "wait", noted)
        at(FIRST)
        replace(many("FORD", range(200)))
        at(SECOND)
        result = replace(
            many("FORD", range(10, 150)) + many("SEAT", range(150, 205))[len(HEADER) :],
            accept=["identity"],
        )
        assert (result.held_before, result.held, result.loaded) == (200, 195, 195)
        assert result.changed == 10 + 50 + 5
        assert makes(world) == ["FORD"] * 140 + ["SEAT"] * 55
        assert [row[-1] for row in held(world)] == [FIRST] * 140 + [SECOND] * 55
        assert len(generations(world)) == 2
        assert all(ended)

    def test_the_later_row_counts_in_both(self, world, replace):
        """The later row counts wherever it is in the file."""
        replace(many("FORD", range(100)) + many("SEAT", range(100)).removeprefix(HEADER))
        assert makes(world) == ["SEAT"] * 100

    def test_policies_are_parted_between_groups(self, world, replace):
        """All periods of one policy are in the same half."""
        periods = "".join(
            f"AB{n // 4:05},P-1,20{10 + n % 4}-01-01,20{10 + n % 4}-12-31\n" for n in range(200)
        )
        header = POLICIES[: POLICIES.index("\n") + 1]
        assert replace(header + periods).held == 200
        assert len(held(world, Policy)) == 200

    def test_one_process_does_all_if_the_other_fails(self, world, replace, monkeypatch):
        """If the second process fails, the first does all the work, and no half is left."""
        replace(many("FORD", range(100)))
        monkeypatch.setattr(modes, "write_value", _failing)
        result = replace(many("SEAT", range(100)), accept=["identity"])
        assert (result.held, result.changed) == (100, 100)
        assert makes(world) == ["SEAT"] * 100
        assert len(generations(world)) == 2

    def test_a_replace_that_both_processes_fail_fails(self, world, replace, monkeypatch):
        """If both fail, only the current generation stays, and the reason is reported."""
        replace(many("FORD", range(100)))
        monkeypatch.setattr(RegisterTable, "fill", _failing)
        with pytest.raises(OSError, match="no room"):
            replace(many("SEAT", range(100)))
        assert makes(world) == ["FORD"] * 100
        assert len(generations(world)) == 1


class TestShrink:
    def test_more_than_a_tenth_less_is_refused(self, world, replace):
        """A source that lost part of its data must not remove ours."""
        replace(vehicles(*["FORD"] * 100))
        with pytest.raises(OperatorError, match=r"11 of 100 vehicles in force.*--accept rows"):
            replace(vehicles(*["FORD"] * 89))
        assert makes(world) == ["FORD"] * 100
        assert len(generations(world)) == 1

    def test_a_tenth_less_is_not(self, world, replace):
        """A tenth of the vehicles may have been scrapped."""
        replace(vehicles(*["FORD"] * 100))
        assert replace(vehicles(*["FORD"] * 90)).held == 90

    def test_an_empty_file_is_refused(self, world, replace):
        """A file with only a header must not empty a register."""
        replace(vehicles("FORD"))
        with pytest.raises(OperatorError, match="no vehicles would be left of 1"):
            replace(HEADER)

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_nothing_replaces_nothing(self, world, replace, dry_run):
        """An empty register is made only if the operator allows it."""
        with pytest.raises(OperatorError, match="the files hold no vehicles"):
            replace(HEADER, dry_run=dry_run)
        assert Register.select().count(world.engine) == 0
        assert replace(HEADER, allow_shrink=True, dry_run=dry_run).held == 0


class TestDryRun:
    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_it_prints_what_would_happen(self, world, replace, mode):
        """The dry run prints the same document as the load after it."""
        replace(vehicles("FORD", "SEAT"))
        tried = replace(vehicles("FORD", "KIA", "OPEL"), mode=mode, dry_run=True)
        assert makes(world) == ["FORD", "SEAT"]
        done = replace(vehicles("FORD", "KIA", "OPEL"), mode=mode)
        assert tried == done._replace(dry_run=True, load=None)
        assert (done.changed, done.held) == (2, 3)

    def test_it_writes_nothing(self, world, replace):
        """A dry run leaves the directory unchanged: no register, history, rejects or lock."""
        before = {p: p.stat().st_mtime_ns for p in world.directory.rglob("*") if p.is_file()}
        result = replace(f"{HEADER}A1,FORD\n?,FORD\n", dry_run=True)
        assert (result.loaded, result.rejected, result.rejects) == (1, 1, None)
        (world.directory / "new.csv").unlink()
        after = {p: p.stat().st_mtime_ns for p in world.directory.rglob("*") if p.is_file()}
        assert after == before
        assert list_loads(world.engine) == []

    def test_it_refuses_what_the_load_would_refuse(self, world, replace):
        """A dry run reports that a register would shrink too much."""
        replace(vehicles(*["FORD"] * 5))
        with pytest.raises(OperatorError, match="3 of 5 vehicles in force would be gone"):
            replace(vehicles(*["FORD"] * 2), dry_run=True)


class TestGenerations:
    def test_the_next_load_removes_files_of_a_killed_one(self, world, replace):
        """The next load removes a half-written generation."""
        replace(vehicles("FORD"))
        left = store_of(world.engine, "native").opened_next(99)
        left.__enter__()
        replace(vehicles("SEAT"), mode="merge")
        assert len(generations(world)) == 1
        assert makes(world) == ["SEAT"]

    def test_an_interruption_after_the_commit_removes_nothing(self, world, replace, monkeypatch):
        """Cleaning up removes only what the register index does not name."""
        replace(vehicles("FORD"))

        def interrupted(work: Work, require_lock: Callable[[Engine], None]) -> None:
            replacing.publish(work, require_lock)
            raise KeyboardInterrupt

        with monkeypatch.context() as until_then:
            until_then.setattr(load_module, "publish", interrupted)
            with pytest.raises(KeyboardInterrupt):
                replace(vehicles("SEAT"))
        assert makes(world) == ["SEAT"]
        assert [line.status for line in list_loads(world.engine)] == ["done", "done"]
        assert len(generations(world)) == 2

    def test_the_entry_is_read_once(self, world, replace, monkeypatch):
        """The lock protects the entry, so a load reads it once and passes it on."""
        replace(vehicles("FORD"))
        find_current = Mock(side_effect=Generations(world.engine, "native").find_current)
        monkeypatch.setattr(Generations, "find_current", find_current)
        replace(vehicles("SEAT"))
        find_current.assert_called_once()

    def test_a_load_that_fails_late_leaves_nothing(self, world, replace, monkeypatch):
        """The disk space is freed, and the register keeps its rows."""
        replace(vehicles("FORD"))
        before = generations(world)

        def fail(*_args: object) -> None:
            raise OSError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(Generations, "publish", fail)
            with pytest.raises(OSError, match="the disk is full"):
                replace(vehicles("SEAT"))
        assert generations(world) == before
        assert makes(world) == ["FORD"]
        assert list_loads(world.engine)[0].status == "failed"

    def test_a_ninth_register_is_refused_before_it_is_read(self, world, replace):
        """The ninth register is refused, as in a merge (D25)."""
        for number in range(8):
            replace(vehicles("FORD"), register=f"r{number}")
        with pytest.raises(OperatorError, match="there are 8 registers"):
            replace(vehicles("FORD"), register="r9")
        assert replace(vehicles("SEAT"), register="r1").held == 1


def test_a_file_of_changes_replaces_nothing(world):
    """A file of changes is not complete, so a replace refuses it (D28)."""
    path = world.directory / "delta.json"
    path.write_text('{"registration": "AB12CDE", "modification": "UPDATED", "motTests": []}\n')
    with pytest.raises(OperatorError, match="cannot replace a register"):
        world.load_files(path, mode="replace", format="dvsa")
    assert Register.select().count(world.engine) == 0
