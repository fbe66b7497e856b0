"""Lists the plates whose answers a replace changed, while what it replaced is kept.

The rows of the load's kind come from two generations: the one that the load replaced, and the one
that it made. All other rows are those of the registers now, because no
former state of them is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import peewee

from app.audit.record import Plate
from app.config import Config
from app.errors import Hindered, OperatorError
from app.registers.applying.answers import ANSWERS, AnswerCounts, LoadBasis
from app.registers.applying.judging import PLATES_ASKED, ROWS_KEPT, AnswerComparer, OwnRows
from app.registers.applying.parts import PlateAnswer
from app.registers.applying.table import RegisterTable
from app.registers.change import change_of
from app.registers.formats.changes import Columns, without_time
from app.registers.generations import Generations
from app.registers.history import MERGE, REPLACE, History, RegisterLoad, find_load
from app.registers.snapshots import require_not_dropped
from app.storage.engine import Engine
from app.storage.identity import read_identity
from app.storage.register_store import OpenRegister
from app.storage.registers import (
    Entry,
    KeptRegister,
    Register,
    require_readable,
    with_current_registers,
)
from app.storage.tables import Kind
from app.text import csv_line
from app.vehicles.records import Read

CSV_HEADING = csv_line(
    ["registration", *(f"{answer}{side}" for answer in ANSWERS for side in ("Before", "After"))]
)
"""The first line of a CSV file of plates; each answer has two columns."""


class Turn(NamedTuple):
    """A plate with other answers than before."""

    registration: str
    before: PlateAnswer
    after: PlateAnswer

    @property
    def csv_line(self) -> str:
        sides = zip(self.before, self.after, strict=True)
        words = ("true" if each else "false" for each in chain.from_iterable(sides))
        return csv_line([self.registration, *words])

    @property
    def words(self) -> list[str]:
        """The plate and its answers for a person, such as `yes -> no`."""
        before, after = (["yes" if each else "no" for each in side] for side in self[1:])
        pairs = zip(before, after, strict=True)
        return [self.registration, *(a if a == b else f"{a} -> {b}" for a, b in pairs)]


class Turns(NamedTuple):
    """Plates that were judged at one time, at most 5,000; of a list that is ordered by plate."""

    plates: list[Turn]
    read_before: Read
    """The registers that the answers before are from, and which generation of each."""
    read_after: Read

    def recorded(self) -> Iterator[tuple[list[Plate], Read]]:
        """Yield what the audit trail must have before the plates are shown, for each side."""
        yield [_plate(each.registration, each.before) for each in self.plates], self.read_before
        yield [_plate(each.registration, each.after) for each in self.plates], self.read_after


class ComparableReplace(NamedTuple):
    """A replace that can be compared with what it replaced."""

    load_id: int
    register: str
    kind: Kind
    day: str
    """ISO date that both sides are judged on."""
    before: Entry
    """The entry of the generation that the load replaced, a snapshot."""
    after: Entry
    """The entry of the generation that the load made."""
    is_current: bool
    """Whether the register has no later generation."""

    @property
    def note(self) -> str:
        """What a reader of the list must know."""
        return f"both sides are judged on {self.day}; all else is read as it is now"


def require_comparable(engine: Engine, load_id: int, zone: tzinfo = UTC) -> ComparableReplace:
    """Return a load, and the generations to compare.

    Args:
        zone: the operator's time zone, for a load of a release that did not note the day.

    Raises OperatorError if the load is no replace that is done, or if a side is not kept.
    """
    load = find_load(engine, load_id)
    if load is None:
        raise OperatorError(f'there is no load {load_id}; see "verifyd imports list"')
    _require_done_replace(load)
    name, generations = load.register, Generations(engine, load.register)
    entries = [require_not_dropped(generations), *generations.list_kept()]
    numbers = [each.generation for each in entries]
    if load_id not in numbers:
        raise OperatorError(f"what load {load_id} left in the register {name} is no longer kept")
    at = numbers.index(load_id)
    if at + 1 == len(entries):
        earlier = History(engine, name).counted().where(RegisterLoad.id < load_id)
        if not earlier.exists(engine):
            raise OperatorError(f"the register {name} held nothing before load {load_id}")
        raise OperatorError(
            f"what the register {name} held before load {load_id} is no longer kept: a merge "
            "removes it, and VERIFYD_KEEP_SNAPSHOTS limits it"
        )
    change = change_of(load)
    began = datetime.fromtimestamp(load.started_at, zone).date().isoformat()
    day = change.day if change and change.day else began
    after, before = entries[at : at + 2]
    return ComparableReplace(load_id, name, Kind(load.kind), day, before, after, at == 0)


def _require_done_replace(load: Any) -> None:
    shows = f'"verifyd imports show {load.id}" shows how many'
    if load.status == "running":
        raise OperatorError(f"load {load.id} is not done")
    if load.status == "failed":
        raise OperatorError(f"load {load.id} failed, so it changed no answers")
    if load.mode == MERGE:
        raise OperatorError(
            f"load {load.id} is a merge: what it changed is not kept, only how much; {shows}"
        )
    if load.mode != REPLACE:
        raise OperatorError(f"load {load.id} is a {load.mode}; only replaces can be compared")
    if load.reason:
        raise OperatorError(f"load {load.id} was {load.reason}, so what it left is not kept")


def compare(engine: Engine, compared: ComparableReplace, config: Config) -> Iterator[Turns]:
    """Yield the plates whose answers differ, in their order.

    Memory does not grow with the register. All rows of the kind are read on both sides, but only
    plates whose rows differ are judged.

    Args:
        config: has the settings to judge by.

    Raises Hindered if the register is changed meanwhile, or OperatorError if a register cannot be
    read: an answer would be wrong.
    """
    require_readable(engine)
    basis = LoadBasis(compared.day, config.register_order, config.mot_first_years)
    answers = AnswerComparer(engine, compared.register, compared.kind, basis, AnswerCounts())
    pending: dict[str, OwnRows] = {}
    rows = 0
    try:
        for plate, own in _differing(engine, compared):
            pending[plate] = own
            rows += sum(map(len, own))
            if len(pending) == PLATES_ASKED or rows > ROWS_KEPT:
                yield _judged(engine, compared, answers, pending)
                pending, rows = {}, 0
        if pending:
            yield _judged(engine, compared, answers, pending)
    except (peewee.DatabaseError, peewee.InterfaceError):
        _require_unchanged(engine, compared)
        raise


def _judged(
    engine: Engine, compared: ComparableReplace, answers: AnswerComparer, own: dict[str, OwnRows]
) -> Turns:
    """Return the plates among these whose answers differ."""
    found, read = with_current_registers(engine, lambda state: answers.compared(state, own))
    if 0 in read.values():
        raise Hindered('a register cannot be read; "verifyd check" says why')
    _require_unchanged(engine, compared)
    plates = [
        Turn(plate, was.answer, is_now.answer)
        for plate, was, is_now in found
        if was.answer != is_now.answer
    ]
    before, after = (
        {**read, compared.register: each.generation} for each in (compared.before, compared.after)
    )
    return Turns(plates, before, after)


def _plate(registration: str, answer: PlateAnswer) -> Plate:
    if not answer.known:
        return Plate(registration, found=False)
    return Plate(registration, True, answer.insured, answer.compliant)


def _differing(engine: Engine, compared: ComparableReplace) -> Iterator[tuple[str, OwnRows]]:
    """Yield each plate whose rows differ, with its rows before and after."""
    model = Register if compared.is_current else KeptRegister
    with (
        _opened(engine, compared, model, compared.after) as made,
        _opened(engine, compared, KeptRegister, compared.before) as replaced,
    ):
        before, after = _plates(replaced, compared), _plates(made, compared)
        was, is_now = next(before, None), next(after, None)
        while was or is_now:
            plate = min(each[0] for each in (was, is_now) if each)
            old: list[Columns] = []
            new: list[Columns] = []
            if was and was[0] == plate:
                old, was = was[1], next(before, None)
            if is_now and is_now[0] == plate:
                new, is_now = is_now[1], next(after, None)
            # Most rows that a replace reads again are the same, except perhaps their times.
            if old != new and list(map(without_time, old)) != list(map(without_time, new)):
                yield plate, (old, new)


def _plates(
    opened: OpenRegister, compared: ComparableReplace
) -> Iterator[tuple[str, list[Columns]]]:
    """Yield each plate with its rows, in the order of plates."""
    rows = chain.from_iterable(RegisterTable(opened, compared.kind).pages())
    return ((plate, list(found)) for plate, found in groupby(rows, key=itemgetter(0)))


@contextmanager
def _opened(
    engine: Engine, compared: ComparableReplace, model: type[Register], entry: Entry
) -> Iterator[OpenRegister]:
    """Open a generation. Raises OperatorError if its data is missing, or is that of another one."""
    generations = Generations(engine, compared.register)
    with generations.opened_entry(model, entry) as opened:
        fault = generations.fault(entry, read_identity(*opened)) if opened else "it is missing"
        if opened is None or fault:
            _require_unchanged(engine, compared)
            raise OperatorError(
                f"the data that load {entry.generation} left in the register {entry.name} cannot "
                f"be read: {fault}"
            )
        yield opened


def _require_unchanged(engine: Engine, compared: ComparableReplace) -> None:
    """Raise Hindered if the register is not what it was.

    On Postgres a replace gives its rows the name under which those before it were read.
    """
    generations = Generations(engine, compared.register)
    kept = generations.list_kept()
    with_made = [generations.find_current()] if compared.is_current else kept
    if compared.before not in kept or compared.after not in with_made:
        raise Hindered(
            f"the register {compared.register} was changed while it was compared; compare it again"
        )
