"""Judges the plates whose rows a load changes, as they are before the load and after it.

The side before is read from the registers; the side after it is the same with the changes applied.
Only plates whose rows changed are read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, compress, islice, repeat
from operator import attrgetter, itemgetter, ne
from typing import Any, TypeVar

from app.clock import is_day_before
from app.registers.applying.answers import AnswerCounts, LoadBasis
from app.registers.applying.apply_changes import JUDGED, Effect
from app.registers.applying.counts import in_force
from app.registers.applying.parts import Judge, PlatePart, RowsByPlate, joined
from app.registers.formats.changes import Columns, order_of
from app.storage.engine import Engine, Prepared, closed_afterwards, parameter
from app.storage.registers import (
    TELLS_UNKNOWN,
    in_precedence,
    read_fault,
    read_state,
    repeat_if_removed,
)
from app.storage.stores import connected_again
from app.storage.tables import (
    TABLES,
    FineRow,
    Kind,
    PolicyRow,
    RegisterRef,
    VehicleRow,
    in_schema,
)

_T = TypeVar("_T")
PLATES_ASKED = 5_000
"""Plates that are judged together, at most: one statement for each table reads their rows."""
ROWS_KEPT = 100_000
"""Rows of many plates that one statement reads. They take 40 MB; a plate with more is judged
alone."""
OwnRows = tuple[Sequence[Columns], Sequence[Columns]]
"""The rows of a plate in the loaded register, of the load's kind, before and after."""


class _TooManyRows(Exception):
    """Plates have so many rows that fewer of them must be judged at once."""


