"""Merges what the registers hold about a plate into its record: the rules of D20 to D22 and D26."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import attrgetter
from typing import Any

from app.setting_values import EVERY_REGISTER
from app.storage.tables import COLUMNS, Kind, Merge
from app.vehicles.compliance import choose_policy
from app.vehicles.facts import FINES_MAX, POLICIES_MAX, Holding, PolicyFacts, Record, VehicleFacts

_MEMBERS = COLUMNS[Kind.VEHICLES][1:]
_NO_VEHICLE = VehicleFacts._make([None] * len(_MEMBERS))
_IDENTITY = attrgetter("identity")


def record_of(
    registration: str, held: Sequence[Holding], day: str, mot_first_years: Mapping[str, int]
) -> Record | None:
    """Return the record of a plate, with all that later days are judged by.

    Args:
        held: what each register holds about the plate, in the order of precedence.
        day: ISO date that decides which policy is answered.
        mot_first_years: the setting (D154).

    Returns None if no register mentions the plate.
    """
    rows = [each.vehicle for each in held if each.vehicle is not None]
    fines = [fine for each in held for fine in each.fines]
    choice = choose_policy(held, day)
    if not (rows or choice or fines):
        return None
    vehicle = _merged(rows) if rows else _NO_VEHICLE
    times = [row.updated for row in rows]
    if choice is not None:
        times.append(choice.policy.updated)
    owed = {fine.reference for fine in fines if not fine.settled}
    return Record(
        registration=registration,
        insured=vehicle.insured,
        # Nothing but a fine may mention the plate.
        updated=max(times or [fine.updated for fine in fines]),
        policy=choice and choice.policy,
        make=vehicle.make,
        model=vehicle.model,
        year=vehicle.year,
        color=vehicle.color,
        mot_expiry=vehicle.mot_expiry,
        mot_exempt=vehicle.mot_exempt,
        first_registered=vehicle.first_registered,
        tax_status=vehicle.tax_status,
        tax_due=vehicle.tax_due,
        has_outstanding_fines=bool(owed),
        mot_first_years=_years_of_first_known(held, mot_first_years),
        policies=_later_policies(held, day),
        outstanding_fines=min(len(owed), FINES_MAX),
    )


def _merged(rows: Sequence[VehicleFacts]) -> VehicleFacts:
    """Return the row that the vehicle's rows in all registers make together."""
    # A due date without a status is not used.
    if len(rows) == 1 and (rows[0].tax_status or rows[0].tax_due is None):
        return rows[0]
    status, due = reduce(first_pair, ((row.tax_status, row.tax_due) for row in rows))
    values = (
        reduce(MERGES[member.merge], of_registers)
        for member, of_registers in zip(_MEMBERS, zip(*rows, strict=True), strict=True)
    )
    return VehicleFacts._make(values)._replace(tax_due=due if status is not None else None)


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


MERGES: Mapping[Merge, Callable[[Any, Any], Any]] = {
    Merge.FIRST: first,
    Merge.GREATEST: greatest,
    Merge.WITH_STATUS: first,
}
"""How the values of two registers become one, in the order of precedence. That of `tax_due` is of
the register whose status is answered, so both are merged by `first_pair`."""


def _years_of_first_known(held: Iterable[Holding], years: Mapping[str, int]) -> int:
    """Return the years of the register that the first registration comes from (D154)."""
    for each in held:
        if each.vehicle is not None and each.vehicle.first_registered is not None:
            return years.get(each.register, years.get(EVERY_REGISTER, 0))
    return 0


def _later_policies(held: Iterable[Holding], day: str) -> tuple[PolicyFacts, ...]:
    """Return `Record.policies`, those in force first."""
    of_registers = (sorted(each.policies, key=_IDENTITY) for each in held)
    later = [policy for policy in chain.from_iterable(of_registers) if policy.end >= day]
    later.sort(key=lambda policy: not policy.is_in_force(day))
    return tuple(later[: POLICIES_MAX + 1]) if len(later) > 1 else ()
