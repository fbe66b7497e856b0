"""Reads the rows that the registers hold about plates, with one statement for all of them (D26).

The statement joins one part for each table of each register. All parts have the same columns, in
which the columns of each kind have their places by type. Each part reaches its table by key, so
the cost does not depend on how many rows a register has.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import peewee

from app.storage.engine import Engine, Prepared, Row, parameter
from app.storage.tables import COLUMNS, TABLES, Kind, RegisterRef, in_schema
from app.vehicles.facts import FineFacts, PlateFacts, PolicyFacts, VehicleFacts, WantedFields

ROWS_MAX = 300
"""Rows of one plate that are read at once."""
_ROWS_PER_PLATE = 10
"""Rows of each of many plates that are read at once, on average. PERF: most have less than five."""
_PAGE_ROWS = 1_000
"""Rows of one plate and one table that are read at once if it has many."""


class Part(NamedTuple):
    """One table of one register; what the statement reads of it."""

    register: str
    kind: Kind
    table: Any = None


Rows = Sequence[tuple[Part, Sequence[Row]]]
"""Rows of plates, by part; parts without rows may be missing.

A row has the number of its part, the registration, and the columns of its kind in their places
(`PLACES`). Parts have the order of the registers' precedence, and their rows that of their keys.
"""
Needed = Callable[[Rows, str], Rows]
"""Returns those rows of a plate on which the answer about a day depends; called between pages."""
Settled = Callable[[Rows, str], Collection[str]]
"""Returns the plates whose policies decide the answer about a day: nothing else need be read."""


def _types_of(kind: Kind) -> list[type[peewee.Field]]:
    """Return the types of a table's columns, without the registration."""
    return [type(field) for field in TABLES[kind]._meta.sorted_fields[1:]]


_TYPES = _types_of(Kind.VEHICLES)
"""The types of the columns of all parts. A vehicle has as many of each as the other kinds need."""
REGISTRATION = 1
"""The position of the registration in a row."""


def _places_of(kind: Kind) -> dict[str, int]:
    free = list(enumerate(_TYPES, REGISTRATION + 1))
    places = {}
    for member, needed in zip(COLUMNS[kind][1:], _types_of(kind), strict=True):
        found = next(each for each in free if each[1] is needed)
        free.remove(found)
        places[member.column] = found[0]
    return places


PLACES: Mapping[Kind, Mapping[str, int]] = {kind: _places_of(kind) for kind in Kind}
"""The positions of a table's columns in a row of the statement."""
_part_of, _registration_of = itemgetter(0), itemgetter(REGISTRATION)
_by_key = itemgetter(0, 1, *map(PLACES[Kind.POLICIES].get, ("insurer", "number", "valid_from")))
"""Return the part and the key of a row; other kinds have shorter keys, in the same places."""


_vehicle_values, _policy_values, _fine_values = (
    itemgetter(*PLACES[kind].values()) for kind in Kind
)
# PERF: `_make` takes twice as long.
_new_policy: Callable[[Iterable[Any]], PolicyFacts] = partial(tuple.__new__, PolicyFacts)


def policy_in(row: Row) -> PolicyFacts:
    """Return the facts of a policy's row."""
    return _new_policy(_policy_values(row))


def row_of(kind: Kind, registration: str, facts: Iterable[Any]) -> Row:
    """Return the row that the statement has for facts of a register."""
    row: list[Any] = [0, registration, *(None for _ in _TYPES)]
    for at, value in zip(PLACES[kind].values(), facts, strict=True):
        row[at] = value
    return tuple(row)


