"""Counts how a load changes answers: which vehicles become insured, compliant or known.

Counts are of final answers over all registers, and both sides are judged on the same day. The side
before the load is read from the registers; the side after it is the same with the changes applied.
Only plates whose rows changed are read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple
from zlib import crc32

from app.clock import is_day_before
from app.registers.applying.apply_changes import Outcome
from app.registers.formats.changes import Columns, FineRow, PolicyRow, VehicleRow, order_of
from app.storage.engine import Engine, closed_afterwards
from app.storage.registers import in_precedence, read_fault, read_state, repeat_if_removed
from app.storage.stores import connected_again
from app.storage.tables import Kind, RegisterRef
from app.vehicles.holdings import FACTS, rows_of
from app.vehicles.parts import (
    NOTHING,
    Answer,
    Part,
    joined,
    part_of_fines,
    part_of_policies,
    part_of_vehicles,
)

PLATES_ASKED = 5_000
"""Plates that are read with one statement for each table."""
_INSURERS_MAX = 1_000
"""The insurers that are counted by name; the others are counted together, with an empty name."""
ANSWERS = Answer._fields
_FOLLOWED_MAX = 50_000
"""How many policies and fines are followed from plate to plate; of more, a share of them is."""


class Basis(NamedTuple):
    """By what both sides of a load are judged."""

    day: str
    """ISO date on which the load began."""
    order: tuple[str, ...] = ()
    """The names of registers in the order of precedence."""
    mot_first_years: Mapping[str, int] = {}
    """Years after first registration before an MOT is due, by register."""


OwnRows = tuple[Sequence[Any], Sequence[Any]]
"""The rows of a plate in the loaded register before and after, as facts of the load's kind."""


class Turned(NamedTuple):
    """How many plates have a good answer that they did not have before, and the opposite."""

    gained: int = 0
    lost: int = 0

    def plus(self, gained: int, lost: int) -> "Turned":
        """Return the sum of both."""
        return Turned(self.gained + gained, self.lost + lost)


class Moves:
    """Counts the numbers that leave one plate and come to another.

    Memory is bounded: of many numbers, those with certain checksums stand for all.
    """

    def __init__(self, mask: int = 0, left: Iterable[int] = (), came: Iterable[int] = ()) -> None:
        self._mask = mask
        self._left, self._came = set(left), set(came)

    def add(self, before: set[str], after: set[str]) -> None:
        """Add the numbers of a plate."""
        self.add_others(0, map(_checksum, before - after), map(_checksum, after - before))

    def add_others(self, mask: int, left: Iterable[int], came: Iterable[int]) -> None:
        """Add what another process counted, from `to_tuple`."""
        if mask > self._mask:
            self._thin_out(mask)
        kept = self._mask
        self._left.update(each for each in left if not each & kept)
        self._came.update(each for each in came if not each & kept)
        while max(len(self._left), len(self._came)) > _FOLLOWED_MAX:
            self._thin_out(self._mask * 2 + 1)

    def _thin_out(self, mask: int) -> None:
        self._mask = mask
        self._left = {each for each in self._left if not each & mask}
        self._came = {each for each in self._came if not each & mask}

    @property
    def count(self) -> int:
        """How many moved; an estimate if there are many."""
        return len(self._left & self._came) * (self._mask + 1)

    def to_tuple(self) -> tuple[int, set[int], set[int]]:
        """Return everything as a tuple, for `add_others`."""
        return self._mask, self._left, self._came


def _checksum(number: str) -> int:
    return crc32(number.encode())


class AnswerCounts:
    """How many answers of plates changed."""

    def __init__(self) -> None:
        self.plates = 0
        """Plates whose rows changed so that answers may differ."""
        self.left = 0
        """Plates that had a row in force of the load's kind in its register, and have none now."""
        self.answers = dict.fromkeys(ANSWERS, Turned())
        self.day_sooner = Counter[str]()
        """By answer: of the plates that lost it, those that did so only because an agency's last
        day is a day sooner."""
        self.insurers: dict[str, Turned] = {}
        """By insurer: how many plates it covers now and did not before, and how many of its plates
        are without cover now."""
        self.moves = Moves()
        self.unread: set[str] = set()
        """Registers that cannot be read: answers are counted without them."""

    def add(
        self, before: Part, after: Part, plates: int = 1, day_sooner: Collection[str] = ()
    ) -> None:
        """Count the answers about plates that have the same ones.

        Args:
            day_sooner: the checks whose last day was the day of the load, and is the day before.
        """
        for name, was, is_now in zip(ANSWERS, before.answer, after.answer, strict=True):
            if was != is_now:
                self.answers[name] = self.answers[name].plus(is_now * plates, was * plates)
                if was and name in day_sooner:
                    self.day_sooner[name] += plates
        if before.insurer != after.insurer:
            self._add_insurer(after.insurer, gained=plates)
            self._add_insurer(before.insurer, lost=plates * (after.insurer is None))

    def _add_insurer(self, name: str | None, gained: int = 0, lost: int = 0) -> None:
        if name is not None and gained + lost:
            named = name if name in self.insurers or len(self.insurers) < _INSURERS_MAX else ""
            self.insurers[named] = self.insurers.get(named, Turned()).plus(gained, lost)

    def to_tuple(self) -> tuple[Any, ...]:
        """Return all counts as a tuple of plain values, for `add_others` in another process."""
        answers = {name: tuple(turned) for name, turned in self.answers.items()}
        insurers = {name: tuple(turned) for name, turned in self.insurers.items()}
        moves = self.moves.to_tuple()
        day_sooner, unread = dict(self.day_sooner), sorted(self.unread)
        return self.plates, self.left, answers, day_sooner, insurers, moves, unread

    def add_others(self, counts: tuple[Any, ...]) -> None:
        """Add the counts of another process for the same load."""
        plates, left, answers, day_sooner, insurers, moves, unread = counts
        self.unread.update(unread)
        self.day_sooner.update(day_sooner)
        self.plates += plates
        self.left += left
        for name, turned in answers.items():
            self.answers[name] = self.answers[name].plus(*turned)
        for name, turned in insurers.items():
            self._add_insurer(name, *turned)
        self.moves.add_others(*moves)


