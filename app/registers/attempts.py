"""Records every attempt to load in the history, even one that fails early, and decodes its line."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import peewee

from app import clock
from app.errors import OperatorError
from app.registers.change import LoadChange, change_of
from app.registers.formats import FileFault
from app.registers.history import (
    INTERRUPTED,
    History,
    RegisterLoad,
    interrupted_loads,
    json_list,
    json_text,
    note_refused,
    prune_history,
    refused_by,
    unopened_notes,
)
from app.registers.holds import ACCEPTED, HELD, HeldBack, accepted_holds, open_holds
from app.registers.intake import Intake
from app.registers.reading.reader import Progress, Show
from app.registers.reading.rejects import Reason, RejectsFile, rejects_path
from app.registers.reading.sources import file_size
from app.registers.request import LoadRequest
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.text import printable

_UNOPENED = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
loads_log = logging.getLogger("verifyd.loads")
"""How loads end. A command that prints that does not log it, too."""


class Attempt:
    """An attempt to load, as far as it is known."""

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
            "accepts": request.repeats,
            "actor": json_text(request.actor) if request.actor else None,
        }
        """The columns of its history line."""
        self.change: LoadChange | None = None
        """What it changed, or would have changed; None until that is counted."""

    def recognised(self, register: str, intake: Intake) -> None:
        """Add the register, the kind and the format, once they are detected in the files."""
        self.rejects = intake.rejects
        self.columns |= {
            "register": register,
            "kind": intake.kind.value,
            "format": intake.format.name,
        }

    def details(self) -> dict[str, object]:
        """Return the load's number, its first rejects, notes and change, to report a failure."""
        reasons = self.rejects.reasons if self.rejects else []
        notes = self.rejects.notes if self.rejects else []
        details: dict[str, object] = {"load": self.load_id, "reasons": reasons}
        details |= {"notes": notes} if notes else {}
        return details | ({"change": self.change} if self.change else {})


@contextmanager
def refusal_noted(
    engine: Engine, data_dir: Path, request: LoadRequest, attempt: Attempt
) -> Iterator[None]:
    """Add a history line if an attempt fails before its load begins; not for a dry run."""
    try:
        yield
    except BaseException as error:
        # A file that is held back waits as one that is incomplete does.
        if attempt.load_id is None and not request.dry_run and not isinstance(error, HeldBack):
            if isinstance(error, FileFault) and isinstance(error.__cause__, _UNOPENED):
                attempt.columns["notes"] = unopened_notes(is_attended=request.is_attended)
            attempt.load_id = note_attempt(engine, data_dir, reason_of(error), attempt.columns)
            if attempt.load_id is not None:
                shows = f'"verifyd imports show {attempt.load_id}" shows why'
                loads_log.warning("load %d: refused; %s", attempt.load_id, shows)
        raise


def note_attempt(
    engine: Engine, data_dir: Path, reason: str, columns: dict[str, Any]
) -> int | None:
    """Add a history line for an attempt that failed before its load began.

    Returns its number, None if the database cannot be written.
    """
    load_id = None
    with suppress(OSError, peewee.PeeweeException):
        load_id = reserve.with_reserve(engine, note_refused, engine, reason, **columns)
        # If every load of a night is refused, nothing else prunes it.
        prune_history(engine, data_dir)
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
            noted = json_text(progress._replace(file=name))
            History(self._engine, register).note_progress(load_id, noted)
            every_ns = _EVERY_NS
        self._due_ns = clock.monotonic_ns() + every_ns


class PastLoad(NamedTuple):
    """An attempt; unknown members are None. Times are Unix seconds.

    A file that was not recognised has no register, kind, mode and format.
    """

    id: int
    register: str | None
    kind: str | None
    mode: str | None
    format: str | None
    status: str
    """`running`, `done`, `failed`, `interrupted`, `held` or `accepted`."""
    reason: str | None
    rows: int
    loaded: int
    changed: int
    rejected: int
    skipped: int
    held: int | None
    started_at: int
    finished_at: int | None
    loaded_by: str
    checksum: str | None
    is_terminated: bool | None
    files: list[str]
    sizes: list[int | None]
    """Bytes of each file; None for a pipe."""
    reasons: list[Reason]
    notes: list[str]
    accepted: list[str]
    accepts: int | None
    """The held load that it loaded again."""
    accepted_as: int | None
    """The load that loaded its files, if it is `accepted`."""
    broken: Mapping[str, str]
    """The rules that refused it: by name, the explanation in numbers."""
    known: Mapping[str, int] | None
    """How many rows have each member."""
    progress: Progress | None
    """How far it had got when that was last noted."""
    change: LoadChange | None
    """What it changed, or would have changed if it had not failed."""

    @property
    def seconds(self) -> int | None:
        """How long it took; None if its end is unknown."""
        return None if self.finished_at is None else self.finished_at - self.started_at


class AttemptState(NamedTuple):
    """How a load is shown."""

    status: str
    accepted_as: int | None = None


def states_of_loads(engine: Engine) -> dict[int, AttemptState]:
    """Return the status of each load that is not as its line says, by number.

    A load that was killed is `interrupted` until the next load of its register finds out whether
    its rows were committed. A load that failed is `held` while an operator can accept it, and
    `accepted` once its files were loaded.
    """
    return {
        **dict.fromkeys(interrupted_loads(engine), AttemptState(INTERRUPTED)),
        **dict.fromkeys((held.id for held in open_holds(engine)), AttemptState(HELD)),
        **{held: AttemptState(ACCEPTED, by) for held, by in accepted_holds(engine).items()},
    }


def past_load(load: RegisterLoad, states: Mapping[int, AttemptState]) -> PastLoad:
    """Return an attempt.

    Args:
        states: the result of `states_of_loads`.
    """
    state = states.get(load.id, AttemptState(load.status))
    names = set(PastLoad._fields) - set(AttemptState._fields)
    stored: dict[str, Any] = {name: getattr(load, name) for name in names}
    sizes = json_list(load.sizes, int | None)
    # The name of a file can be empty, as that of an unset variable in a script.
    files = load.files.split("\n") if load.files or sizes else []
    empty_if_unknown = ("register", "kind", "mode", "format")
    decoded = {
        **{name: stored[name] or None for name in empty_if_unknown},
        **state._asdict(),
        "files": files,
        "sizes": sizes or [None] * len(files),
        "reasons": json_list(load.reasons, Reason),
        "notes": json_list(load.notes, str),
        "accepted": json_list(load.accepted, str),
        "broken": refused_by(load),
        "known": msgspec.json.decode(load.known) if load.known else None,
        "progress": msgspec.json.decode(load.progress, type=Progress) if load.progress else None,
        "change": change_of(load),
    }
    return PastLoad(**stored | decoded)


def find_rejects(data_dir: Path, load: PastLoad) -> Path | None:
    """Return the rejects file of a load, None if it is not on this host or was removed."""
    path = rejects_path(data_dir, load.register or "", load.id)
    return path if path.is_file() else None
