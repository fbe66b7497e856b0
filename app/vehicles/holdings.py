"""Reads what each register holds about a plate: vehicle row, policies and fines (D25)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import peewee

from app.storage.engine import Engine, Prepared
from app.storage.tables import TABLES, Kind, RegisterRef, in_schema
from app.vehicles.facts import FineFacts, PolicyFacts, VehicleFacts
from app.vehicles.look_up_query import listed, many_plates

_F = TypeVar("_F", bound=tuple[Any, ...])


class Holding(NamedTuple):
    """What one register holds about one plate."""

    register: str
    vehicle: VehicleFacts | None
    policies: tuple[PolicyFacts, ...]
    fines: tuple[FineFacts, ...]


def holdings_of(
    engine: Engine, registers: Sequence[RegisterRef], registrations: Sequence[str]
) -> dict[str, tuple[Holding, ...]]:
    """Return what each register holds about each plate, with one statement for each table.

    Args:
        registers: in the order of precedence; they must be attached.
        registrations: in their canonical form.
    """
    plates = sorted(set(registrations))
    held: dict[str, list[Holding]] = {plate: [] for plate in plates}
    for ref in registers:
        vehicles = _rows(engine, ref, Kind.VEHICLES, VehicleFacts, plates)
        policies = _rows(engine, ref, Kind.POLICIES, PolicyFacts, plates)
        fines = _rows(engine, ref, Kind.FINES, FineFacts, plates)
        for plate, holdings in held.items():
            vehicle = vehicles[plate][0] if plate in vehicles else None
            others = tuple(policies.get(plate, ())), tuple(fines.get(plate, ()))
            holdings.append(Holding(ref.name, vehicle, *others))
    return {plate: tuple(holdings) for plate, holdings in held.items()}


_ORDER: Mapping[Kind, tuple[str, ...]] = {
    Kind.VEHICLES: (),
    Kind.POLICIES: ("valid_from", "number", "insurer"),
    Kind.FINES: ("reference",),
}
"""The columns by which the rows of a plate are sorted."""


def _rows(
    engine: Engine, ref: RegisterRef, kind: Kind, shape: type[_F], plates: Sequence[str]
) -> dict[str, list[_F]]:
    """Return the rows of one table by plate, each in the shape of its facts."""
    if not ref.holds(kind):
        return {}
    model: Any = TABLES[kind]
    table: Any = in_schema(model, ref.schema)
    facts_of: Any = shape
    columns = [getattr(table, name) for name in ("registration", *facts_of._fields)]
    query = table.select(*columns).where(table.registration.in_(many_plates(engine)))
    prepared = Prepared(
        engine, lambda: query.order_by(*(getattr(table, name) for name in _ORDER[kind]))
    )
    flags = [
        field.name for field in model._meta.sorted_fields if isinstance(field, peewee.BooleanField)
    ]
    found: dict[str, list[_F]] = {}
    for plate, *values in prepared.rows(plates=listed(engine, plates)):
        facts = facts_of(*values)
        # SQLite has 1 and 0 for true and false.
        known = {name: bool(v) for name in flags if (v := getattr(facts, name)) is not None}
        found.setdefault(plate, []).append(facts._replace(**known))
    return found