class Answers:
    """Judges the plates whose rows a load changes, page by page.

    Args:
        engine: a connection that sees the registers as they are before the load.
        register: the register that is loaded.
    """

    def __init__(
        self, engine: Engine, register: str, kind: Kind, basis: Basis, counts: AnswerCounts
    ) -> None:
        self._engine, self._register, self._kind = engine, register, kind
        self._basis, self._counts = basis, counts
        self._key_columns = order_of(kind).key_columns
        self._attached_state: str | None = None
        self._registers: tuple[RegisterRef, ...] = ()
        """The registers of the state that is attached."""
        self._changed: dict[str, dict[Columns, Columns | None]] = {}
        """By plate and key the new row, None if the row is removed."""

    def add(self, outcome: Outcome) -> None:
        """Take changes, in the order of their keys, and judge full pages of plates."""
        size, judged = self._key_columns, _JUDGED[self._kind]
        for row in outcome.removed:
            self._changed.setdefault(row[0], {})[row[:size]] = None
        for row in outcome.added:
            self._changed.setdefault(row[0], {})[row[:size]] = row
        for old, row in zip(outcome.replaced, outcome.updated, strict=True):
            if judged(old) != judged(row):
                self._changed.setdefault(row[0], {})[row[:size]] = row
        while len(self._changed) > PLATES_ASKED:
            # The next outcome may have more changes of the last plate.
            self._judge(sorted(self._changed)[:PLATES_ASKED])

    def finish(self) -> None:
        """Judge the plates that are left."""
        self._judge(sorted(self._changed))

    def _judge(self, plates: Sequence[str]) -> None:
        """Count plates, and forget their changes."""
        if plates:
            counts = repeat_if_removed(
                self._engine, read_state(self._engine), lambda state: self._counted(state, plates)
            )
            self._counts.add_others(counts.to_tuple())
        for plate in plates:
            del self._changed[plate]

    def _counted(self, state: str, plates: Sequence[str]) -> AnswerCounts:
        """Return the counts of plates, as the registers of a state have them before the load."""
        counts, kind, day = AnswerCounts(), self._kind, self._basis.day
        registers = self._attached(state)
        held = self._rows(registers, kind, plates)
        own: dict[str, OwnRows] = {}
        for plate in plates:
            before = held[self._register].get(plate, ())
            changed = _changed(before, kind, self._changed[plate])
            own[plate] = before, changed
            counts.plates += 1
            counts.left += _are_in_force(before, kind, day) and not _are_in_force(
                changed, kind, day
            )
            if kind != Kind.VEHICLES:
                counts.moves.add(_numbers(before, kind), _numbers(changed, kind))
        # PERF: many plates have the same answers before and after.
        found = self._answers(registers, held, own)
        answers = Counter(
            (was, now, _day_sooner(kind, *own[plate], day)) for plate, was, now in found
        )
        for (was, now, day_sooner), times in answers.items():
            counts.add(was, now, times, day_sooner)
        return counts

    def compared(
        self, state: str, own: Mapping[str, OwnRows]
    ) -> tuple[list[tuple[str, Part, Part]], Mapping[str, int]]:
        """Return the plates whose part of the load's kind changes, with both answers about them.

        Also returns the generations of the registers that were read.

        Args:
            state: the state of the registers, for the rows of other registers and kinds.
            own: by plate the rows of the loaded register and kind, before and after.
        """
        registers = self._attached(state)
        held = self._rows(registers, self._kind, list(own))
        read = {each.name: each.generation for each in registers}
        return list(self._answers(registers, held, own)), read

    def _answers(
        self,
        registers: Sequence[RegisterRef],
        same: Mapping[str, Mapping[str, Sequence[Any]]],
        own: Mapping[str, OwnRows],
    ) -> Iterator[tuple[str, Part, Part]]:
        """Yield the plates whose part of the load's kind changes, with both answers about them."""
        turned: dict[str, tuple[Part, Part]] = {}
        others = [found for name, found in same.items() if name != self._register]
        # PERF: nearly all plates of a national register are in no other register.
        shared = {plate for found in others for plate in found}
        for plate, sides in own.items():
            rows: dict[str, Sequence[Any]] = {}
            if plate in shared:
                rows = {name: found.get(plate, ()) for name, found in same.items()}
            before, after = (self._part(self._kind, {**rows, self._register: its}) for its in sides)
            if before != after:
                turned[plate] = before, after
        plates = list(turned)
        held = [(kind, self._rows(registers, kind, plates)) for kind in Kind if kind != self._kind]
        has_rows = [{plate for rows in found.values() for plate in rows} for _, found in held]
        at = list(Kind).index(self._kind)
        for plate, parts in turned.items():
            rest = [
                self._part(kind, _of_plate(found, plate)) if plate in plates_of_kind else NOTHING
                for (kind, found), plates_of_kind in zip(held, has_rows, strict=True)
            ]
            was, is_now = (joined(*[*rest[:at], part, *rest[at:]]) for part in parts)
            yield plate, was, is_now

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
    ) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        """Return the rows of one kind by register, in the order of precedence, and by plate."""
        return {each.name: rows_of(self._engine, each, kind, plates) for each in registers}

    def _part(self, kind: Kind, held: Mapping[str, Sequence[Any]]) -> Part:
        """Return what the rows of one kind say, of the rows of each register."""
        if not any(held.values()):
            return NOTHING
        day = self._basis.day
        if kind == Kind.VEHICLES:
            vehicles = [(name, row) for name, rows in held.items() for row in rows]
            return part_of_vehicles(vehicles, day, self._basis.mot_first_years)
        if kind == Kind.POLICIES:
            return part_of_policies(held.values(), day)
        return part_of_fines(held.values())


