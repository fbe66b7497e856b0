"""The plates whose answers a replace changed."""

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.errors import Hindered, OperatorError
from app.registers.applying.parts import PlateAnswer
from app.registers.diff import Turn, compare, require_comparable
from app.registers.history import RegisterLoad
from app.registers.rules import RULES
from app.registers.undo import drop_register, roll_back
from app.storage.registers import KeptRegister
from app.storage.stores import store_of
from tests.conftest import STORAGE
from tests.unit.held import begun

HEADER = "registration,number,insurer,validFrom,validTo,cancelledOn\n"
NOBODY = PlateAnswer(*[False] * 6)
COVERED = PlateAnswer(known=True, insured=True, mot=False, tax=False, fines=True, compliant=False)
UNCOVERED = COVERED._replace(insured=False)


def policies(*numbers: int, cancelled: str = "", fault: str = "") -> str:
    """Return a file with a policy for each of these plates."""
    lines = (
        f"AB{n}CDE,P{n},ACME,2020-01-01,2999-01-01,{'2021-01-01' if str(n) in cancelled else ''}\n"
        for n in numbers
    )
    return HEADER + "".join(lines) + fault


def loaded(world: Any, content: str, mode: str = "replace", **options: Any) -> int:
    """Load a file, and return the number of the load."""
    path: Path = world.directory / "new.csv"
    path.write_text(content)
    options.setdefault("accept", list(RULES))
    number = world.load_files(path, mode=mode, **options).load
    assert number is not None
    return number


def listed(world: Any, load_id: int) -> list[Turn]:
    """Return all plates of a list."""
    compared = require_comparable(world.engine, load_id)
    return [
        turn for turns in compare(world.engine, compared, world.config) for turn in turns.plates
    ]


def refusal(world: Any, load_id: int) -> str:
    """Return why there is no list."""
    with pytest.raises(OperatorError) as refused:
        require_comparable(world.engine, load_id)
    return str(refused.value)


@STORAGE
def test_both_answers_are_those_of_the_two_sides(world):
    """Plates that come, leave or change; not those that only have other rows."""
    loaded(world, policies(1, 2, 3, 4))
    number = loaded(world, policies(2, 3, 4, 5, cancelled="3").replace("ACME,2020", "BOLT,2020", 1))
    assert listed(world, number) == [
        Turn("AB1CDE", COVERED, NOBODY),
        Turn("AB3CDE", COVERED, UNCOVERED),
        Turn("AB5CDE", NOBODY, COVERED),
    ]


def test_pages_are_read_until_their_end(world, monkeypatch):
    """A plate has rows on both sides of the end of a page, and plates fill several pages."""
    monkeypatch.setattr("app.registers.applying.table._PAGE_ROWS", 3)
    monkeypatch.setattr("app.registers.diff.PLATES_ASKED", 2)
    several = "".join(f"AB2CDE,Q{n},ACME,2020-01-01,2020-01-02,\n" for n in range(5))
    loaded(world, policies(1, 2, 3, 4, 5, fault=several))
    number = loaded(world, policies(6))
    assert [turn.registration for turn in listed(world, number)] == [
        f"AB{n}CDE" for n in range(1, 7)
    ]


def test_a_load_that_changes_nothing_has_no_plates(world):
    """The times of its rows do not count."""
    loaded(world, policies(1, 2))
    assert listed(world, loaded(world, policies(1, 2))) == []


def test_other_registers_are_read_as_they_are_now(world):
    """A plate that another register covers by now keeps its answer."""
    loaded(world, policies(1, 2))
    number = loaded(world, policies(2))
    loaded(world, policies(1).replace("2020", "2019"), register="other")
    assert listed(world, number) == []


