"""Looks plates up in all registers at once, and merges what they say (D26).

A statement returns one row per plate, in three parts: the columns of the vehicle table, merged from
all registers; what is known about fines; and the policy that each register alone would answer with.
The statements are built and compiled once per set of registers and of wanted columns. They reach
the tables of each register by key, so their cost does not depend on how many rows a register has.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import peewee
from peewee import JOIN, Case, Tuple, fn

from app.setting_values import EVERY_REGISTER
from app.storage.engine import Engine, Prepared, Row, parameter
from app.storage.registers import in_precedence, repeat_if_removed
from app.storage.tables import (
    Fine,
    Kind,
    Policy,
    RegisterRef,
    Vehicle,
    column_names,
    in_schema,
)
from app.vehicles.facts import PolicyFacts, Record, VehicleFacts


class Wanted(NamedTuple):
    """What a look-up needs of a plate, besides its policy. PERF: a column of 1,000 takes 0.1 ms."""

    description: bool = True
    """Make, model, year and colour."""
    compliance: bool = True
    """MOT, tax and fines."""

    def has(self, column: str) -> bool:
        """Tell whether a column of the vehicle table is needed."""
        if column in _DESCRIPTION:
            return self.description
        return self.compliance or column in _ALWAYS


_DESCRIPTION = frozenset({"make", "model", "year", "color"})
_ALWAYS = frozenset({"insured", "updated"})
EVERYTHING = Wanted()


def one_plate() -> peewee.Select:
    """Return a query for the registration that is the parameter `registration`."""
    return peewee.Select(columns=(parameter("registration").alias("registration"),))


def many_plates(engine: Engine) -> peewee.Select:
    """Return a query for the registrations in the parameter `plates`, as `listed` makes it."""
    return engine.each_of(parameter("plates"), "registration")


def listed(engine: Engine, registrations: Sequence[str]) -> object:
    """Return registrations, without repetitions, as the parameter `plates` of `many_plates`."""
    # PERF: sorted plates walk each tree from left to right and find its pages in the cache.
    return engine.listed(sorted(set(registrations)))


def look_up_query(
    engine: Engine,
    registers: Sequence[RegisterRef],
    plates: peewee.Select,
    mot_first_years: Mapping[str, int],
    wanted: Wanted = EVERYTHING,
    *,
    is_one: bool = False,
) -> peewee.Query:
    """Return the statement: one row for each plate, which `record_of` decodes.

    Its columns are those of the vehicle table, merged, null if they are not wanted; those of
    `_OtherColumns`; and for each register with policies those of `PolicyFacts`.

    Args:
        mot_first_years: the setting.
        is_one: there is exactly one plate.
    """
    plate = plates.cte("plate", columns=("registration",))
    described = [r for r in registers if r.holds(Kind.VEHICLES)]
    vehicles = [in_schema(Vehicle, r.schema) for r in described]
    otherwise = mot_first_years.get(EVERY_REGISTER, 0)
    years = [mot_first_years.get(r.name, otherwise) for r in described]
    policies = [in_schema(Policy, r.schema) for r in registers if r.holds(Kind.POLICIES)]
    fines = [in_schema(Fine, r.schema) for r in registers if r.holds(Kind.FINES)]

    source: peewee.Source = plate
    for table in vehicles:
        source = _left_join(source, table, table.registration == plate.c.registration)
    decisive: list[Any] = []
    rank: peewee.Node = _NULL
    if len(policies) == 1 and not engine.has_lateral:
        (table,) = decisive = policies
        source = _left_join(source, table, table.registration == plate.c.registration)
        rank = _rank(table)
    else:
        for table in policies:
            source, policy = _join_deciding_policy(engine, source, table, plate)
            decisive.append(policy)

    merged = {
        name: _MERGED[name](engine, vehicles, name) if wanted.has(name) else _NULL
        for name in VehicleFacts._fields
    }
    fined = engine.greatest([_newest_change(f, plate) for f in fines], "-1")
    others = _OtherColumns(
        # PERF: the time of a fine is needed only if no vehicle row is known.
        fines_updated=Case(None, [(merged["updated"].is_null(), fined)]),
        are_outstanding=_are_outstanding(fines, plate) if wanted.compliance else _NULL,
        mot_first_years=_years_of_first_known(vehicles, years),
        rank=rank,
    )
    columns = [plate.c.registration, *merged.values(), *others]
    for policy in decisive:
        columns += [getattr(policy, name) for name in PolicyFacts._fields]
    select = peewee.Select((source,), columns).with_cte(plate)
    is_grouped = rank is not _NULL and not is_one
    return select.group_by(plate.c.registration) if is_grouped else select


class _OtherColumns(NamedTuple):
    """The columns of a result row between those of the vehicle table and those of policies."""

    fines_updated: peewee.Node
    """The newest change of a fine, in Unix seconds."""
    are_outstanding: peewee.Node
    """Whether a fine is; NULL if this was not asked."""
    mot_first_years: peewee.Node
    """The years of the register that `first_registered` comes from."""
    rank: peewee.Node
    """That of the policy, if the statement chooses by it."""


_DESCRIBED = slice(0, len(column_names(Vehicle)) - 1)
_UPDATED = _DESCRIBED.stop
_OTHERS = slice(_UPDATED + 1, _UPDATED + 1 + len(_OtherColumns._fields))
_POLICY_COLUMNS = len(PolicyFacts._fields)


def record_of(row: Row, day: str) -> Record | None:
    """Return the Record that a row of `look_up_query` holds; None for an unknown plate.

    PERF: this takes a tenth of a bulk.
    """
    policy = None
    for at in range(_OTHERS.stop, len(row), _POLICY_COLUMNS):
        if row[at] is not None:  # Every policy has an insurer, if only the empty text.
            other = PolicyFacts._make(row[at : at + _POLICY_COLUMNS])
            # Among equals the first register decides (D20).
            if policy is None or other.rank(day) > policy.rank(day):
                policy = other
    updated, (newest_fine, are_outstanding, first_years, _) = row[_UPDATED], row[_OTHERS]
    if policy is not None and (updated is None or policy.updated > updated):
        updated = policy.updated
    if updated is None:
        updated = newest_fine
    if updated is None:  # Every stored row has its time: no register mentions the plate.
        return None
    has_outstanding_fines = None if are_outstanding is None else bool(are_outstanding)
    return Record(*(*row[_DESCRIBED], updated, has_outstanding_fines, policy, first_years))


def _left_join(source: peewee.Source, table: type[peewee.Model], on: peewee.Node) -> peewee.Source:
    return peewee.Join(source, table, JOIN.LEFT_OUTER, on)


def _rank(table: type[Policy]) -> peewee.Node:
    """Return the greatest rank of a plate's policies, from `PolicyFacts.rank`, as a text.

    SQLite takes the columns beside a single MAX() from the row that has it; of equal rows from the
    first one that it reads: in the order of the key, that of the first insurer. PERF: to read all
    policies of a plate once takes a fifth less than to choose one and to read it again.
    """
    flag = _is_in_force(table).cast("text")
    return fn.MAX(flag.concat(table.valid_to).concat(table.valid_from).concat(table.number))


def _is_in_force(table: Any) -> Any:
    day = parameter("day")
    return (
        (table.valid_from <= day)
        & (table.valid_to >= day)
        & (table.cancelled_on.is_null() | (table.cancelled_on > day))
    )


def _join_deciding_policy(
    engine: Engine, source: peewee.Source, table: type[Policy], plate: peewee.CTE
) -> tuple[peewee.Source, Any]:
    """Join the policy to answer with if there were only this register.

    Returns the joined source, and the table or subquery with the columns of the policy.
    """
    held = table.alias()
    in_force = _is_in_force(held)

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


def _newest_change(table: type[Fine], plate: peewee.CTE) -> peewee.Node:
    return table.select(fn.MAX(table.updated)).where(table.registration == plate.c.registration)


def _are_outstanding(tables: Sequence[type[Fine]], plate: peewee.CTE) -> peewee.Node:
    return reduce(or_, [_has_outstanding(t, plate) for t in tables], peewee.SQL("FALSE"))


def _has_outstanding(table: type[Fine], plate: peewee.CTE) -> peewee.Node:
    # PERF: not EXISTS: asked for many plates, Postgres would read the whole table for it.
    is_owed = table.select(~table.settled).where(
        (table.registration == plate.c.registration) & ~table.settled
    )
    return fn.COALESCE(is_owed.limit(1), peewee.SQL("FALSE"))


_NULL = peewee.SQL("NULL")
_Tables = Sequence[type[Vehicle]]
_Merge = Callable[[Engine, _Tables, str], Any]


def _columns(tables: _Tables, name: str) -> list[Any]:
    return [getattr(table, name) for table in tables]


def _first_known(engine: Engine, tables: _Tables, column: str) -> Any:
    """Return the column from the first register, in order of precedence, that knows it."""
    known = _columns(tables, column)
    if len(known) == 1:
        return known[0]
    return fn.COALESCE(*known) if known else _NULL


def _greatest(null: str) -> _Merge:
    return lambda engine, tables, column: engine.greatest(_columns(tables, column), null)


def _true_in_any(engine: Engine, tables: _Tables, column: str) -> Any:
    return reduce(or_, _columns(tables, column)) if tables else _NULL


def _with_tax_status(engine: Engine, tables: _Tables, column: str) -> Any:
    """Return the column from the register whose tax status is answered (D26)."""
    if not tables:
        return _NULL
    known = [(table.tax_status.is_null(False), getattr(table, column)) for table in tables]
    return Case(None, known)


def _years_of_first_known(tables: _Tables, years: Sequence[int]) -> Any:
    """Return the years of the first register that knows the first registration (D154)."""
    if len(set(years)) <= 1:
        return peewee.SQL(str(years[0] if years else 0))
    known = [table.first_registered.is_null(False) for table in tables]
    return Case(None, list(zip(known, years, strict=True)), 0)


_MERGED: Mapping[str, _Merge] = {
    "make": _first_known,
    "model": _first_known,
    "year": _first_known,
    "color": _first_known,
    "insured": _first_known,
    "mot_expiry": _greatest("'0001-01-01'"),
    "mot_exempt": _true_in_any,
    "first_registered": _first_known,
    "tax_status": _first_known,
    "tax_due": _with_tax_status,
    "updated": _greatest("-1"),
}
"""How each column of the vehicle tables of all registers becomes one value of the record."""
if _MERGED.keys() != set(VehicleFacts._fields):
    raise TypeError(f"_MERGED must have the keys {', '.join(VehicleFacts._fields)}")


Read = dict[str, int]
"""The registers that a look-up read, and which generation of each."""


class Records:
    """Reads plates from the registers.

    Args:
        order: names of registers in the order of precedence.
        mot_first_years: years after first registration before an MOT is due, by register.
    """

    def __init__(
        self, engine: Engine, order: tuple[str, ...], mot_first_years: Mapping[str, int]
    ) -> None:
        self._engine = engine
        self._order = order
        self._mot_first_years = mot_first_years
        self._compiled: dict[Wanted, _Compiled] = {}

    def find_record(
        self, registers: str, registration: str, day: str, wanted: Wanted = EVERYTHING
    ) -> tuple[Record | None, Read]:
        """Return what is known about one plate, None if no register mentions it.

        Also returns the registers that were read.

        This takes one statement. It runs again if a register was dropped, replaced or rolled back
        meanwhile (D72).

        Args:
            registers: state of the registers, read with the key.
            registration: in its canonical form.
            day: ISO date that decides which policy is answered.
        """

        def find(state: str) -> tuple[Row | None, Read]:
            if not state:
                return None, {}
            compiled = self._compiled_for(state, wanted)
            return compiled.one.row(registration=registration, day=day), compiled.generations

        row, read = repeat_if_removed(self._engine, registers, find)
        return record_of(row, day) if row else None, read

    def find_records(
        self, registers: str, registrations: Sequence[str], day: str, wanted: Wanted = EVERYTHING
    ) -> tuple[dict[str, Record], Read]:
        """Return the known ones among many plates, by registration; with one statement.

        Also returns the registers that were read.
        """
        plates = listed(self._engine, registrations)

        def find(state: str) -> tuple[list[Row], Read]:
            if not state:
                return [], {}
            compiled = self._compiled_for(state, wanted)
            return compiled.many.rows(plates=plates, day=day), compiled.generations

        rows, read = repeat_if_removed(self._engine, registers, find)
        found = (record_of(row, day) for row in rows)
        return {record.registration: record for record in found if record}, read

    def _compiled_for(self, state: str, wanted: Wanted) -> "_Compiled":
        """Return the statements for this set of registers, and attach exactly these."""
        compiled = self._compiled.get(wanted)
        if compiled is None or compiled.state != state:
            compiled = self._compiled[wanted] = self._compile(state, wanted)
        self._engine.attach_registers(compiled.registers)
        return compiled

    def _compile(self, state: str, wanted: Wanted) -> "_Compiled":
        engine, registers = self._engine, in_precedence(state, self._order)

        def prepared(plates: Callable[[], peewee.Select], *, is_one: bool = False) -> Prepared:
            years = self._mot_first_years
            return Prepared(
                engine,
                lambda: look_up_query(engine, registers, plates(), years, wanted, is_one=is_one),
            )

        return _Compiled(
            state,
            registers,
            {each.name: each.generation for each in registers},
            prepared(one_plate, is_one=True),
            prepared(lambda: many_plates(engine)),
        )


class _Compiled(NamedTuple):
    """The statements that look plates up in one set of registers."""

    state: str
    registers: tuple[RegisterRef, ...]
    generations: Read
    one: Prepared
    many: Prepared