class AnswerComparer:
    """Compares the answers about plates before and after a load, page by page.

    Args:
        engine: a connection that sees the registers as they are before the load.
        register: the register that is loaded.
    """

    def __init__(
        self, engine: Engine, register: str, kind: Kind, basis: LoadBasis, counts: AnswerCounts
    ) -> None:
        self._engine, self._register, self._kind = engine, register, kind
        self._basis, self._counts = basis, counts
        self._judge = Judge(basis.day, basis.mot_first_years)
        self._attached_state: str | None = None
        self._registers: tuple[RegisterRef, ...] = ()
        """The registers of the state that is attached."""
        self._before: dict[str, list[Columns]] = {}
        """By plate, the rows that the load removes or replaces."""
        self._after: dict[str, list[Columns]] = {}
        """By plate, the rows that it adds, or replaces others with."""
        self._waiting = 0
        """How many rows these are."""

    def add(self, effect: Effect) -> None:
        """Take changes, in the order of their keys, and judge full pages of plates."""
        judged, before, after = JUDGED[self._kind], self._before, self._after
        for row in effect.removed:
            before.setdefault(row[0], []).append(row)
        for row in effect.added:
            after.setdefault(row[0], []).append(row)
        for old, row in zip(effect.replaced, effect.updated, strict=True):
            if judged(old) != judged(row):
                before.setdefault(row[0], []).append(old)
                after.setdefault(row[0], []).append(row)
                self._waiting += 2
        self._waiting += len(effect.removed) + len(effect.added)
        if self._waiting > PLATES_ASKED:
            # The next effect may have more changes of the last plate.
            plates = sorted(before | after)[:-1]
            for start in range(0, len(plates), PLATES_ASKED):
                self._count(plates[start : start + PLATES_ASKED])
            self._waiting = sum(map(len, chain(before.values(), after.values())))

    def finish(self) -> None:
        """Judge the plates that are left."""
        self._count(sorted(self._before | self._after))

    def _count(self, plates: Sequence[str]) -> None:
        """Count plates, and forget their changes."""
        before, after = self._before, self._after
        changes = {plate: (before.pop(plate, ()), after.pop(plate, ())) for plate in plates}

        def count(some: Mapping[str, OwnRows]) -> AnswerCounts:
            state = read_state(self._engine)
            return repeat_if_removed(self._engine, state, lambda now: self._counted(now, some))

        for counts in _in_pages(changes, count):
            self._counts.add_others(counts.to_tuple())

    def _counted(self, state: str, changes: Mapping[str, OwnRows]) -> AnswerCounts:
        """Return the counts of plates, as the registers of a state have them before the load.

        Args:
            changes: by plate, the rows that change, before and after.
        """
        counts, kind, day = AnswerCounts(), self._kind, self._basis.day
        registers = self._attached(state)
        own = self._own(registers, changes)
        counts.plates = len(own)
        is_live = in_force(kind, day)
        # PERF: a register that never had rows of this kind has none that leave a plate.
        if any(each.name == self._register and each.holds(kind) for each in registers):
            for before, after in own.values():
                counts.left += any(map(is_live, before)) and not any(map(is_live, after))
                if kind != Kind.VEHICLES:
                    counts.moves.add(_numbers(before, kind), _numbers(after, kind))
        # PERF: many plates have the same answers before and after.
        turned, was, is_now = self._answers(registers, own)
        sooner: Iterable[tuple[str, ...]] = repeat(())
        if kind == Kind.VEHICLES and any(before for before, _ in own.values()):
            sooner = [_day_sooner(*own[plate], day) for plate in turned]
        for (old, new, days), times in Counter(zip(was, is_now, sooner)).items():  # noqa: B905
            counts.add(old, new, times, days)
        return counts

    def _own(
        self, registers: Sequence[RegisterRef], changes: Mapping[str, OwnRows]
    ) -> Mapping[str, OwnRows]:
        """Return by plate all rows of the loaded register, before and after the load."""
        if self._kind == Kind.VEHICLES:  # A vehicle has one row, which is in the change.
            return changes
        loaded = [each for each in registers if each.name == self._register]
        held = self._rows(loaded, self._kind, list(changes)).get(self._register)
        if held is None:
            return changes
        own: dict[str, OwnRows] = {}
        size = order_of(self._kind).key_columns
        for plate, (removed, added) in changes.items():
            before = held.get(plate, ())
            rows = {row[:size]: row for row in before}
            for row in removed:
                rows.pop(row[:size], None)
            rows |= {row[:size]: row for row in added}
            own[plate] = before, list(rows.values())
        return own

    def compared(
        self, state: str, own: Mapping[str, OwnRows]
    ) -> tuple[list[tuple[str, PlatePart, PlatePart]], Mapping[str, int]]:
        """Return the plates whose part of the load's kind changes, with both answers about them.

        Also returns the generations of the registers that were read.

        Args:
            state: the state of the registers, for the rows of other registers and kinds.
            own: by plate the rows of the loaded register and kind, before and after.
        """
        registers = self._attached(state)
        read = {each.name: each.generation for each in registers}

        def compare(page: Mapping[str, OwnRows]) -> Iterable[tuple[str, PlatePart, PlatePart]]:
            return zip(*self._answers(registers, page), strict=True)

        return list(chain.from_iterable(_in_pages(own, compare))), read

    def _answers(
        self, registers: Sequence[RegisterRef], own: Mapping[str, OwnRows]
    ) -> tuple[list[str], list[PlatePart], list[PlatePart]]:
        """Return the plates whose part of the load's kind changes, with both answers about them."""
        plates = list(own)
        others = self._rows([r for r in registers if r.name != self._register], self._kind, plates)
        sides = []
        for its in zip(*own.values(), strict=True):
            held: dict[str, RowsByPlate]
            held = {name: _by_plate(found, plates) for name, found in others.items()}
            if any(its):
                held[self._register] = its
            in_order = {each.name: held[each.name] for each in registers if each.name in held}
            sides.append(self._judge.parts(self._kind, in_order, len(plates)))
        differ = list(map(ne, *sides))
        turned = list(compress(plates, differ))
        parts: list[Sequence[list[PlatePart]]] = []
        for kind in Kind:
            if kind == self._kind:
                parts.append([list(compress(side, differ)) for side in sides])
            else:
                rest = self._rows(registers, kind, turned).items()
                held = {name: _by_plate(found, turned) for name, found in rest}
                parts.append([self._judge.parts(kind, held, len(turned))] * 2)
        was, is_now = (list(map(joined, *of_kinds)) for of_kinds in zip(*parts, strict=True))
        return turned, was, is_now

    def _attached(self, state: str) -> tuple[RegisterRef, ...]:
        """Attach and return the registers of a state, and the loaded one even if it is new."""
        if state != self._attached_state:
            found = in_precedence(_with_register(state, self._register), self._basis.order)
            self._registers = tuple(map(self._readable, found))
            self._attached_state = state
        self._engine.attach_registers(tuple(filter(_GENERATION, self._registers)))
        return self._registers

    def _readable(self, ref: RegisterRef) -> RegisterRef:
        """Return a register, without its rows if it is new or damaged."""
        if ref.generation and read_fault(self._engine, (ref,)) is None:
            return ref
        if ref.name != self._register:
            # The load must not fail because of it, and look-ups answer nothing until it is mended.
            self._counts.unread.add(ref.name)
        return RegisterRef(ref.name, 0, "")

    def _rows(
        self, registers: Sequence[RegisterRef], kind: Kind, plates: Sequence[str]
    ) -> Mapping[str, Mapping[str, Sequence[Columns]]]:
        """Return the rows of one kind by plate, of each register that has one of these plates.

        PERF: most plates of a national register are in no other one.
        """
        found = {each.name: rows_of(self._engine, each, kind, plates) for each in registers}
        return {name: rows for name, rows in found.items() if rows}


