"""Reads what each register holds about plates, unmerged."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.storage.engine import Engine, Prepared, Row
from app.storage.tables import COLUMNS, TABLES, Kind, RegisterRef, in_schema
from app.vehicles.facts import FineFacts, Holding, PolicyFacts, VehicleFacts
from app.vehicles.records import listed, many_plates


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
        vehicles, policies, fines = (rows_of(engine, ref, kind, plates) for kind in Kind)
        for plate, holdings in held.items():
            (vehicle,) = _facts(Kind.VEHICLES, vehicles.get(plate, ())) or (None,)
            owed = _facts(Kind.FINES, fines.get(plate, ()))
            policy = _facts(Kind.POLICIES, policies.get(plate, ()))
            holdings.append(Holding(ref.name, vehicle, policy, owed))
    return {plate: tuple(holdings) for plate, holdings in held.items()}


def _facts(kind: Kind, rows: Sequence[Row]) -> tuple[Any, ...]:
    """Return the rows of a table in the shape of its facts."""
    shape, flags = _SHAPES[kind]
    found = []
    for _, *values in rows:
        for at in flags:
            values[at] = _FLAGS[values[at]]
        found.append(shape._make(values))
    return tuple(found)


_SHAPES: Mapping[Kind, tuple[type[Any], list[int]]] = {
    kind: (
        shape,
        [at for at, member in enumerate(COLUMNS[kind][1:]) if bool in member.types],
    )
    for kind, shape in zip(Kind, (VehicleFacts, PolicyFacts, FineFacts), strict=True)
}
"""The shape of the facts of each kind, and the positions of its flags."""
_FLAGS = {1: True, 0: False, None: None}
"""The flags, for which SQLite has 1 and 0."""
_ORDER: Mapping[Kind, tuple[str, ...]] = {
    Kind.VEHICLES: (),
    Kind.POLICIES: ("valid_from", "number", "insurer"),
    Kind.FINES: ("reference",),
}
"""The columns by which the rows of a plate are sorted."""


def rows_of(
    engine: Engine, ref: RegisterRef, kind: Kind, plates: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the rows of one table of a register by plate, with all columns of the table.

    On SQLite, flags are 1 and 0.

    Args:
        ref: the register, which must be attached.
        plates: in their canonical form.
    """
    if not ref.holds(kind):
        return {}
    table: Any = in_schema(TABLES[kind], ref.schema)
    query = table.select().where(table.registration.in_(many_plates(engine)))
    order = [getattr(table, name) for name in _ORDER[kind]]
    found: dict[str, list[Any]] = {}
    for row in Prepared(engine, lambda: query.order_by(*order)).rows(plates=listed(engine, plates)):
        found.setdefault(row[0], []).append(row)
    return found
