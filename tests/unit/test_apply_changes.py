"""Changes are applied to held rows in the order of the file (D21)."""

import pytest

from app.registers.applying.apply_changes import Effect, apply_changes
from app.registers.formats.changes import PolicyCancellation, PolicyDeletion, VehicleDeletion
from app.storage.tables import Kind, PolicyRow, VehicleRow

NOW, BEFORE = 1_900_000_000, 1_800_000_000
CAR = VehicleRow("AB12CDE", "FORD")
POLICY = PolicyRow("AB12CDE", "A", "P-1", "2026-01-01", "2026-12-31")
LATER = POLICY._replace(valid_from="2027-01-01", valid_to="2027-12-31")


def held(row):
    """Return a row as a register holds it."""
    return tuple(row._replace(updated=BEFORE))


def vehicles(changes, rows=()) -> Effect:
    return apply_changes(Kind.VEHICLES, list(changes), list(map(held, rows)), NOW)


def policies(changes, rows=()) -> Effect:
    return apply_changes(Kind.POLICIES, list(changes), list(map(held, rows)), NOW)


def test_a_deleted_vehicle_is_removed():
    """DELETED removes the row, and nothing counts as skipped."""
    outcome = vehicles([VehicleDeletion("AB12CDE")], [CAR])
    assert (outcome.removed, list(outcome.changed), outcome.skipped) == ([held(CAR)], [], 0)


def test_deleting_what_is_not_held_is_skipped():
    """Deleting a row that is not held is skipped without a fault."""
    outcome = vehicles([VehicleDeletion("AB12CDE")])
    assert outcome == Effect([], added=[], removed=[], skipped=1)


def test_create_delete_create_leaves_the_last():
    """Changes of one key are applied in order; none of them is skipped."""
    outcome = vehicles([CAR, VehicleDeletion("AB12CDE"), CAR._replace(make="SEAT")])
    assert [row[1] for row in outcome.changed] == ["SEAT"]
    assert (outcome.removed, len(outcome.added), outcome.skipped) == ([], 1, 0)


def test_delete_and_create_of_the_same_is_no_change():
    """A row that is deleted and created again unchanged keeps its time (D21)."""
    outcome = vehicles([VehicleDeletion("AB12CDE"), CAR], [CAR])
    assert (list(outcome.changed), outcome.removed) == ([], [])


def test_deleting_twice_skips_the_second():
    """The second deletion of a row is skipped."""
    outcome = vehicles([VehicleDeletion("AB12CDE")] * 2, [CAR])
    assert (len(outcome.removed), outcome.skipped) == (1, 1)


def test_a_policy_is_deleted_in_all_its_periods():
    """All periods of the insurer's policy number for the plate are deleted."""
    outcome = policies([PolicyDeletion("AB12CDE", "A", "P-1")], [POLICY, LATER])
    assert sorted(outcome.removed) == sorted(map(held, (POLICY, LATER)))


def test_rows_beside_new_keys_are_known():
    """They are all rows of a plate of which the load has none; a replace removes them instead."""
    other = POLICY._replace(registration="AB13CDE")
    known = other._replace(number="P-2")
    new = [row._replace(number="P-3") for row in (POLICY, other)]
    outcome = policies([*new, known], [POLICY, LATER, other, known])
    assert sorted(outcome.beside) == sorted(map(held, (POLICY, LATER)))


def test_a_cancellation_ends_all_periods():
    """A cancellation has no dates of the policy, so it ends all held periods."""
    outcome = policies([PolicyCancellation("AB12CDE", "A", "P-1", "2026-06-01")], [POLICY, LATER])
    assert [(row[3], row[6], row[-1]) for row in outcome.changed] == [
        ("2026-01-01", "2026-06-01", NOW),
        ("2027-01-01", "2026-06-01", NOW),
    ]


def test_a_cancellation_follows_the_policy_in_the_same_file():
    """A cancellation ends a policy that precedes it in the same file."""
    cancellation = PolicyCancellation("AB12CDE", "A", "P-1", "2026-06-01")
    outcome = policies([POLICY, cancellation])
    assert [(row[6], row[-1]) for row in outcome.changed] == [("2026-06-01", NOW)]


def test_a_policy_and_its_cancellation_again_change_nothing():
    """Loading a policy and its cancellation a second time changes nothing."""
    cancellation = PolicyCancellation("AB12CDE", "A", "P-1", "2026-06-01")
    outcome = policies([POLICY, cancellation], [POLICY._replace(cancelled_on="2026-06-01")])
    assert (list(outcome.changed), outcome.removed, outcome.skipped) == ([], [], 0)


def test_a_cancellation_before_its_policy_is_skipped():
    """A cancellation that precedes its policy in the file is skipped."""
    outcome = policies([PolicyCancellation("AB12CDE", "A", "P-1", "2026-06-01"), POLICY])
    assert [row[6] for row in outcome.changed] == [None]
    assert outcome.skipped == 1


def test_neighbours_of_a_change_stay_as_they_are():
    """Rows that were read only for comparison are not written."""
    outcome = policies([PolicyDeletion("AB12CDE", "A", "P-1"), LATER], [POLICY])
    assert [row[3] for row in outcome.changed] == ["2027-01-01"]
    assert outcome.removed == [held(POLICY)]


def test_a_row_keeps_the_time_of_its_source_beside_rows_without_one():
    """Rows with a time keep it; others get the load's time, or keep the held one (D21)."""
    timed = VehicleRow("AB13CDE", "SEAT", updated=BEFORE + 7)
    same = VehicleRow("AB14CDE", "OPEL", updated=BEFORE + 8)
    outcome = vehicles([CAR, timed, same], [CAR, same._replace(updated=None)])
    assert [row[-1] for row in outcome.rows] == [BEFORE, BEFORE + 7, BEFORE + 8]


@pytest.mark.parametrize(
    ("time", "values", "its_time", "expected"),
    [
        # Other values without a newer time are known from the load on.
        (BEFORE, {"insured": False}, BEFORE, NOW),
        (BEFORE, {"tax_status": "sorn"}, BEFORE - 9, NOW),
        (BEFORE, {"insured": False}, BEFORE + 9, BEFORE + 9),
        (NOW + 9, {"insured": False}, BEFORE, NOW),
        # The same values are known as before, whatever else changes.
        (BEFORE, {"color": "RED"}, BEFORE, BEFORE),
        (BEFORE, {}, BEFORE - 9, BEFORE),
        (BEFORE, {}, BEFORE + 9, BEFORE + 9),
        # A time in the future is a mistake that a file corrects.
        (NOW + 9, {}, BEFORE, BEFORE),
    ],
)
@pytest.mark.parametrize("is_replace", [False, True])
def test_the_time_of_a_row_tells_since_when_its_values_are_known(
    time, values, its_time, expected, is_replace
):
    """Under the rule that tells what is not known, a vehicle's time is not before its values."""
    before = CAR._replace(insured=True, updated=time)
    row = before._replace(**values, updated=its_time)
    (stored,) = apply_changes(
        Kind.VEHICLES, [row], [before], NOW, is_replace=is_replace, dates_values=True
    ).rows
    assert stored == row._replace(updated=expected)