class PlateRows:
    """Reads plates from one set of registers, which must be attached.

    Args:
        registers: in the order of precedence.
        wanted: the columns to read; the others are None.
        settled: by default all plates that have policies.
    """

    def __init__(
        self,
        engine: Engine,
        registers: Sequence[RegisterRef],
        wanted: WantedFields,
        settled: Settled | None = None,
    ) -> None:
        self._engine, self._wanted, self._settled = engine, wanted, settled
        self._parts = [
            Part(ref.name, kind, in_schema(TABLES[kind], ref.schema))
            for kind in Kind
            for ref in registers
            if ref.holds(kind)
        ]
        # PERF: a policy answers alone about the insurance, and most plates have one. For others
        # the next statement reads all parts, so that each answer is of one moment.
        first = self._parts
        if not wanted.papers:
            kinds = (Kind.VEHICLES, Kind.POLICIES) if wanted.vehicle else (Kind.POLICIES,)
            first = [part for part in self._parts if part.kind in kinds]
        steps = [first, self._parts] if first and first != self._parts else [self._parts]
        self._is_in_part = [
            step != self._parts and {part.kind for part in step} == {Kind.POLICIES}
            for step in steps
        ]
        """Whether a step reads policies alone, and the next one reads the other kinds."""
        self._one = [Prepared(engine, partial(self._of_one, step)) for step in steps]
        self._many = [Prepared(engine, partial(self._of_many, step)) for step in steps]

    def read(self, plates: Sequence[str], day: str, needed: Needed) -> Iterator[Rows]:
        """Yield the rows of plates that an answer needs; those of one plate are yielded together.

        Plates with many rows are read apart, so that memory stays bounded.

        Args:
            plates: in order, without repetitions. PERF: so they walk each tree from left to right.
            day: ISO date that the answer is about.
        """
        if not self._parts:
            return
        rows_max = ROWS_MAX + _ROWS_PER_PLATE * (len(plates) - 1)
        left = plates
        for one, many, is_in_part in zip(self._one, self._many, self._is_in_part, strict=True):
            if len(left) == 1:  # PERF: the statement for a single plate is the faster one.
                rows = one.rows(registration=left[0], rows=rows_max)
            else:
                rows = many.rows(plates=self._engine.listed(left), rows=rows_max)
            if len(rows) == rows_max:
                yield from self._read_apart(left, day, needed)
                return
            if rows:
                found = self._by_part(rows)
                if many is self._many[-1]:  # PERF: nobody need know which plates are left.
                    yield found
                    return
                known: Collection[str] = set(map(_registration_of, rows))
                if is_in_part and self._settled is not None:
                    mentioned, known = known, self._settled(found, day)
                    if len(known) < len(mentioned):
                        found = _of_plates(found, known)
                yield found
                if len(known) == len(left):
                    return
                left = [plate for plate in left if plate not in known]

    def _read_apart(self, plates: Sequence[str], day: str, needed: Needed) -> Iterator[Rows]:
        if len(plates) == 1:
            yield self._paged(plates[0], day, needed)
            return
        half = len(plates) // 2
        yield from self.read(plates[:half], day, needed)
        yield from self.read(plates[half:], day, needed)

    def _by_part(self, rows: list[Row]) -> Rows:
        if not self._engine.keeps_order:
            rows.sort(key=_by_key)
        return [(self._parts[at], list(its)) for at, its in groupby(rows, _part_of)]

    def _paged(self, plate: str, day: str, needed: Needed) -> Rows:
        """Return the rows of a plate that are needed, read in pages."""
        rows: Rows = []
        for part in self._parts:
            for page in self._pages(part, plate):
                rows = needed([*rows, (part, page)], day)
        return rows

    def _pages(self, part: Part, plate: str) -> Iterator[list[Row]]:
        """Yield the rows of a plate in one table, in the order of their keys."""
        names = [each.column for each in COLUMNS[part.kind] if each.is_key]
        keys = [getattr(part.table, name) for name in names]
        query = part.table.select(self._columns_of(part)).where(part.table.registration == plate)
        query = query.order_by(*keys).limit(_PAGE_ROWS)
        rows = self._rows_of(query)
        while len(rows) == _PAGE_ROWS:
            yield rows
            last = _by_key(rows[-1])[2 : 1 + len(keys)]
            rows = self._rows_of(query.where(peewee.Tuple(*keys[1:]) > peewee.Tuple(*last)))
        yield rows

    def _rows_of(self, query: Any) -> list[Row]:
        return Prepared(self._engine, lambda: query).rows()

    def _of_one(self, parts: Sequence[Part]) -> Any:
        """Return a statement for a `registration`."""
        queries = (
            part.table.select(self._columns_of(part)).where(
                part.table.registration == parameter("registration")
            )
            for part in parts
        )
        return reduce(peewee.SelectBase.union_all, queries).limit(parameter("rows"))

    def _of_many(self, parts: Sequence[Part]) -> Any:
        """Return a statement for `plates`."""
        plates = self._engine.each_of(parameter("plates"), "text")
        listed = plates.cte("listed", materialized=True, columns=("text",))
        queries = (
            self._engine.with_each(self._columns_of(part), part.table, listed) for part in parts
        )
        joined = reduce(peewee.SelectBase.union_all, queries)
        return joined.limit(parameter("rows")).with_cte(listed)

    def _columns_of(self, part: Part) -> peewee.Node:
        """Return the columns of one part, as short as possible.

        PERF: APSW hashes the text of a statement each time that it runs.
        """
        selected = list(map(self._engine.null, _TYPES))
        for name, at in PLACES[part.kind].items():
            if part.kind != Kind.VEHICLES or name in self._wanted.columns:
                selected[at - REGISTRATION - 1] = name
        return peewee.SQL(",".join((str(self._parts.index(part)), "registration", *selected)))


def _of_plates(rows: Rows, plates: Collection[str]) -> Rows:
    return [(part, [row for row in its if row[REGISTRATION] in plates]) for part, its in rows]


def held_of(rows: Rows) -> dict[str, PlateFacts]:
    """Return the facts of the rows by plate, each with the name of its register."""
    found: dict[str, PlateFacts] = {}
    for part, its in rows:
        for row in its:
            vehicles, policies, fines = found.setdefault(row[REGISTRATION], PlateFacts([], [], []))
            match part.kind:
                case Kind.VEHICLES:
                    vehicles.append((part.register, VehicleFacts._make(_vehicle_values(row))))
                case Kind.POLICIES:
                    policies.append((part.register, policy_in(row)))
                case Kind.FINES:
                    fines.append((part.register, FineFacts._make(_fine_values(row))))
    return found