def _in_pages(
    plates: Mapping[str, OwnRows], ask: Callable[[Mapping[str, OwnRows]], _T]
) -> Iterator[_T]:
    """Ask about plates together, or about fewer at once if they have too many rows."""
    if not plates:
        return
    try:
        yield ask(plates)
    except _TooManyRows:
        each, half = iter(plates.items()), len(plates) // 2
        yield from _in_pages(dict(islice(each, half)), ask)
        yield from _in_pages(dict(each), ask)


def rows_of(
    engine: Engine, ref: RegisterRef, kind: Kind, plates: Sequence[str]
) -> dict[str, list[Columns]]:
    """Return the rows of one table of a register by plate, in any order.

    Args:
        ref: the register, which must be attached.
        plates: in their canonical form.

    Raises _TooManyRows if several plates have more than `ROWS_KEPT`.
    """
    if not ref.holds(kind):
        return {}
    table: Any = in_schema(TABLES[kind], ref.schema)
    asked = engine.each_of(parameter("plates"), "registration")
    query = table.select().where(table.registration.in_(asked))
    if len(plates) > 1:
        query = query.limit(ROWS_KEPT + 1)
    rows = Prepared(engine, lambda: query).rows(plates=engine.listed(sorted(plates)))
    if len(plates) > 1 and len(rows) > ROWS_KEPT:
        raise _TooManyRows
    found: dict[str, list[Columns]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def _by_plate(
    found: Mapping[str, Sequence[Columns]], plates: Sequence[str]
) -> list[Sequence[Columns]]:
    return [found.get(plate, ()) for plate in plates]


_GENERATION = attrgetter("generation")
_NUMBER = {
    Kind.POLICIES: itemgetter(PolicyRow._fields.index("number")),
    Kind.FINES: itemgetter(FineRow._fields.index("reference")),
}


def _day_sooner(before: Sequence[Columns], after: Sequence[Columns], day: str) -> tuple[str, ...]:
    """Return the checks whose last day was this one, and now is the day before, in a plate's row.

    If the plate loses such a check, it does so for no other reason.
    """
    if not before or not after:
        return ()
    old, new = VehicleRow._make(before[0]), VehicleRow._make(after[0])
    days = {"mot": (old.mot_expiry, new.mot_expiry)}
    if old.tax_status == new.tax_status:
        days["tax"] = old.tax_due, new.tax_due
    return tuple(
        name
        for name, (was, is_now) in days.items()
        if was == day and is_now is not None and is_day_before(is_now, day)
    )


def _with_register(state: str, register: str) -> str:
    """Return a state of the registers in which this register exists, if only without kinds."""
    listed = state.removesuffix(TELLS_UNKNOWN)
    entries = [each for each in listed.split(",") if each and each.split("/")[2]]
    is_there = any(each.startswith(f"{register}/") for each in entries)
    return ",".join(entries if is_there else [*entries, f"{register}/0/-"])


def _numbers(rows: Sequence[Columns], kind: Kind) -> set[str]:
    """Return the numbers of policies, or the references of fines."""
    return set(map(_NUMBER[kind], rows))


@contextmanager
def counted_answers(
    engine: Engine, register: str, kind: Kind, basis: LoadBasis, counts: AnswerCounts
) -> Iterator[AnswerComparer]:
    """Count the answers that a load changes, on a connection of its own.

    So a forked worker can call this as well. See `AnswerComparer` for the arguments.
    """
    with closed_afterwards(connected_again(engine)) as reader:
        answers = AnswerComparer(reader, register, kind, basis, counts)
        yield answers
        answers.finish()
