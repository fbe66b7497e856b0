"""Records every attempt to load in the history, even one that fails early (D69)."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import peewee

from app import clock
from app.actions import Actor, State, Subject, record
from app.errors import OperatorError
from app.registers.applying.table import Applied, find_applied
from app.registers.current import opened_current, opened_unchanged
from app.registers.formats import FileFault
from app.registers.generations import Generations
from app.registers.history import (
    INTERRUPTED,
    History,
    find_load,
    json_list,
    json_text,
    list_running,
    note_refused,
    prune_history,
    unopened_notes,
)
from app.registers.intake import Intake
from app.registers.reading.reader import Progress, Show
from app.registers.reading.rejects import RejectsFile
from app.registers.reading.sources import file_size
from app.registers.reading.streams import printable
from app.registers.request import LoadRequest, counts_as_loaded
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.register_store import OpenRegister
from app.storage.registers import Entry
from app.storage.tables import Kind

_UNOPENED = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_log = logging.getLogger("app.registers.attempts")


class Attempt:
    """What is known so far about an attempt to load."""

    def __init__(self, request: LoadRequest) -> None:
        named = request.formats.get(request.format or "")
        self.load_id: int | None = None
        """Its number in the history; None until it has a line there."""
        self.rejects: RejectsFile | None = None
        self.columns: dict[str, Any] = file_columns(request.files) | {
            "register": request.register or (named.register if named else ""),
            "kind": request.kind or "",
            "format": request.format or "",
            "mode": request.mode,
            "accepted": json_text(request.accepted),
            "actor": json_text(request.actor) if request.actor else None,
        }
        """The columns of its history line."""
        self._is_attended = request.is_attended

    def recognised(self, register: str, intake: Intake) -> None:
        """Add what was detected in the files."""
        self.rejects = intake.rejects
        self.columns |= {
            "register": register,
            "kind": intake.kind.value,
            "format": intake.format.name,
        }

    def refused(self, error: BaseException) -> None:
        """Add whether it failed because its first file cannot be opened."""
        if isinstance(error, FileFault) and isinstance(error.__cause__, _UNOPENED):
            self.columns["notes"] = unopened_notes(is_attended=self._is_attended)

    def details(self) -> dict[str, object]:
        """Return the load's number and its first rejects, to report with a failure."""
        reasons = self.rejects.reasons if self.rejects else []
        return {"load": self.load_id, "reasons": reasons}


@contextmanager
def refusal_noted(engine: Engine, attempt: Attempt, *, dry_run: bool) -> Iterator[None]:
    """Add a history line if an attempt fails before its load begins; not for a dry run."""
    try:
        yield
    except BaseException as error:
        if attempt.load_id is None and not dry_run:
            attempt.refused(error)
            attempt.load_id = note_attempt(engine, reason_of(error), attempt.columns)
            if attempt.load_id is not None:
                shows = f'"verifyd imports show {attempt.load_id}" shows why'
                _log.warning("load %d: refused; %s", attempt.load_id, shows)
        raise


def note_attempt(engine: Engine, reason: str, columns: dict[str, Any]) -> int | None:
    """Add a history line for an attempt that failed before its load began.

    Returns its number, None if the database cannot be written.
    """
    load_id = None
    with suppress(OSError, peewee.PeeweeException):
        load_id = reserve.with_reserve(engine, partial(note_refused, engine, reason, **columns))
        prune_history(engine)  # If every load of a night is refused, nothing else prunes it.
    return load_id


def file_columns(files: Sequence[str]) -> dict[str, str]:
    """Return the history's columns with the names and sizes of the files."""
    return {
        "files": "\n".join(printable(Path(file).name or file) for file in files),
        "sizes": json_text(list(map(file_size, files))),
    }


