"""The history of loads in the main database: one line per attempt (D69)."""

import getpass
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import peewee
from peewee import Case, fn

from app import clock
from app.clock_steps import old_times
from app.registers.generations import is_being_loaded
from app.storage.engine import Engine
from app.storage.tables import Kind


class RegisterLoad(peewee.Model):
    """A line of the history: one attempt to load, and how it ended. Times are Unix seconds."""

    id = peewee.AutoField()
    register = peewee.CharField(30)
    kind = peewee.CharField(10)
    mode = peewee.CharField(10)
    format = peewee.CharField(30)
    files = peewee.TextField()
    status = peewee.CharField(10)
    """`running`, `done` or `failed`."""
    reason = peewee.TextField(null=True)
    """Why it failed; if it is done, which load took it back."""
    rows = peewee.BigIntegerField(default=0)
    loaded = peewee.BigIntegerField(default=0)
    changed = peewee.BigIntegerField(default=0)
    rejected = peewee.BigIntegerField(default=0)
    skipped = peewee.BigIntegerField(default=0)
    checksum = peewee.TextField(null=True)
    """SHA-256 of the decompressed content of all files, in their order."""
    held = peewee.BigIntegerField(null=True)
    """How many rows of its kind the register held afterwards."""
    known = peewee.TextField(null=True)
    """A JSON object: how many rows know each member. For a merge, only rows that it touched."""
    change = peewee.TextField(null=True)
    """A `LoadChange` as a JSON object: what the load changed or would have; null if not counted."""
    broken = peewee.TextField(null=True)
    """A JSON object of the rules that refused the load: by name, the explanation in numbers."""
    hold = peewee.TextField(null=True)
    """A `Hold` as a JSON object, if the load was held (D158); it may be over since."""
    accepts = peewee.BigIntegerField(null=True)
    """The number of the held load that this one loads again, with its rules accepted."""
    accepted = peewee.TextField(null=True)
    """A JSON array of what the operator allowed: `shrink`, `loss:insured` and so on."""
    is_terminated = peewee.BooleanField(null=True)
    """Whether the last record of every file had a line end; null if the format has none."""
    sizes = peewee.TextField(null=True)
    """A JSON array with the size of each file in bytes, null for a pipe."""
    reasons = peewee.TextField(null=True)
    """A JSON array of the first five rejects, each with `file`, `line` and `reason`."""
    notes = peewee.TextField(null=True)
    """A JSON array of the notes on the files, each a sentence."""
    loaded_by = peewee.CharField(100)
    actor = peewee.TextField(null=True)
    """The `Actor` as a JSON object if an operator ran the load; null for a timer."""
    started_at = peewee.BigIntegerField()
    finished_at = peewee.BigIntegerField(null=True)
    progress = peewee.TextField(null=True)
    """A `Progress` as a JSON array: how far the load had got a few seconds ago."""

    class Meta:
        table_name = "register_load"


def insert_line(engine: Engine, **columns: object) -> int:
    """Add a line to the history, with the current time and user, and return its number."""
    insert = RegisterLoad.insert(loaded_by=_user(), started_at=clock.now(), **columns)
    return int(insert.execute(engine))


def json_text(values: object) -> str:
    """Return a list, a dict or a struct as JSON text, for a column of the history."""
    return msgspec.json.encode(values).decode()


def json_list(text: str | None, item: Any) -> list[Any]:
    """Return the list in a JSON column of the history, empty if the column is null.

    Args:
        item: the type of the items.
    """
    return msgspec.json.decode(text, type=list[item]) if text else []


def refused_by(load: RegisterLoad) -> dict[str, str]:
    """Return the rules that refused a load: by name, the explanation in numbers."""
    return msgspec.json.decode(load.broken, type=dict[str, str]) if load.broken else {}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user that has no name.
        return f"user {os.geteuid()}"


MERGE, REPLACE, ROLLBACK = "merge", "replace", "rollback"
DROP, UNDROP, PURGE = "drop", "undrop", "purge"
"""The modes of history lines."""
INTERRUPTED = "interrupted"
"""The reason of a load that was killed or stopped."""
COUNTS: Any = (RegisterLoad.status == "done") & RegisterLoad.reason.is_null()
"""Which lines count: done ones that no rollback or undrop took back."""
REPLACES_COMPARED = 7
"""A load is compared with so many replaces of its register."""
_KEPT_SECONDS = 400 * 86_400
_REASON_CHARACTERS_MAX = 300
_MOVED = "moved to "
_SAME = "same content as load "
"""The beginnings of notes."""
UNOPENED = "no file was opened"
"""The note of an attempt that ended before a file was opened, as by a mistake in its mapping."""
_SEEN = json_text([UNOPENED, "somebody saw that at a terminal"])
"""The notes of such an attempt if nobody needs to be warned about it (D69)."""
UNSEEN_FAILURE: Any = (RegisterLoad.status == "failed") & (
    fn.COALESCE(RegisterLoad.notes, "") != _SEEN
)
"""Which lines are failures to warn about."""


