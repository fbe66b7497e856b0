"""What all registers together say of a plate, merged at the moment of asking (D26).

One statement over every register, built and compiled once per set of registers. Each
register's tables are reached by key, so its cost does not depend on how much they hold.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import peewee
from peewee import JOIN, Case, Tuple, fn

from app.storage.engine import Engine, Prepared, Row, parameter
from app.storage.registers import followed, in_precedence
from app.storage.tables import Fine, Policy, RegisterRef, Vehicle, in_schema


class PolicyFacts(NamedTuple):
    """One policy; dates are ISO texts, an unknown insurer is the empty text."""

    number: str
    insurer: str
    valid_from: str
    valid_to: str
    type: str | None
    cancelled_on: str | None
    updated: int

    def is_in_force(self, day: str) -> bool:
        """Tell whether the policy covers the day, both ends included (D20)."""
        in_dates = self.valid_from <= day <= self.valid_to
        return in_dates and (self.cancelled_on is None or day < self.cancelled_on)


class Record(NamedTuple):
    """A known plate. None is unknown; dates are ISO texts."""

    registration: str
    make: str | None
    model: str | None
    year: int | None
    color: str | None
    insured_flag: bool | None
    """What a register says that knows only yes or no; counts when no policy is known (D20)."""
    mot_expiry: str | None
    mot_exempt: bool | None
    first_registered: str | None
    tax_status: str | None
    tax_due: str | None
    updated: int
    """Unix seconds: the newest change among the rows that were used (D21)."""
    has_outstanding_fines: bool
    policy: PolicyFacts | None
    """In force and ending last on the day asked for, else the one with the last end (D20)."""


class Records:
    """Reads plates from the registers.

    Args:
        order: names of registers, the one that is believed first in front (D26).
    """

    def __init__(self, engine: Engine, order: tuple[str, ...]) -> None:
        self._engine = engine
        self._order = order
        self._compiled: tuple[str, Prepared, Prepared] | None = None

    def find_record(self, registers: str, registration: str, day: str) -> Record | None:
        """Return what is known of one plate, None if no register mentions it. One statement.

        It is repeated if a register was dropped, replaced or rolled back under it (D72).

        Args:
            registers: state of the registers, read with the key (D26).
            registration: in its canonical form.
            day: ISO date that decides which policy is answered.
        """

        def find(state: str) -> Row | None:
            if not state:
                return None
            one, _ = self._prepared(state)
            return one.row(registration=registration, day=day)

        row = followed(self._engine, registers, find)
        return _record(row, day) if row else None

    def find_records(
        self, registers: str, registrations: Sequence[str], day: str
    ) -> dict[str, Record]:
        """Return the known ones among many plates, by registration. One statement for all."""
        plates = listed(self._engine, registrations)

        def find(state: str) -> list[Row]:
            if not state:
                return []
            _, many = self._prepared(state)
            return many.rows(plates=plates, day=day)

        found = (_record(row, day) for row in followed(self._engine, registers, find))
        return {record.registration: record for record in found if record}

    def _prepared(self, state: str) -> tuple[Prepared, Prepared]:
        """Return the queries for this set of registers, and attach exactly these."""
        registers = in_precedence(state, self._order)
        self._engine.attach_registers(registers)
        compiled = self._compiled
        if compiled is None or compiled[0] != state:
            engine = self._engine
            one = Prepared(engine, lambda: _query(engine, registers, _one_plate()))
            many = Prepared(engine, lambda: _query(engine, registers, many_plates(engine)))
            self._compiled = compiled = (state, one, many)
        return compiled[1], compiled[2]


def _one_plate() -> peewee.Select:
    return peewee.Select(columns=(parameter("registration").alias("registration"),))


def many_plates(engine: Engine) -> peewee.Select:
    """Return a query for the registrations that `listed` makes its parameter `plates` of."""
    return engine.each_of(parameter("plates"), "registration")


def listed(engine: Engine, registrations: Sequence[str]) -> object:
    """Return registrations as the parameter `plates` of `many_plates`, each of them once."""
    # PERF: sorted plates walk each tree from left to right and find its pages still at hand.
    return engine.listed(sorted(set(registrations)))


def _query(engine: Engine, registers: Sequence[RegisterRef], plates: peewee.Select) -> peewee.Query:
    """Return the statement: a row for every plate, with the columns that `_record` expects."""
    plate = plates.cte("plate", columns=("registration",))
    vehicles = [in_schema(Vehicle, r.schema) for r in registers if r.holds("vehicles")]
    policies = [in_schema(Policy, r.schema) for r in registers if r.holds("policies")]
    fines = [in_schema(Fine, r.schema) for r in registers if r.holds("fines")]

    source: peewee.Source = plate
    for table in vehicles:
        source = _left_join(source, table, table.registration == plate.c.registration)
    decisive = []
    for table in policies:
        source, policy = _join_deciding_policy(engine, source, table, plate)
        decisive.append(policy)

    described = engine.greatest([v.updated for v in vehicles], "-1")
    fined = engine.greatest([_newest_change(f, plate) for f in fines], "-1")
    columns = [
        plate.c.registration,
        *(_first_known(vehicles, name) for name in ("make", "model", "year", "color", "insured")),
        engine.greatest([v.mot_expiry for v in vehicles], "'0001-01-01'"),
        _any_true([v.mot_exempt for v in vehicles]),
        _first_known(vehicles, "first_registered"),
        _first_known(vehicles, "tax_status"),
        _tax_due(vehicles),
        described,
        # PERF: nobody needs to know when a vehicle was fined that is known otherwise.
        Case(None, [(described.is_null(), fined)]),
        _any_true([_has_outstanding(f, plate) for f in fines]),
    ]
    for policy in decisive:
        columns += [getattr(policy, name) for name in PolicyFacts._fields]
    return peewee.Select((source,), columns).with_cte(plate)


_POLICY_COLUMNS = len(PolicyFacts._fields)
_FIRST_POLICY_COLUMN = 14


def _record(row: Row, day: str) -> Record | None:
    """Make a Record of a result row: merged columns, then those of each register's policy."""
    policies = [
        PolicyFacts._make(row[at : at + _POLICY_COLUMNS])
        for at in range(_FIRST_POLICY_COLUMN, len(row), _POLICY_COLUMNS)
        if row[at] is not None
    ]
    policy = _deciding(policies, day) if policies else None
    *merged, described, fined, has_outstanding_fines = row[:_FIRST_POLICY_COLUMN]
    updated = described
    if policy is not None and (described is None or policy.updated > described):
        updated = policy.updated
    if updated is None:
        updated = fined
    if updated is None:  # Every stored row has its time: no register mentions the plate (D24).
        return None
    return Record._make((*merged, updated, bool(has_outstanding_fines), policy))


