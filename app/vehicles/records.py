"""Looks plates up in all registers at once, and merges what they say (D26).

A statement returns one row per plate: what the operation needs of the columns of the vehicle table,
merged from all registers; of the fines; and the policy to answer with.
The statements are built and compiled once per set of registers. They reach the tables of each
register by key, so their cost does not depend on how many rows a register has.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import peewee
from peewee import JOIN, Case, fn

from app.setting_values import EVERY_REGISTER
from app.storage.engine import Engine, Prepared, Row, parameter
from app.storage.registers import in_precedence, repeat_if_removed
from app.storage.tables import COLUMNS, Fine, Kind, Merge, Policy, RegisterRef, Vehicle, in_schema
from app.vehicles.facts import FINES_MAX, PolicyFacts, Record
from app.vehicles.subqueries import (
    are_outstanding,
    count_outstanding,
    later_policies,
    newest_change,
    with_policy,
)


class Wanted(NamedTuple):
    """What a look-up needs besides the insurance."""

    vehicle: bool
    """Make, model, year and color."""
    papers: bool
    """What compliance is judged by: the MOT, the tax and the fines."""
    dates: bool = False
    """What later days are judged by (D172): the policies that end on or after the day; and with
    the papers, the number of fines."""
    in_force_first: bool = False
    """Read those in force first, so that none of them is missed if there are too many."""

    @property
    def columns(self) -> frozenset[str]:
        """The names of the fields of Record that the look-up needs, without those for dates."""
        of_vehicle, of_papers = _VEHICLE * self.vehicle, _PAPERS * self.papers
        return frozenset(_INSURANCE + of_vehicle + of_papers)


_INSURANCE = Record.__struct_fields__[:4]
_VEHICLE = Record.__struct_fields__[4:8]
_PAPERS = Record.__struct_fields__[8:-2]
EVERYTHING = Wanted(vehicle=True, papers=True)
DESCRIPTION = Wanted(vehicle=True, papers=False)


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
    wanted: Wanted,
) -> peewee.Query:
    """Return the statement: one row for each plate, which `record_of` decodes.

    Its columns are the fields of Record, without those at the end that are not wanted. The next
    column is the newest change of a fine, which counts if nothing else is known. If dates are
    wanted, the later policies follow, and the fines are counted.

    Args:
        mot_first_years: the setting.
    """
    plate = plates.cte("plate", columns=("registration",))
    described = [r for r in registers if r.holds(Kind.VEHICLES)]
    vehicles = [in_schema(Vehicle, r.schema) for r in described]
    otherwise = mot_first_years.get(EVERY_REGISTER, 0)
    years = [mot_first_years.get(r.name, otherwise) for r in described]
    policies = [in_schema(Policy, r.schema) for r in registers if r.holds(Kind.POLICIES)]
    fines = [in_schema(Fine, r.schema) for r in registers if r.holds(Kind.FINES)]

    source, policy = with_policy(engine, plate, policies, plate)
    tables, sought = [plate], plate.c.registration
    if not wanted.vehicle and not wanted.papers:
        # PERF: a policy answers alone. Many plates take 30 % less, as few have none.
        chosen = (plate.c.registration, policy.alias("policy"))
        plate = source = peewee.Select((source,), chosen).cte("chosen", materialized=True)
        policy = plate.c.policy
        tables.append(plate)
        sought = Case(None, [(policy.is_null(), plate.c.registration)])
    for table in vehicles:
        source = peewee.Join(source, table, JOIN.LEFT_OUTER, table.registration == sought)

    columns: dict[str, Any] = {
        name: _MERGED[name](engine, vehicles, name) for name in _MERGED if name in wanted.columns
    }
    columns |= {"registration": plate.c.registration, "policy": policy}
    if wanted.papers:
        owed = count_outstanding if wanted.dates else are_outstanding
        columns["has_outstanding_fines"] = owed(fines, plate)
        columns["mot_first_years"] = _years_of_first_known(vehicles, years)
    names = _INSURANCE + _VEHICLE + _PAPERS * wanted.papers
    selected = [columns.get(name, peewee.SQL("NULL")) for name in names]
    fined = engine.greatest([newest_change(f, sought) for f in fines], "-1")
    # PERF: the time of a fine is needed only if no vehicle row is known.
    selected.append(Case(None, [(columns["updated"].is_null(), fined)]))
    if wanted.dates:
        in_force_first = wanted.in_force_first
        selected.append(later_policies(engine, policies, plate, in_force_first=in_force_first))
    return peewee.Select((source,), selected).with_cte(*tables)


_POLICY, _UPDATED, _OWED = map(
    Record.__struct_fields__.index, ("policy", "updated", "has_outstanding_fines")
)
# PERF: this takes as long as a NamedTuple of columns, and the row has six columns less.
_policy_of = msgspec.json.Decoder(PolicyFacts).decode
_policies_in = msgspec.json.Decoder(tuple[PolicyFacts, ...]).decode


def record_of(row: Row) -> Record | None:
    """Return the Record that a row of `look_up_query` holds; None for an unknown plate."""
    fields = _fields_of(row)
    return None if fields is None else Record(*fields)


def dated_record_of(row: Row) -> Record | None:
    """Return the Record that a row holds if dates are wanted; None for an unknown plate."""
    *rest, packed = row
    fields = _fields_of(rest)
    if fields is None:
        return None
    policies = _policies_in(packed) if packed else ()
    if len(fields) <= _OWED:
        # The fields are those of the insurance and the vehicle.
        return Record(*fields, policies=policies)  # type: ignore[misc]
    owed = fields[_OWED]
    fields[_OWED] = owed > 0
    fields += policies, min(owed, FINES_MAX)
    return Record(*fields)


def _fields_of(row: Sequence[Any]) -> list[Any] | None:
    *fields, newest_fine = row
    packed, updated = fields[_POLICY], fields[_UPDATED]
    # Every stored row has its time.
    if packed is not None:
        policy = fields[_POLICY] = _policy_of(packed)
        if updated is None or policy.updated > updated:
            fields[_UPDATED] = policy.updated
    elif updated is None:
        if newest_fine is None:  # No register mentions the plate.
            return None
        fields[_UPDATED] = newest_fine
    return fields


def _decoded(wanted: Wanted) -> Callable[[Row], Record | None]:
    return dated_record_of if wanted.dates else record_of


_Tables = Sequence[Any]
_Merge = Callable[[Engine, _Tables, str], Any]


def _columns(tables: _Tables, name: str) -> list[Any]:
    return [getattr(table, name) for table in tables]


def _first_known(engine: Engine, tables: _Tables, column: str) -> Any:
    """Return the column from the first register, in order of precedence, that knows it."""
    known = _columns(tables, column)
    if len(known) == 1:
        return known[0]
    return fn.COALESCE(*known) if known else peewee.SQL("NULL")


def _greatest(engine: Engine, tables: _Tables, column: str) -> Any:
    null = "''" if column == "mot_expiry" else "-1"
    return engine.greatest(_columns(tables, column), null)


def _with_tax_status(engine: Engine, tables: _Tables, column: str) -> Any:
    """Return the column from the register whose tax status is answered (D26)."""
    if not tables:
        return peewee.SQL("NULL")
    known = [(table.tax_status.is_null(False), getattr(table, column)) for table in tables]
    return Case(None, known)


def _years_of_first_known(tables: _Tables, years: Sequence[int]) -> Any:
    """Return the years of the first register that knows the first registration (D154)."""
    if len(set(years)) <= 1:
        return peewee.SQL(str(years[0] if years else 0))
    known = [table.first_registered.is_null(False) for table in tables]
    return Case(None, list(zip(known, years, strict=True)), 0)


_MERGES: Mapping[Merge, _Merge] = {
    Merge.FIRST: _first_known,
    Merge.GREATEST: _greatest,
    Merge.WITH_STATUS: _with_tax_status,
}
_MERGED = {each.column: _MERGES[each.merge] for each in COLUMNS[Kind.VEHICLES][1:]}
"""How each column of the vehicle tables of all registers becomes one value of the record."""
if not _MERGED.keys() <= set(Record.__struct_fields__):
    raise TypeError(f"Record must have the fields {', '.join(_MERGED)}")


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
        """The statements of the last state of the registers."""

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
        return _decoded(wanted)(row) if row else None, read

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
        found = map(_decoded(wanted), rows)
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

        def prepared(plates: Callable[[], peewee.Select]) -> Prepared:
            return Prepared(
                engine,
                lambda: look_up_query(engine, registers, plates(), self._mot_first_years, wanted),
            )

        return _Compiled(
            state,
            registers,
            {each.name: each.generation for each in registers},
            prepared(one_plate),
            prepared(lambda: many_plates(engine)),
        )


class _Compiled(NamedTuple):
    """The statements that look plates up in one set of registers."""

    state: str
    registers: tuple[RegisterRef, ...]
    generations: Read
    one: Prepared
    many: Prepared