class History:
    """Writes and reads the history lines of one register."""

    def __init__(self, engine: Engine, register: str) -> None:
        self._engine = engine
        self.register = register

    def update(self, load_id: int, **columns: object) -> None:
        """Change a line, but only if it is still running: a load that is done cannot fail."""
        is_it = (RegisterLoad.id == load_id) & (RegisterLoad.status == "running")
        RegisterLoad.update(**columns).where(is_it).execute(self._engine)

    def note_progress(self, load_id: int, progress: str) -> None:
        """Note how far a running load has got.

        Args:
            progress: the column of the line.
        """
        self.update(load_id, progress=progress)

    def finish(self, load_id: int, finished_at: int, columns: Mapping[str, object]) -> None:
        """Note that a load succeeded.

        Args:
            finished_at: Unix seconds.
            columns: further columns of the line.
        """
        self.update(load_id, status="done", finished_at=finished_at, **columns)

    def fail(self, load_id: int, columns: Mapping[str, object]) -> None:
        """Note that a load failed.

        Args:
            columns: further columns of the line, `reason` among them.
        """
        self.update(load_id, status="failed", finished_at=clock.now(), **columns)

    def add_done(self, mode: str, kind: str = "") -> int:
        """Add the line of a rollback, drop, undrop or purge, and return its number.

        Call this within the transaction that does it.
        """
        columns = {"register": self.register, "kind": kind, "mode": mode, "format": "", "files": ""}
        return insert_line(self._engine, **columns, status="done", finished_at=clock.now())

    def ended_well(self) -> bool:
        """Tell whether the register's latest line is done; True if it has none."""
        status = RegisterLoad.select(RegisterLoad.status)
        last = status.where(RegisterLoad.register == self.register).order_by(RegisterLoad.id.desc())
        return last.limit(1).scalar(self._engine) in (None, "done")

    def counted(self) -> "peewee.ModelSelect[RegisterLoad]":
        """Return a query for the lines that count since the last drop or purge, latest first."""
        counts = (RegisterLoad.register == self.register) & COUNTS
        drops = RegisterLoad.select(fn.MAX(RegisterLoad.id)).where(
            counts & RegisterLoad.mode.in_([DROP, PURGE])
        )
        is_later = RegisterLoad.id > (drops.scalar(self._engine) or 0)
        return RegisterLoad.select().where(counts & is_later).order_by(RegisterLoad.id.desc())

    def take_back(self, by: int, modes: Sequence[str], after: int) -> None:
        """Mark lines as taken back, so that no later load is compared with them (D69).

        Args:
            by: the number of the line that takes them back.
            modes: the modes of the lines.
            after: the number of the last line that still counts.
        """
        is_it = (
            (RegisterLoad.register == self.register)
            & COUNTS
            & RegisterLoad.mode.in_(modes)
            & (RegisterLoad.id > after)
        )
        reason = f"taken back by load {by}"
        RegisterLoad.update(reason=reason).where(is_it).execute(self._engine)


def note_refused(engine: Engine, reason: str, **columns: object) -> int:
    """Add the line of an attempt that failed before its load began, and return its number.

    Args:
        columns: the columns that are known; register, kind and format are empty by default.
    """
    unknown = dict.fromkeys(("register", "kind", "format"), "")
    ended = {"status": "failed", "reason": reason, "finished_at": clock.now()}
    return insert_line(engine, **(unknown | columns | ended))


def list_loads(
    engine: Engine,
    register: str | None = None,
    *,
    failed_or: Collection[int] | None = None,
    but: Collection[int] = (),
    limit: int | None = None,
) -> list[RegisterLoad]:
    """Return the lines of the history, latest first.

    Args:
        register: return only lines of this register; all if None.
        failed_or: return only lines that failed, and the lines with these numbers; all if None.
        but: leave out the lines with these numbers.
        limit: return at most this many; all if None.
    """
    query = RegisterLoad.select().order_by(RegisterLoad.id.desc()).limit(limit)
    if register is not None:
        query = query.where(RegisterLoad.register == register)
    if failed_or is not None:
        is_failed = RegisterLoad.status == "failed"
        query = query.where(is_failed | RegisterLoad.id.in_(list(failed_or)))
    if but:
        query = query.where(RegisterLoad.id.not_in(list(but)))
    return list(query.execute(engine))


def find_load(engine: Engine, load_id: int) -> Any:
    """Return the line with this number, None if there is none."""
    return RegisterLoad.select().where(RegisterLoad.id == load_id).first(engine)


def note_moved(engine: Engine, load_id: int, directory: Path) -> None:
    """Note to which directory the files of a failed load were moved."""
    load = find_load(engine, load_id)
    notes = [*json_list(load.notes, str), f"{_MOVED}{directory}"]
    changed = RegisterLoad.update(notes=json_text(notes)).where(RegisterLoad.id == load_id)
    changed.execute(engine)


