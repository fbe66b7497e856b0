"""Makes the records of plates from their rows in all registers: the rules of D20 to D22 and D26."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

from app.settings.values import EVERY_REGISTER
from app.storage.engine import Row
from app.storage.tables import COLUMNS, Kind, Merge
from app.vehicles.facts import (
    EXPLAINED,
    FINES_MAX,
    POLICIES_MAX,
    Basis,
    PlateFacts,
    PolicyFacts,
    Record,
    WantedFields,
    covers,
)
from app.vehicles.policies import choose_policy
from app.vehicles.rows import PLACES, REGISTRATION, Rows, held_of, policy_in

_VEHICLES, _POLICIES, _FINES = Kind  # PERF: to look a member up takes longer than to compare it.
_MEMBERS = COLUMNS[Kind.VEHICLES]
_NO_VEHICLE: Row = (None,) * (REGISTRATION + len(_MEMBERS))
_TAX_STATUS, _TAX_DUE, _FIRST_REGISTERED = map(
    PLACES[Kind.VEHICLES].__getitem__, ("tax_status", "tax_due", "first_registered")
)
_terms_of = itemgetter(
    *map(PLACES[Kind.POLICIES].get, ("valid_from", "valid_to", "cancelled_on", "number"))
)
_begin_of = attrgetter("valid_from")
_reference_of, _is_settled, _time_of_fine = (
    itemgetter(PLACES[Kind.FINES][name]) for name in ("reference", "settled", "updated")
)


def records_of(
    rows: Rows,
    day: str,
    mot_first_years: Mapping[str, int],
    wanted: WantedFields = EXPLAINED,
    basis: Basis | None = None,
) -> dict[str, Record]:
    """Return the records of all plates that the rows mention.

    Args:
        rows: with the columns that are wanted.
        day: ISO date that decides which policy is answered.
        mot_first_years: years after first registration before an MOT is due, by register (D154).
        basis: None if what is not known is answered as a failure.
    """
    held: Mapping[str, PlateFacts] = {}
    if wanted.dates or (basis is not None and day != basis.today):
        held = held_of(rows)
    vehicles, policies, fines, years = _by_plate(rows, mot_first_years, wanted)
    records = {}
    for plate in dict.fromkeys(chain(vehicles, policies, fines)):
        _, _, make, model, year, color, insured, expiry, exempt, registered, status, due, newest = (
            vehicles.get(plate, _NO_VEHICLE)
        )
        policy: PolicyFacts | None = None
        its_policies, its_fines = policies.get(plate, ()), fines.get(plate, ())
        if its_policies:
            policy = policy_in(choose_policy(its_policies, day, _terms_of))
            # The answer is computed from this policy and the vehicle rows, not from other policies.
            if newest is None or policy.updated > newest:
                newest = policy.updated
        if newest is None:  # Nothing but a fine mentions the plate.
            newest = max(map(_time_of_fine, its_fines))
        if status is None:  # A due date without a status is not used.
            due = None
        owed = count = None
        if wanted.papers:
            unpaid: Collection[str] = ()
            if its_fines:  # PERF: most plates have none.
                unpaid = {_reference_of(fine) for fine in its_fines if not _is_settled(fine)}
            owed = bool(unpaid)
            count = min(len(unpaid), FINES_MAX) if wanted.dates else None
        records[plate] = Record(
            plate,
            insured,
            newest,
            policy,
            make,
            model,
            year,
            color,
            expiry,
            exempt,
            registered,
            status,
            due,
            owed,
            years.get(plate, 0),
            _later(its_policies, day) if wanted.dates else (),
            count,
            basis,
            held.get(plate),
        )
    return records


def _by_plate(
    rows: Rows, mot_first_years: Mapping[str, int], wanted: WantedFields
) -> tuple[dict[str, Row], dict[str, list[Row]], dict[str, list[Row]], dict[str, int]]:
    """Return the merged vehicles, the policies, the fines, and the years before an MOT is due."""
    vehicles: dict[str, Row] = {}
    policies: dict[str, list[Row]] = {}
    fines: dict[str, list[Row]] = {}
    years: dict[str, int] = {}
    places = _merging(wanted)
    for part, its in rows:
        if part.kind is not _VEHICLES:
            held = policies if part.kind is _POLICIES else fines
            for row in its:
                held.setdefault(row[REGISTRATION], []).append(row)
            continue
        for row in its:
            plate = row[REGISTRATION]
            other = vehicles.get(plate)
            vehicles[plate] = row if other is None else _merged(other, row, places)
        if mot_first_years:
            # Those of the register that the first registration comes from.
            its_years = years_of(part.register, mot_first_years)
            for row in its:
                if row[_FIRST_REGISTERED] is not None:
                    years.setdefault(row[REGISTRATION], its_years)
    return vehicles, policies, fines, years


@cache
def _merging(wanted: WantedFields) -> tuple[list[int], list[int]]:
    """Return the positions of wanted columns: those merged by `first`, and by `greatest`."""
    firsts, greatests = (
        [
            PLACES[Kind.VEHICLES][member.column]
            for member in COLUMNS[Kind.VEHICLES][1:]
            if member.merge is merge and member.column in wanted.columns
        ]
        for merge in (Merge.FIRST, Merge.GREATEST)
    )
    return firsts, greatests


def _merged(one: Row, other: Row, places: tuple[list[int], list[int]]) -> Row:
    """Return the row that the rows of a vehicle in two registers make together."""
    row = list(one)
    # The day until which the tax is paid is of the register whose status is answered.
    if one[_TAX_STATUS] is None:
        row[_TAX_DUE] = other[_TAX_DUE]
    firsts, greatests = places
    for at in firsts:  # PERF: `first` and `greatest`, without calls.
        if row[at] is None:
            row[at] = other[at]
    for at in greatests:
        if row[at] is None or (other[at] is not None and other[at] > row[at]):
            row[at] = other[at]
    return tuple(row)


def years_of(register: str, mot_first_years: Mapping[str, int]) -> int:
    """Return the years before an MOT is due of the vehicles that a register knows (D154)."""
    return mot_first_years.get(register, mot_first_years.get(EVERY_REGISTER, 0))


def first(one: Any, other: Any) -> Any:
    """Return the first value that is known."""
    return other if one is None else one


def first_pair(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the first pair whose first value is known."""
    return other if one[0] is None else one


