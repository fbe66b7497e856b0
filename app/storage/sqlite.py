"""The SQLite engine: one file, the registers attached to it for reading, and full disks (D25, D27).

A reader of a file in WAL mode needs its `-wal` and `-shm` beside it. The last connection that
closes removes them, and a full disk has no room to make them again. So a serving process keeps
its connection over every error that another connection would meet as well (D56).
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import peewee

from app import clock

BUSY_TIMEOUT_SECONDS = 5
"""How long a statement waits for somebody else's write before it fails (D27)."""
_STATEMENTS_CACHED_MAX = 256
_PAUSE_SECONDS = 0.01
# Primary result codes of SQLite.
_BUSY, _IOERR, _FULL, _CANTOPEN = 5, 10, 13, 14


class _Stamp(NamedTuple):
    """What tells whether a file was written to."""

    size_bytes: int
    changed_at_ns: int


class SqliteEngine(peewee.SqliteDatabase):
    """A SQLite file, and registers attached to it for reading (D25).

    Every transaction begins IMMEDIATE: one that reads first and writes later would fail at
    once when another has written in between, whatever the timeout (D27).
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._name = os.fspath(path.absolute())
        self._registers = threading.local()
        pragmas: dict[str, object] = {"foreign_keys": 1, "synchronous": "full"}
        if create and not (path.exists() and path.stat().st_size):
            # NOTE: a file that is there already may be somebody else's (D27).
            pragmas["journal_mode"] = "wal"
        super().__init__(
            file_uri(path, "rwc" if create else "rw"),
            pragmas=pragmas,
            timeout=BUSY_TIMEOUT_SECONDS,
            lock_type="IMMEDIATE",
            uri=True,
            cached_statements=_STATEMENTS_CACHED_MAX,
        )

    def _connect(self) -> Any:
        self._registers.files = {}
        self._registers.stamps = {}
        self._registers.is_unproven = False
        before = self._inode()
        connection = self._connected()
        self._registers.inode = before or self._inode()  # It may have been made just now.
        return connection

    def _connected(self) -> Any:
        """Connect; wait for others that make the same new file.

        SQLite does not wait by itself where two switch a file to WAL at once.
        """
        deadline_ns = clock.monotonic_ns() + BUSY_TIMEOUT_SECONDS * 1_000_000_000
        while True:
            try:
                return super()._connect()  # type: ignore[misc]
            except Exception as error:  # The driver's own, of which there are two.
                if result_code(error) != _BUSY or clock.monotonic_ns() > deadline_ns:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def cursor(self, named_cursor: None = None) -> Any:
        """Give a cursor on the file that is there now, not on one deleted or replaced since.

        SQLite would write on into a file without a name, and what it was told would be lost
        with the process (D27). PERF: 2 to 5 us a statement.
        """
        # NOTE: Peewee's own in_transaction() is false already when it commits.
        is_idle = not self.is_closed() and not self.connection().in_transaction
        if is_idle and self._inode() != self._registers.inode:
            self.close()
        return super().cursor(named_cursor)

    def rows(self, sql: str, params: Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a hot query and return all its rows.

        Raises peewee.PeeweeException if the database cannot answer.
        """
        cursor = self.execute_sql(sql, params)
        with driver_errors_translated():
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        if self._registers.is_unproven:
            self._require_unchanged()
        return rows

    def rollback(self) -> None:
        """Roll back, unless SQLite did so by itself, as on a full disk: why must not be lost."""
        if not self.is_closed() and self.connection().in_transaction:
            super().rollback()

    def recover(self, error: Exception) -> None:
        """Make this thread's connection fit for the next query, after an error.

        It stays where the disk or another writer is to blame. Otherwise another one takes its
        place, which is opened before this one is closed; if it cannot be read from, this one
        stays.
        """
        with suppress(peewee.PeeweeException):
            self.rollback()
        if self.is_closed() or result_code(error) in (_BUSY, _FULL):
            return
        state: Any = vars(self)["_state"]  # Peewee's connection of this thread.
        former, registers = self.connection(), dict(vars(self._registers))
        state.reset()
        try:
            self.execute_sql("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        except peewee.PeeweeException:
            if not self.is_closed():
                self.close()
            state.set_connection(former)
            vars(self._registers).update(registers)
        else:
            former.close()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Let statements fail at once where somebody else holds the lock."""
        self.execute_sql("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.execute_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")

    def attach_only(self, files: Mapping[str, Path]) -> None:
        """Make `files` (schema name to file) the attached schemas of this thread's connection.

        Raises OperationalError if a file is missing or cannot be read.
        """
        self.cursor()
        attached: dict[str, Path] = self._registers.files
        stamps: dict[str, _Stamp] = self._registers.stamps
        if attached == files and (not stamps or self.in_transaction()):
            return  # Within a transaction nothing can be detached.
        for schema in list(attached):
            if files.get(schema) != attached[schema] or schema in stamps:
                self.execute_sql("DETACH DATABASE ?", (schema,))
                del attached[schema]
                stamps.pop(schema, None)
        for schema in files.keys() - attached.keys():
            self._attach(schema, files[schema])
            attached[schema] = files[schema]

    def _attach(self, schema: str, file: Path) -> None:
        # NOTE: read-only, because BEGIN IMMEDIATE locks every attached file that can be
        # written: a domain could not be created while a register is loaded.
        attach = "ATTACH DATABASE ? AS ?"
        try:
            self.execute_sql(attach, (file_uri(file, "ro"), schema))
        except peewee.OperationalError as error:
            if result_code(error) not in (_FULL, _IOERR, _CANTOPEN) or not file.exists():
                raise
            stamp = _stamp(file)
            if not _is_at_rest(file):
                raise
            # The disk has no room for its -shm. Nobody writes to it at the moment: it can be
            # read without. The next query tries the regular way again.
            self.execute_sql(attach, (f"{file_uri(file, 'ro')}&immutable=1", schema))
            self._registers.stamps[schema] = stamp
            self._registers.is_unproven = True

    def _require_unchanged(self) -> None:
        """Raise OperationalError if a file was written to since it was attached without a lock."""
        self._registers.is_unproven = False
        for schema, stamp in self._registers.stamps.items():
            file = self._registers.files[schema]
            if not _is_at_rest(file) or _stamp(file) != stamp:
                raise peewee.OperationalError(f"{file} was changed while it was read")

    def _inode(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino


def file_uri(path: Path, mode: str) -> str:
    """Return the SQLite URI of a file, opened `ro`, `rw` or `rwc`."""
    return f"file:{quote(str(path.absolute()))}?mode={mode}"


def result_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code behind one of Peewee's errors; None if it has none."""
    # NOTE: one that was met while connecting is wrapped more than once.
    while isinstance(error, peewee.PeeweeException) and hasattr(error, "orig"):
        error = error.orig
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(error: Exception) -> bool:
    """Tell whether somebody else held the lock for longer than a statement waits."""
    return result_code(error) == _BUSY


def is_out_of_space(error: Exception) -> bool:
    """Tell whether a full disk can be the reason: as such, or of a `-shm` that found no room."""
    return result_code(error) in (_FULL, _IOERR)


def driver_errors_translated() -> AbstractContextManager[None]:
    """Return a context in which the driver's own errors become Peewee's.

    Peewee itself translates those of a statement's first step; later ones can fail as well.
    """
    translated: AbstractContextManager[None] = vars(peewee)["__exception_wrapper__"]
    return translated


def _is_at_rest(file: Path) -> bool:
    """Tell whether all that a file holds is in the file itself, and nothing in its log."""
    try:
        return file.with_name(f"{file.name}-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def _stamp(file: Path) -> _Stamp:
    found = file.stat()
    return _Stamp(found.st_size, found.st_mtime_ns)