def moved_to(load: RegisterLoad) -> Path | None:
    """Return the directory that `note_moved` has noted for a load, None if there is none."""
    moved = [each for each in json_list(load.notes, str) if each.startswith(_MOVED)]
    return Path(moved[-1].removeprefix(_MOVED)) if moved else None


def unopened_notes(*, is_attended: bool) -> str:
    """Return the notes of an attempt that ended before a file was opened, as the history has them.

    Args:
        is_attended: whether somebody sees at a terminal that it failed.
    """
    return _SEEN if is_attended else json_text([UNOPENED])


def unopened_reason(load: RegisterLoad) -> str | None:
    """Return why a load ended before a file was opened, None if a file was opened.

    The reason is shortened, and without a full stop. SEC: it quotes no record, so alerts and
    warnings can show it.
    """
    if UNOPENED not in json_list(load.notes, str):
        return None
    reason = str(load.reason).removesuffix(".")
    most = _REASON_CHARACTERS_MAX
    return reason if len(reason) <= most else f"{reason[: most - 3]}..."


def interrupted_loads(engine: Engine) -> set[int]:
    """Return the numbers of loads that were killed and still count as running."""
    unlocked = {
        load.id for load in list_running(engine) if not is_being_loaded(engine, str(load.register))
    }
    if not unlocked:
        return unlocked
    # A load that ended while its lock was looked at was not killed.
    return unlocked & {load.id for load in list_running(engine)}


def list_running(engine: Engine, register: str | None = None) -> list[RegisterLoad]:
    """Return the loads that are running, or were killed.

    Args:
        register: return only loads of this register; all if None.
    """
    running = RegisterLoad.select().where(RegisterLoad.status == "running")
    if register is not None:
        running = running.where(RegisterLoad.register == register)
    return list(running.execute(engine))


def repeated_notes(
    engine: Engine, register: str, kind: Kind, format_name: str, checksum: str
) -> list[str]:
    """Return a sentence if an earlier load of the register, kind and format had the same content.

    It names the first load of the run of equal ones just before, and for how many nights the
    content has been the same: days since that load, to the nearest day, however many loads a day
    has. If other content was loaded in between, it says so.

    Args:
        checksum: SHA-256 of the content of the files.
    """
    load = RegisterLoad
    is_comparable = (load.kind == kind) & (load.format == format_name)
    is_comparable &= load.mode.in_([MERGE, REPLACE])
    loads = History(engine, register).counted().where(is_comparable)
    other = loads.where(load.checksum != checksum).first(engine)
    same = loads.where(load.checksum == checksum)
    first = same.where(load.id > (other.id if other else 0)).order_by(load.id).first(engine)
    if first is not None:
        # A count of loads would be wrong for loads of each hour, and dates would need a time zone.
        nights = round((clock.now() - first.finished_at) / 86_400)
        since = f", for {nights:,} {'night' if nights == 1 else 'nights'}" if nights > 0 else ""
        return [f"{_SAME}{first.id}{since}"]
    last = same.first(engine)
    return [f"{_SAME}{last.id}, although load {other.id} had other content"] if last else []


def repeated_note(load: RegisterLoad | None) -> str | None:
    """Return the note of `repeated_notes` in a line of the history, None if it has none."""
    notes = json_list(load.notes, str) if load is not None else []
    return next((each for each in notes if each.startswith(_SAME)), None)


def changed_at_by_register(engine: Engine) -> dict[str, int]:
    """Return when the content of each register last changed, in Unix seconds.

    That is the end of the last load that changed a row, or of a later rollback or drop. If the
    history no longer has it, the content has not changed since the register's oldest line.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    load = RegisterLoad
    is_change = (load.changed > 0) | load.mode.in_([ROLLBACK, DROP, PURGE])
    changed_id = fn.COALESCE(fn.MAX(Case(None, [(is_change, load.id)])), fn.MIN(load.id))
    last = load.select(changed_id).where(COUNTS).group_by(load.register)
    query = load.select(load.register, load.finished_at).where(load.id.in_(last))
    return dict(query.tuples().execute(engine))


def prune_history(engine: Engine, data_dir: Path) -> None:
    """Remove history lines older than 400 days, unless the clock jumped (D162).

    Running loads stay, and so do the last seven of each register, kind, mode and format: later
    loads are compared with them.
    """
    place = fn.ROW_NUMBER().over(
        partition_by=[
            RegisterLoad.register,
            RegisterLoad.kind,
            RegisterLoad.mode,
            RegisterLoad.format,
        ],
        order_by=[RegisterLoad.id.desc()],
    )
    numbered = RegisterLoad.select(RegisterLoad.id, place.alias("place")).where(COUNTS)
    needed = numbered.select_from(numbered.c.id).where(numbered.c.place <= REPLACES_COMPARED)
    old = old_times(data_dir, _KEPT_SECONDS)
    is_old = RegisterLoad.started_at.between(old.start, old.stop - 1)
    has_ended = RegisterLoad.status != "running"
    RegisterLoad.delete().where(is_old & has_ended & RegisterLoad.id.not_in(needed)).execute(engine)
