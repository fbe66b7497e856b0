"""The lists of damaged and of unusual but good files."""

from collections import Counter
from datetime import UTC

from app import clock
from app.storage.tables import Kind
from tests.unit.damage.cases import NORMAL
from tests.unit.damage.damaged import DAMAGED
from tests.unit.damage.good import GOOD


def test_each_case_has_a_name_of_its_own():
    """A case that fails is found by its name."""
    names = Counter(case.name for case in DAMAGED + GOOD)
    assert [name for name, times in names.items() if times > 1] == []


def test_each_damage_changes_something():
    """A case whose files are those of the day before would prove nothing."""
    today = clock.today(UTC)
    normal = {kind: rows(today) for kind, rows in NORMAL.items()}
    for case in DAMAGED:
        before = case.before(today) if case.before else normal[case.kind]
        assert all(rows and rows != before for rows in case.loads(before, today)), case.name


def test_the_lists_are_long_enough():
    """Shorter lists would prove less; all kinds and both modes occur."""
    assert (len(DAMAGED) >= 60, len(GOOD) >= 40) == (True, True)
    for cases in (DAMAGED, GOOD):
        assert {case.kind for case in cases} == set(Kind)
        assert {case.mode for case in cases} == {"merge", "replace"}