def _deciding(policies: Sequence[PolicyFacts], day: str) -> PolicyFacts:
    """Return the policy that D20 answers with; of equals the first."""
    if len(policies) == 1:
        return policies[0]
    return max(policies, key=lambda p: (p.is_in_force(day), p.valid_to, p.valid_from, p.number))


def _left_join(source: peewee.Source, table: type[peewee.Model], on: Any) -> peewee.Source:
    return peewee.Join(source, table, JOIN.LEFT_OUTER, on)


def _join_deciding_policy(
    engine: Engine, source: peewee.Source, table: type[Policy], plate: peewee.CTE
) -> tuple[peewee.Source, Any]:
    """Join the register's one policy that D20 would answer with, if the register were alone.

    Returns the source and what has the columns of the policy.
    """
    held = table.alias()
    day = parameter("day")
    in_force = (
        (held.valid_from <= day)
        & (held.valid_to >= day)
        & (held.cancelled_on.is_null() | (held.cancelled_on > day))
    )

    def deciding(*columns: str) -> peewee.Select:
        selected = held.select(*(getattr(held, name) for name in columns))
        of_plate = selected.where(held.registration == plate.c.registration)
        return of_plate.order_by(
            in_force.desc(),
            held.valid_to.desc(),
            held.valid_from.desc(),
            held.number.desc(),
            held.insurer,
        ).limit(1)

    if engine.has_lateral:
        found = deciding(*PolicyFacts._fields)
        return peewee.Join(source, found, JOIN.LEFT_LATERAL, peewee.SQL("TRUE")), found.c
    # PERF: SQLite finds a row by a selected key.
    key = Tuple(table.insurer, table.number, table.valid_from)
    is_deciding = key == deciding("insurer", "number", "valid_from")
    on = (table.registration == plate.c.registration) & is_deciding
    return _left_join(source, table, on), table


def _newest_change(table: type[Fine], plate: peewee.CTE) -> Any:
    return table.select(fn.MAX(table.updated)).where(table.registration == plate.c.registration)


def _has_outstanding(table: type[Fine], plate: peewee.CTE) -> Any:
    # PERF: not EXISTS, for which Postgres reads the whole table if it is asked for many plates.
    is_owed = table.select(~table.settled).where(
        (table.registration == plate.c.registration) & ~table.settled
    )
    return fn.COALESCE(is_owed.limit(1), peewee.SQL("FALSE"))


def _first_known(tables: Sequence[type[Vehicle]], column: str) -> Any:
    """Return the column from the first register, in order of precedence, that knows it."""
    known = [getattr(table, column) for table in tables]
    if len(known) == 1:
        return known[0]
    return fn.COALESCE(*known) if known else peewee.SQL("NULL")


def _tax_due(tables: Sequence[type[Vehicle]]) -> peewee.Node:
    """Return the due date of the register whose tax status is answered (D26)."""
    if not tables:
        return peewee.SQL("NULL")
    return Case(None, [(table.tax_status.is_null(False), table.tax_due) for table in tables])


def _any_true(conditions: Sequence[peewee.Node]) -> peewee.Node:
    return reduce(or_, conditions) if conditions else peewee.SQL("NULL")
