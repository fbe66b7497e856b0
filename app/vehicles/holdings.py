"""What each register holds of a plate: its vehicle row, its policies and its fines (D25)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import peewee

from app.storage.engine import Engine, Prepared
from app.storage.tables import Fine, Policy, RegisterRef, Vehicle, in_schema
from app.vehicles.records import PolicyFacts, listed, many_plates

_F = TypeVar("_F", bound=tuple[Any, ...])


class VehicleFacts(NamedTuple):
    """A vehicle row. None is unknown; dates are ISO texts."""

    make: str | None
    model: str | None
    year: int | None
    color: str | None
    insured: bool | None
    mot_expiry: str | None
    mot_exempt: bool | None
    first_registered: str | None
    tax_status: str | None
    tax_due: str | None
    updated: int
    """Unix seconds."""


class FineFacts(NamedTuple):
    """A fine; `amount_cents` is what is owed, in hundredths of the currency."""

    reference: str
    issued_on: str | None
    amount_cents: int
    currency: str | None
    settled: bool
    updated: int


class Holding(NamedTuple):
    """What one register holds of one plate."""

    register: str
    vehicle: VehicleFacts | None
    policies: tuple[PolicyFacts, ...]
    fines: tuple[FineFacts, ...]


def holdings_of(
    engine: Engine, registers: Sequence[RegisterRef], registrations: Sequence[str]
) -> dict[str, tuple[Holding, ...]]:
    """Return what each register holds of each plate. One statement for each table.

    Args:
        registers: in the order of precedence; they must be attached.
        registrations: in their canonical form.
    """
    plates = sorted(set(registrations))
    held: dict[str, list[Holding]] = {plate: [] for plate in plates}
    for ref in registers:
        vehicles = _rows(engine, ref, "vehicles", VehicleFacts, plates)
        policies = _rows(engine, ref, "policies", PolicyFacts, plates)
        fines = _rows(engine, ref, "fines", FineFacts, plates)
        for plate, holdings in held.items():
            vehicle = vehicles[plate][0] if plate in vehicles else None
            others = tuple(policies.get(plate, ())), tuple(fines.get(plate, ()))
            holdings.append(Holding(ref.name, vehicle, *others))
    return {plate: tuple(holdings) for plate, holdings in held.items()}


class _Table(NamedTuple):
    model: type[peewee.Model]
    order: tuple[str, ...]
    flags: tuple[str, ...]
    """Columns of yes or no: SQLite has 1 and 0 for them."""


_TABLES = {
    "vehicles": _Table(Vehicle, (), ("insured", "mot_exempt")),
    "policies": _Table(Policy, ("valid_from", "number", "insurer"), ()),
    "fines": _Table(Fine, ("reference",), ("settled",)),
}


def _rows(
    engine: Engine, ref: RegisterRef, kind: str, shape: type[_F], plates: Sequence[str]
) -> dict[str, list[_F]]:
    """Return the rows of one table by plate, each as a `shape`."""
    if not ref.holds(kind):
        return {}
    model, order, flags = _TABLES[kind]
    table: Any = in_schema(model, ref.schema)
    columns = [getattr(table, name) for name in ("registration", *_fields(shape))]
    query = table.select(*columns).where(table.registration.in_(many_plates(engine)))
    prepared = Prepared(engine, lambda: query.order_by(*(getattr(table, name) for name in order)))
    found: dict[str, list[_F]] = {}
    for plate, *values in prepared.rows(plates=listed(engine, plates)):
        facts: Any = shape(*values)
        known = {name: bool(v) for name in flags if (v := getattr(facts, name)) is not None}
        found.setdefault(plate, []).append(facts._replace(**known))
    return found


def _fields(shape: Any) -> tuple[str, ...]:
    fields: tuple[str, ...] = shape._fields
    return fields