_GENERATION = attrgetter("generation")
_JUDGED = {
    Kind.VEHICLES: itemgetter(
        *map(VehicleRow._fields.index, VehicleRow._fields[VehicleRow._fields.index("insured") : -1])
    ),
    Kind.POLICIES: itemgetter(*map(PolicyRow._fields.index, ("valid_to", "cancelled_on"))),
    Kind.FINES: itemgetter(FineRow._fields.index("settled")),
}
"""Return the values of a row on which answers depend, besides its key."""
_OWN_KEY = {
    Kind.VEHICLES: lambda facts: (),
    Kind.POLICIES: lambda facts: (facts.insurer, facts.number, facts.valid_from),
    Kind.FINES: lambda facts: (facts.reference,),
}
"""Return the key of a plate's row."""


def _day_sooner(
    kind: Kind, before: Sequence[Any], after: Sequence[Any], day: str
) -> tuple[str, ...]:
    """Return the checks whose last day was this one, and now is the day before, in a plate's row.

    If the plate loses such a check, it does so for no other reason.
    """
    if kind != Kind.VEHICLES or not before or not after:
        return ()
    (old,), (new,) = before, after
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
    entries = [each for each in state.split(",") if each and each.split("/")[2]]
    is_there = any(each.startswith(f"{register}/") for each in entries)
    return ",".join(entries if is_there else [*entries, f"{register}/0/-"])


def _of_plate(
    found: Mapping[str, Mapping[str, Sequence[Any]]], plate: str
) -> Mapping[str, Sequence[Any]]:
    """Return the rows of a plate by register, of rows by register and plate."""
    return {name: rows[plate] for name, rows in found.items() if plate in rows}


def _changed(
    held: Sequence[Any], kind: Kind, changes: Mapping[Columns, Columns | None]
) -> Sequence[Any]:
    """Return the rows of a plate in the loaded register, after its changes."""
    facts_of, key_of = FACTS[kind], _OWN_KEY[kind]
    rows = {key_of(facts): facts for facts in held}
    for (_, *key), row in changes.items():
        if row is None:
            rows.pop(tuple(key), None)
        else:
            rows[tuple(key)] = facts_of._make(row[1:])
    return list(rows.values())


def _are_in_force(rows: Sequence[Any], kind: Kind, day: str) -> bool:
    """Tell whether one of a plate's rows is in force."""
    if kind == Kind.VEHICLES:
        return bool(rows)
    if kind == Kind.FINES:
        return any(not fine.settled for fine in rows)
    return any(each.valid_to >= day and (each.cancelled_on or "~") > day for each in rows)


def _numbers(rows: Sequence[Any], kind: Kind) -> set[str]:
    """Return the numbers of policies, or the references of fines."""
    return {each.number if kind == Kind.POLICIES else each.reference for each in rows}


@contextmanager
def counted_answers(
    engine: Engine, register: str, kind: Kind, basis: Basis, counts: AnswerCounts
) -> Iterator[Answers]:
    """Count the answers that a load changes, on a connection of its own.

    So a forked worker can call this as well. See `Answers` for the arguments.
    """
    with closed_afterwards(connected_again(engine)) as reader:
        answers = Answers(reader, register, kind, basis, counts)
        yield answers
        answers.finish()
