"""Copies an installation into an empty database and verifies the copy: `verifyd copy`.

The main database is written, read back and compared in one transaction of the target. Registers are
written where no reader sees them, and become visible with the commit. So a copy that is killed at
any moment does not change the target.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import NamedTuple

import msgspec
import peewee

from app.errors import OperatorError
from app.registers.generations import Generations, locked, still_locked
from app.storage.engine import Engine, Row
from app.storage.errors import failures_named
from app.storage.identity import write_identity
from app.storage.interface import InUse
from app.storage.registers import in_precedence, read_state
from app.storage.stores import migrate, store_of
from app.storage.tables import RegisterRef, qualified
from app.storage.versions import database_id, set_tells_unknown, tells_unknown, versions
from app.watches.repository import renew_feeds

MAIN_TABLES = (
    *("plan", "account", "api_key", "domain", "register", "register_load"),
    *("job_run", "action", "register_task", "audit_host"),
    *("usage_account", "usage_hour", "usage_day"),
    *("watch_feed", "watch", "watch_event"),
    "person_day",
)
"""In the order of their foreign keys. The target keeps its own `installation`."""
REGISTER_TABLES = ("vehicle", "policy", "fine", "applied_load")
_NUMBERED = ("account", "register_load", "job_run", "action", "register_task", "watch")
_BATCH_ROWS = 10_000
_CASTS = {"boolean": "integer", "character": "text"}
"""How columns of Postgres are read that SQLite stores as other values, by their type."""
_TEXTS = msgspec.json.Encoder()

Progress = Callable[[str, int], object]
"""Called with a table, and how many more of its rows were read or written."""


class Copied(NamedTuple):
    """A table that is the same in both databases.

    `sha256` covers its rows in the order of their keys, each a JSON array on a line of its own.
    """

    table: str
    rows: int
    sha256: str


class _Place(NamedTuple):
    """Where tables are: in a schema of a database, by default that of the connection."""

    engine: Engine
    schema: str | None


class _CommonTable:
    """A table that both sides have."""

    def __init__(self, name: str, source: _Place) -> None:
        self.name = name
        self._source = source.engine
        self.title = f"{source.schema}.{name}" if source.schema else name
        columns = source.engine.get_columns(name, source.schema)
        self.columns = [f'"{column.name}"' for column in columns]
        self._key = [f'"{key}"' for key in source.engine.get_primary_keys(name, source.schema)]

    def rows(self, place: _Place) -> Iterator[Sequence[Row]]:
        """Yield all rows in batches, in the order of their keys, which is the same on both.

        Flags are 1 and 0, as SQLite stores them. Texts of a fixed length have no spaces at their
        end, which Postgres adds: events of watches are counted for an empty key.
        """
        columns = place.engine.get_columns(self.name, place.schema)
        casts = {f'"{each.name}"': _CASTS.get(each.data_type) for each in columns}
        values = [f"CAST({each} AS {to})" if (to := casts[each]) else each for each in self.columns]
        table = qualified(place.schema, self.name)
        # PERF: by the columns, which have an index, and not by the values of the same name.
        keys = ", ".join(f"{table}.{each}" for each in self._key)
        query = f"SELECT {', '.join(values)} FROM {table} ORDER BY {keys}"  # noqa: S608 - ours
        with failures_named("source" if place.engine is self._source else "target"):
            yield from place.engine.batches(query, _BATCH_ROWS)


class _Digest:
    """Counts and hashes the rows of a table."""

    def __init__(self, table: _CommonTable, progress: Progress) -> None:
        self._title = table.title
        self._progress = progress
        self._rows = 0
        self._sha256 = hashlib.sha256()

    def passed(self, batches: Iterable[Sequence[Row]]) -> Iterator[Sequence[Row]]:
        """Yield each batch after it was counted."""
        for batch in batches:
            self._sha256.update(_TEXTS.encode_lines(batch))
            self._rows += len(batch)
            self._progress(self._title, len(batch))
            yield batch

    @property
    def copied(self) -> Copied:
        """What was counted."""
        return Copied(self._title, self._rows, self._sha256.hexdigest())


def copy_database(
    source: Engine,
    target: Engine,
    progress: Progress,
    waiting: AbstractContextManager[None] | None = None,
    *,
    is_rehearsal: bool = False,
) -> list[Copied]:
    """Copy everything to an empty target; only compare if the target holds the same already.

    The source is read in one snapshot. No register of either can be loaded meanwhile. Nobody may
    use the source, unless this is a rehearsal, whose copy refuses cursors of the source's events.

    Args:
        waiting: entered while the copy waits for others who use the target.
        is_rehearsal: copy for a try, after which the source stays in use.

    Raises OperatorError if a database cannot be opened, read or filled, the schemas differ, the
    source is in use, the target holds other data, or the rows that were read back differ from those
    written; peewee.PeeweeException if a register of either cannot be locked or attached.
    """
    with failures_named("source"):
        _require_schema("source", source)
    with failures_named("target"):
        if versions(target).database == 0:
            migrate(target)
        _require_schema("target", target)
    if database_id(source) == database_id(target):
        raise OperatorError("the source and the target are the same database, or one is a backup")
    with ExitStack() as held:
        require_unused = None if is_rehearsal else held.enter_context(_unused(source))
        registers = _registers(source)
        for register in registers:
            held.enter_context(locked(source, register.name))
            held.enter_context(locked(target, register.name))
            generations = Generations(source, register.name)
            generations.require_data(generations.find_current())
        held.enter_context(_unused_removed(target, registers))
        source.attach_registers(registers)
        target.attach_registers(_registers(target))
        held.enter_context(source.consistent_read())
        if _registers(source) != registers:
            raise OperatorError("a register of the source was changed meanwhile; try again")
        with waiting or nullcontext():
            held.enter_context(target.atomic())
            # A service that uses the target must wait, and so must another copy.
            target.lock_tables(MAIN_TABLES)
        is_empty = _is_empty(target)
        if is_rehearsal and not is_empty:
            raise OperatorError("the target holds data; rehearse with an empty database")
        copy = _copied if is_empty else _compared
        with failures_named("target"):
            copied = copy(source, target, registers, progress)
            set_tells_unknown(target, tells_unknown(source))
            if is_rehearsal:
                renew_feeds(target)
        if require_unused:
            require_unused()
        return copied


@contextmanager
def _unused(source: Engine) -> Iterator[Callable[[], None]]:
    """Keep a source to this process; yields a function that checks it where others are let in.

    Otherwise both databases would go on: what the service writes to the source is lost, and events
    of the copy get numbers that clients have read on from.
    """
    try:
        with source.alone() as require_alone:
            yield require_alone
    except InUse as error:
        remedy = "stop the service on all hosts first; to try the copy while it runs, --rehearsal"
        raise OperatorError(f"the source is in use: {error}; {remedy}") from error


def _require_schema(name: str, engine: Engine) -> None:
    found = versions(engine)
    if found.database == 0:
        raise OperatorError(f"the {name} is not a database of verifyd, or is empty")
    if found.database != found.program:
        remedy = 'run "verifyd migrate" on it' if found.can_migrate else "upgrade verifyd"
        raise OperatorError(
            f"the {name} is at schema {found.database}, this program at {found.program}; {remedy}"
        )


def _registers(engine: Engine) -> tuple[RegisterRef, ...]:
    """Return the registers that hold rows; one whose first load was interrupted has none."""
    return in_precedence(read_state(engine), ())


@contextmanager
def _unused_removed(target: Engine, registers: Iterable[RegisterRef]) -> Iterator[None]:
    """Remove unused data of these registers: of earlier copies, and of this one if it fails."""
    for register in registers:
        Generations(target, register.name).remove_unused()
    try:
        yield
    except BaseException:
        for register in registers:
            ignored = suppress(OSError, peewee.PeeweeException, OperatorError)
            with ignored, still_locked(target, register.name):
                Generations(target, register.name).remove_unused()
        raise


def _is_empty(target: Engine) -> bool:
    """Tell whether the target holds no data but the plans that every database begins with."""
    return not any(
        target.execute_sql(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone()  # noqa: S608 - ours
        for table in MAIN_TABLES
        if table != "plan"
    )


def _copied(
    source: Engine, target: Engine, registers: Iterable[RegisterRef], progress: Progress
) -> list[Copied]:
    target.execute_sql('DELETE FROM "plan"')
    sides = _Place(source, None), _Place(target, None)
    copied = [_copied_table(name, *sides, progress) for name in MAIN_TABLES]
    for register in registers:
        store = store_of(target, register.name)
        with store.opened_next(register.generation) as made, made.opened.engine.atomic():
            sides = _Place(source, register.schema), _Place(*made.opened)
            copied += [_copied_table(name, *sides, progress) for name in REGISTER_TABLES]
            generations = Generations(target, register.name)
            entry = generations.find_current()
            if entry and entry.stamp:
                write_identity(*made.opened, generations.identity(entry.generation, entry.stamp))
        # The index does not name the register yet. Data of that name is from a failed load.
        store.put_aside(None)
        store.publish_next()
    for name in _NUMBERED:
        target.continue_after(name, source.last_number(name))
    return copied


def _copied_table(name: str, source: _Place, target: _Place, progress: Progress) -> Copied:
    table = _CommonTable(name, source)
    written = _Digest(table, progress)
    quoted = qualified(target.schema, name)
    target.engine.fill(quoted, table.columns, written.passed(table.rows(source)))
    if _read(table, target, progress) != written.copied:
        raise OperatorError(
            f"{table.title}: the rows that were read back differ from those written"
        )
    target.engine.analyse(quoted)
    return written.copied


def _compared(
    source: Engine, target: Engine, registers: Iterable[RegisterRef], progress: Progress
) -> list[Copied]:
    """Return the tables of both databases. Raises OperatorError if their rows differ."""
    named: list[tuple[str | None, str]] = [(None, name) for name in MAIN_TABLES]
    named += [(each.schema, name) for each in registers for name in REGISTER_TABLES]
    copied = []
    for schema, name in named:
        table = _CommonTable(name, _Place(source, schema))
        copied.append(_read(table, _Place(source, schema), progress))
        if _read(table, _Place(target, schema), progress) != copied[-1]:
            raise OperatorError(
                f"the target holds other data ({table.title}); copy into an empty database"
            )
    return copied


def _read(table: _CommonTable, place: _Place, progress: Progress) -> Copied:
    digest = _Digest(table, progress)
    deque(digest.passed(table.rows(place)), maxlen=0)
    return digest.copied