def greatest(one: Any, other: Any) -> Any:
    """Return the greatest value that is known."""
    if one is None or other is None:
        return first(one, other)
    return max(one, other)


def _later(policies: Sequence[Row], day: str) -> tuple[PolicyFacts, ...]:
    """Return `Record.policies`."""
    later = [policy for policy in map(policy_in, policies) if policy.end >= day]
    later.sort(key=lambda policy: not policy.is_in_force(day))
    return tuple(later[: POLICIES_MAX + 1]) if len(later) > 1 else ()


def needed(rows: Rows, day: str) -> Rows:
    """Return the rows of one plate without those on which its record does not depend."""
    policies, fines = (
        [row for part, its in rows if part.kind is kind for row in its]
        for kind in (_POLICIES, _FINES)
    )
    if len(policies) > POLICIES_MAX:
        counting = {policy_in(choose_policy(policies, day, _terms_of)), *_later(policies, day)}
        # A complete register tells by it since when a vehicle is known to insurers (D198).
        counting |= {
            min(map(policy_in, its), key=_begin_of)
            for part, its in rows
            if part.kind is _POLICIES and its
        }
        policies = [row for row in policies if policy_in(row) in counting]
    if len(fines) > FINES_MAX:
        owed = {_reference_of(row): row for row in fines if not _is_settled(row)}
        fines = [max(fines, key=_time_of_fine), *list(owed.values())[:FINES_MAX]]
    left = {*policies, *fines}
    return [
        (part, [row for row in its if part.kind is _VEHICLES or row in left]) for part, its in rows
    ]


def insured_by_policy(rows: Rows, day: str) -> set[str]:
    """Return the plates that a policy among the rows covers on the day (ISO date)."""
    return {
        row[REGISTRATION]
        for part, its in rows
        if part.kind is _POLICIES
        for row in its
        if covers(_terms_of(row), day)
    }