@STORAGE
def test_an_earlier_replace_is_compared_as_long_as_both_sides_are_kept(world):
    """Its sides are two snapshots; a merge removes all."""
    loaded(world, policies(1, 2), keep_snapshots=3)
    number = loaded(world, policies(2, 3), keep_snapshots=3)
    last = loaded(world, policies(9), keep_snapshots=3)
    assert [turn.registration for turn in listed(world, number)] == ["AB1CDE", "AB3CDE"]
    loaded(world, policies(7), keep_snapshots=1)
    assert refusal(world, number).startswith(f"what load {number} left in the register native is")
    loaded(world, policies(8), "merge")
    assert "a merge removes it" in refusal(world, last + 1)


def test_only_a_replace_that_is_done_is_compared(world):
    """Each other load is refused with its reason."""
    first = loaded(world, policies(1, 2))
    assert refusal(world, first) == "the register native held nothing before load 1"
    merge = loaded(world, policies(3), "merge")
    assert refusal(world, merge) == (
        f"load {merge} is a merge: what it changed is not kept, only how much; "
        f'"verifyd imports show {merge}" shows how many'
    )
    with pytest.raises(OperatorError):
        loaded(world, HEADER.replace("number", "x"))
    failed = merge + 1
    assert refusal(world, failed) == f"load {failed} failed, so it changed no answers"
    number = loaded(world, policies(1), keep_snapshots=0)
    assert "VERIFYD_KEEP_SNAPSHOTS limits it" in refusal(world, number)
    assert refusal(world, 99) == 'there is no load 99; see "verifyd imports list"'
    running = begun(world.engine, "native")
    assert refusal(world, running) == f"load {running} is not done"


def test_what_was_undone_is_not_compared(world):
    """A rollback took the load back, or the register was dropped."""
    loaded(world, policies(1, 2))
    number = loaded(world, policies(2))
    roll_back(world.engine, "native", None)
    assert refusal(world, number) == (
        f"load {number} was taken back by load {number + 1}, so what it left is not kept"
    )
    assert refusal(world, number + 1) == (
        f"load {number + 1} is a rollback; only replaces can be compared"
    )
    number = loaded(world, policies(2))
    drop_register(world.engine, "native")
    assert "was dropped" in refusal(world, number)


def test_a_load_of_an_earlier_release_is_judged_on_its_day(world):
    """It has no counts, so its day is that of its beginning."""
    loaded(world, policies(1, 2))
    number = loaded(world, policies(2))
    RegisterLoad.update(change=None).where(RegisterLoad.id == number).execute(world.engine)
    compared = require_comparable(world.engine, number)
    assert compared.day == clock.today(UTC).isoformat()
    assert [turn.registration for turn in listed(world, number)] == ["AB1CDE"]


@STORAGE
def test_data_that_is_missing_or_of_another_register_is_not_compared(world):
    """An answer would be wrong; here a snapshot, as for a rollback."""
    loaded(world, policies(1, 2))
    number = loaded(world, policies(2))
    kept = KeptRegister.select().get(world.engine)
    KeptRegister.update(stamp="0" * len(str(kept.stamp))).execute(world.engine)
    with pytest.raises(OperatorError, match="cannot be read"):
        listed(world, number)
    store_of(world.engine, "native").remove_unused({number})
    with pytest.raises(OperatorError, match="it is missing"):
        listed(world, number)


@STORAGE
def test_nothing_is_shown_if_the_register_changes_meanwhile(world):
    """The rows of the two sides would be of other loads."""
    loaded(world, policies(1, 2))
    number = loaded(world, policies(2))
    compared = require_comparable(world.engine, number)
    loaded(world, policies(3))
    with pytest.raises(Hindered, match="was changed while it was compared"):
        list(compare(world.engine, compared, world.config))


def test_a_file_has_two_columns_for_each_answer():
    """In the order of the heading."""
    assert (
        Turn("AB1CDE", COVERED, NOBODY).csv_line
        == "AB1CDE,true,false,true,false,false,false,false,false,true,false,false,false\r\n"
    )
