"""Loads refuse files that would turn answers round, and load unusual good files (D157)."""

import csv
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.registers.rules import RulesBroken
from app.storage.tables import Kind
from tests.conftest import World
from tests.stores import SqliteStore
from tests.unit.damage.cases import NORMAL, Case
from tests.unit.damage.damaged import DAMAGED
from tests.unit.damage.good import GOOD
from tests.unit.damage.national import Rows

TODAY = clock.today(UTC)


def _write(path: Path, rows: Rows, kind: Kind) -> Path:
    """Write rows as a native file, with the header of a normal day if there are none."""
    names = (rows or NORMAL[kind](TODAY))[0].keys()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def _opened(directory: Path) -> World:
    return World(directory, SqliteStore(directory / "verifyd.db"), ("", ""))


def _load(world: World, rows: Rows, kind: Kind, **options: Any) -> Any:
    path = _write(world.directory / f"{kind}.csv", rows, kind)
    return world.load_files(path, kind=kind, format="native-csv", **options)


@pytest.fixture(scope="module")
def evening(sqlite_template, tmp_path_factory):
    """`evening(CASE)` returns the installation as it was before the case's files arrived."""
    worlds: dict[tuple[Any, Kind], World] = {}

    def opened(case: Case) -> World:
        # The vehicles, policies and fines of a normal day are one register.
        which = (case.before, case.kind) if case.before else (None, Kind.VEHICLES)
        if which not in worlds:
            directory = tmp_path_factory.mktemp("evening")
            sqlite_template.store(directory)
            worlds[which] = _opened(directory)
            before = {case.kind: case.before} if case.before else NORMAL
            for kind, rows in before.items():
                if rows(TODAY):
                    _load(worlds[which], rows(TODAY), kind)
        return worlds[which]

    yield opened
    for world in worlds.values():
        world.close()


@pytest.fixture
def broken_by(evening, tmp_path) -> Callable[[Case], set[str]]:
    """`broken_by(CASE)` returns the rules that the first refused file of a case breaks."""

    def judge(case: Case) -> set[str]:
        world = evening(case)
        before = (case.before or NORMAL[case.kind])(TODAY)
        files = case.loads(before, TODAY)
        is_dry = len(files) == 1
        if not is_dry:
            copy = tmp_path / str(len(list(tmp_path.iterdir())))
            shutil.copytree(world.directory, copy)
            world = _opened(copy)
        try:
            for rows in files:
                result = _load(world, rows, case.kind, mode=case.mode, dry_run=is_dry)
                assert result.rejected == 0
        except RulesBroken as refusal:
            return set(refusal.broken)
        finally:
            if not is_dry:
                world.close()
        return set()

    return judge


PASS = {
    "policies cancelled when they end": "until its last day, each policy covers as before",
    "numbers are those of the lines": "a source may give its policies other numbers",
    "amounts a hundredth": "whether a fine is owed stays the same",
    "fines of another order": "a source may give its fines other references",
}
"""Damage that no rule refuses, with the reason."""
IN_THE_FIELD = (
    "every policy date a century early",
    "every policy date a century late",
    "no policy is cancelled any more",
    "a merge without cancellations",
    "five merges that take nine cancellations back",
    "every policy cancelled on its first day",
    "insurer and number exchanged",
    "a merge of insurer and number exchanged",
    "30 % of the largest insurer's policies gone",
    "8 % of the policies gone",
    "every policy shifted by one row",
    "make and model exchanged",
    "everybody exempt from the MOT",
    "every fine 0",
    "five merges that blank nine MOT dates",
    "130 new cars without an MOT join 1,000",
    "a fleet of 5 becomes 4",
    "a fleet of 12 becomes 10",
)
"""Files that were loaded, or refused, by mistake."""


def _cases(cases: tuple[Case, ...]) -> Any:
    """Parametrise with cases; make test runs those from the field, and every fourth of the rest."""
    rest = [case.name for case in cases if case.name not in IN_THE_FIELD]
    chosen = {*IN_THE_FIELD, *rest[::4]}
    marks = {True: (), False: (pytest.mark.system_long,)}
    return pytest.mark.parametrize(
        "case",
        [pytest.param(case, id=case.name, marks=marks[case.name in chosen]) for case in cases],
    )


@_cases(DAMAGED)
def test_a_damaged_file_is_refused(case, broken_by):
    """Its refusal names the rules; damage that no rule refuses has its reason."""
    assert bool(broken_by(case)) == (case.name not in PASS)


@_cases(GOOD)
def test_an_unusual_but_good_file_is_loaded(case, broken_by):
    """It needs no option."""
    assert broken_by(case) == set()


def test_each_case_has_a_name_of_its_own():
    """A case that fails is found by its name."""
    names = Counter(case.name for case in DAMAGED + GOOD)
    assert [name for name, times in names.items() if times > 1] == []
    assert {*PASS, *IN_THE_FIELD} <= names.keys()


def test_each_damage_changes_something():
    """A case whose files are those of the day before would prove nothing."""
    normal = {kind: rows(TODAY) for kind, rows in NORMAL.items()}
    for case in DAMAGED:
        before = case.before(TODAY) if case.before else normal[case.kind]
        assert all(rows and rows != before for rows in case.loads(before, TODAY)), case.name


def test_the_lists_are_long_enough():
    """Shorter lists would prove less; all kinds and both modes occur."""
    assert (len(DAMAGED) >= 60, len(GOOD) >= 40) == (True, True)
    assert len(DAMAGED) - len(PASS) >= 50
    for cases in (DAMAGED, GOOD):
        assert {case.kind for case in cases} == set(Kind)
        assert {case.mode for case in cases} == {"merge", "replace"}