def reason_of(error: BaseException) -> str:
    """Return why an attempt failed, as one line for the history."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    # SEC: not the whole message of Postgres: its details quote the row.
    sentence = error.sentence if isinstance(error, OperatorError) else message_of(error)
    return printable("; ".join(sentence.splitlines())) or type(error).__name__


# Notes in the history how far a running load has got, for the console (D135).

_EVERY_NS = 3 * 10**9
_AFTER_FAILURE_NS = 60 * 10**9


class NotedProgress:
    """Shows the progress of a load, and notes it every three seconds.

    A note that fails, as on a full disk, does not fail the load.

    Args:
        show: shows the progress to whoever runs the load.
        attempt: knows the number of the load as soon as it has one.
    """

    def __init__(self, engine: Engine, attempt: Attempt, show: Show) -> None:
        self._engine = engine
        self._attempt = attempt
        self._show = show
        self._due_ns = clock.monotonic_ns() + _EVERY_NS

    def __call__(self, progress: Progress) -> None:
        """Show the progress, and note it if that is due."""
        self._show(progress)
        load_id = self._attempt.load_id
        if load_id is None or clock.monotonic_ns() < self._due_ns:
            return
        every_ns = _AFTER_FAILURE_NS
        with suppress(peewee.PeeweeException, OSError):
            name = progress.file and printable(Path(progress.file).name)
            register = self._attempt.columns["register"]
            History(self._engine, register).note_progress(
                load_id, json_text(progress._replace(file=name))
            )
            every_ns = _EVERY_NS
        self._due_ns = clock.monotonic_ns() + every_ns


def progress_of(text: str | None) -> Progress | None:
    """Return the progress in a column of the history, None if nothing was noted."""
    return msgspec.json.decode(text, type=Progress) if text else None


# What the record of actions says about registers and loads (D130).


def record_load(
    engine: Engine,
    load_id: int,
    kind: Kind,
    former: Entry | None,
    columns: Mapping[str, Any],
) -> None:
    """Record a load that is done, if an operator ran it; call this within its last transaction.

    The history knows whose load it is. So it does not matter who finishes it: after a kill between
    the two commits of a merge, that is a later load.

    Args:
        former: the register's entry before the load. None, or never loaded, for a new register.
        columns: the columns of the history line, `held` and `changed` among them.
    """
    load = find_load(engine, load_id)
    if load.actor is None:
        return
    before = None
    if former is not None and former.loaded_at is not None:
        before = {"held": former.rows(kind)}
    accepted = json_list(load.accepted, str)
    after = {
        "held": columns["held"],
        "load": load_id,
        "kind": kind.value,
        "mode": load.mode,
        "changed": columns["changed"],
        **({"accepted": accepted} if accepted else {}),
    }
    record(
        engine,
        msgspec.json.decode(load.actor, type=Actor),
        "imports.load",
        subject_of(load.register),
        before,
        after,
    )


def register_state(entry: Entry | None) -> State | None:
    """Return how many rows of each kind a register holds; None if there is none."""
    return entry and {kind.value: entry.rows(kind) for kind in Kind}


def subject_of(register: str) -> Subject:
    """Return a register as the subject of an action."""
    return Subject("register", register)


# Finds out how killed loads of a register ended, and records it (D28).
#
# A merge commits twice: first in the register, then in the main database. If it is killed between
# the two, the rows are in the register, but the history says that the load is still running. The
# register itself remembers which loads it contains.

FindApplied = Callable[[int], Applied | None]


def recover(engine: Engine, generations: Generations, load_id: int = 0) -> Entry | None:
    """End the history lines of killed loads, and remove what they left behind.

    Needs the register's lock.

    Args:
        load_id: the load that calls this; 0 if no load does.

    Returns the register's entry, which nobody else changes while the lock is held. Raises
    Hindered if the data of the register is missing.
    """
    entry = generations.find_current()
    generations.require_data(entry)
    with opened_current(generations, entry) as opened:
        find = partial(_find_applied, opened)
        is_changed = end_killed_loads(engine, generations, load_id, find)
    generations.remove_unused()
    return generations.find_current() if is_changed else entry


def end_killed_loads(
    engine: Engine, generations: Generations, load_id: int, find: FindApplied
) -> bool:
    """End the history lines of killed loads: done if the register contains the load, else failed.

    Args:
        load_id: the load that is running now.
        find: returns what a load did to the register; None if it never committed.

    Returns whether a load was found to be done: the register's entry has changed then.
    """
    history = History(engine, generations.name)
    is_changed = False
    for load in list_running(engine, generations.name):
        if load.id == load_id:
            continue
        applied = find(load.id)
        if applied is None:
            history.fail_interrupted(load.id)
            continue
        # A merge notes what it has read before its first commit.
        valid, accepted = load.rows - load.rejected, json_list(load.accepted, str)
        kind, is_fresh = Kind(load.kind), counts_as_loaded(valid, accepted)
        finish_merge(engine, generations, load.id, kind, applied._asdict(), is_fresh=is_fresh)
        is_changed = True
    return is_changed


def finish_merge(
    engine: Engine,
    generations: Generations,
    load_id: int,
    kind: Kind,
    columns: Mapping[str, Any],
    *,
    is_fresh: bool,
) -> None:
    """Record in the main database that a merge is committed in the register.

    Args:
        columns: the columns of the history line. `held` is how many rows of the kind the register
            holds now, `changed` how many rows the merge changed.
        is_fresh: whether the register counts as just loaded (D51).
    """
    now = clock.now()
    with engine.atomic():
        former = generations.find_current()
        if columns["changed"]:
            generations.forget_undo_states()
        generations.count_merged(kind, columns["held"], now if is_fresh else None)
        History(engine, generations.name).finish(load_id, now, columns)
        record_load(engine, load_id, kind, former, columns)


def is_applied(engine: Engine, generations: Generations, load_id: int) -> bool:
    """Tell whether the register contains a load that failed afterwards; False if unreadable."""

    def find() -> Applied | None:
        current = generations.find_current()
        generations.require_data(current)
        with opened_unchanged(generations, current) as opened:
            return _find_applied(opened, load_id)

    with suppress(OSError, peewee.PeeweeException, OperatorError):
        return reserve.with_reserve(engine, find) is not None
    return False


def _find_applied(opened: OpenRegister | None, load_id: int) -> Applied | None:
    return find_applied(opened, load_id) if opened else None
