"""The SQLite engine: its connections, its SQL, other files at its path, and full disks (D25, D27).

To read a file in WAL mode, a process needs the files `-wal` and `-shm` beside it. The last
connection that closes removes them, and a full disk has no room to create them again. So a process
that serves keeps its connection after every error that a new connection would meet, too.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import peewee

from app import clock
from app.storage.errors import (
    connection_state,
    driver_errors_translated,
    is_busy,
    message_of,
    result_code,
)
from app.storage.files import (
    OPEN_FLAGS,
    file_uri,
    is_at_rest,
    is_older_than_log,
    register_file,
    stamp_of,
)
from app.storage.identity import NotOwn, require_own
from app.storage.interface import InUse, Row
from app.storage.sqlite_dialect import SqliteDialect
from app.storage.tables import RegisterRef

BUSY_TIMEOUT_SECONDS = 5
"""How long a statement waits for another writer before it fails (D27)."""
INODES_SECONDS = 1
"""How long a replaced file of a register may stay unnoticed. PERF: asking takes 2 us per file."""
VERSION = "PRAGMA main.data_version"
_STATEMENTS_CACHED_MAX = 256
_NO_ROOM = (apsw.SQLITE_FULL, apsw.SQLITE_IOERR, apsw.SQLITE_CANTOPEN)
"""Errors of attaching a file for whose `-shm` the disk has no room."""
_PAUSE_SECONDS = 0.01
_OLDER = "an old copy beside the log of a newer one"


_Inode = tuple[int, int]
"""The device and the inode of a file."""


class _SeenFiles:
    """What was seen of the files since `hold`."""

    version: object | None = None
    registers: tuple[RegisterRef, ...] | None = None


class _Opened(threading.local):
    """The state of a thread's connection. What is about registers is by schema."""

    number: int
    """Of the connections that the engine has opened, which one it is."""
    inode: _Inode | None
    """That of the main file."""
    files: dict[str, Path]
    """The attached files of registers."""
    inodes: dict[str, _Inode | None]
    """Those of the attached files."""
    due_ns: int
    """When these are compared with the paths again."""
    stamps: dict[str, tuple[int, int]]
    """Those of the files that are attached without a lock."""
    is_unproven: bool
    """Whether the next query must find out if these were written to meanwhile."""
    held: _SeenFiles | None = None


class SqliteEngine(SqliteDialect):
    """A SQLite file, with the files of registers attached to it.

    Every transaction begins with BEGIN IMMEDIATE. A transaction that read first and wrote later
    would fail at once if another one had written in between, whatever the timeout (D27).
    """

    file: Path
    _opened: "_Opened"

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.file = path
        self._name = os.fspath(path.absolute())
        self._opened = _Opened()
        self._connections = count()
        # Sorting and statements that fail half-way must not need a directory for temporary files.
        # PERF: `cache_size` and `mmap_size` stay at their defaults. With 8 MB, a look-up reads less
        # and takes as long. Mapped memory saves 2 %, but a fault of the disk would kill the worker.
        pragmas: dict[str, object] = {
            "foreign_keys": 1,
            "synchronous": "full",
            "temp_store": "memory",
        }
        if create and not (path.exists() and path.stat().st_size):
            # NOTE: do not change the mode of an existing file: it may belong to another program.
            pragmas["journal_mode"] = "wal"
        super().__init__(
            file_uri(path, "rwc" if create else "rw"),
            pragmas=pragmas,
            timeout=BUSY_TIMEOUT_SECONDS,
            lock_type="IMMEDIATE",
            flags=OPEN_FLAGS,
            statementcachesize=_STATEMENTS_CACHED_MAX,
        )

    def _connect(self) -> Any:
        if is_older_than_log(self.file):
            raise peewee.OperationalError(f"{self.file} is {_OLDER}")
        self._opened.number = next(self._connections)
        self._opened.files = {}
        self._opened.inodes = {}
        self._opened.due_ns = 0
        self._opened.stamps = {}
        self._opened.is_unproven = False
        self._opened.held = None
        before = self._inode()
        connection = self._connected()
        self._opened.inode = before or self._inode()  # Connecting may have created it.
        return connection

    def _connected(self) -> Any:
        """Connect, and wait for others that create the same new file.

        SQLite does not wait by itself if two connections switch a file to WAL at the same time.
        """
        deadline_ns = clock.monotonic_ns() + BUSY_TIMEOUT_SECONDS * 1_000_000_000
        while True:
            try:
                return super()._connect()
            except apsw.BusyError:
                if clock.monotonic_ns() > deadline_ns:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _add_conn_hooks(self, conn: apsw.Connection) -> None:
        super()._add_conn_hooks(conn)
        conn.convert_binding = _as_text
        # PERF: otherwise SQLite 3.54 plans a statement again for each value of some parameters,
        # such as the key's id: that takes 12 us of the 16 us of the key query.
        conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)

    def cursor(self, named_cursor: None = None) -> Any:
        """Return a cursor on the file that has the path now. Connect again if it was replaced.

        SQLite would continue to write to the deleted file, and lose the changes when the process
        ends. PERF: this check takes 2 to 5 us per statement.
        """
        # NOTE: Peewee's own in_transaction() is already false when it commits.
        self._close_if_replaced()
        return super().cursor(named_cursor)

    def _close_if_replaced(self) -> None:
        is_idle = not self.is_closed() and not self.connection().in_transaction
        if is_idle and self._inode() != self._opened.inode:
            self.close()

    def version(self) -> object | None:
        """Return a value that differs after each commit to the main database, by anyone.

        None within a transaction: others cannot see it yet.
        """
        held = self._opened.held
        if held is not None and held.version is not None:
            return held.version
        self._close_if_replaced()
        connection = self.connection()
        if connection.in_transaction:
            return None
        # NOTE: unlike the driver's `data_version()`, the statement reads the file. It does not
        # count commits of this connection.
        ((commits_of_others,),) = self.rows(VERSION, ())
        version = self._opened.number, commits_of_others, connection.total_changes()
        if self._opened.held is not None:
            self._opened.held.version = version
        return version

    def close_for_fork(self) -> None:
        # SQLite keeps a list of the files that its process has open, and a forked process inherits
        # it: there, their descriptors are closed or are other files, and locks would be theirs.
        self.close()

    def hold(self) -> None:
        self._opened.held = _SeenFiles()

    def release(self) -> None:
        self._opened.held = None

    def rows(self, sql: str, params: Sequence[object]) -> list[Row]:
        """Run a query of the hot path and return all its rows.

        PERF: on the driver's connection, and without checking the file: a look-up takes 9 %
        less. Each request has checked the file when it asked for the version.
        """
        try:
            rows: list[Row] = self.connection().execute(sql, params).fetchall()
        except apsw.Error:
            with driver_errors_translated():
                raise
        if self._opened.is_unproven:
            self._require_unchanged()
        return rows

    def rollback(self) -> None:
        """Roll back if the database is open and in a transaction: an error may have ended both."""
        if not self.is_closed():
            super().rollback()

    def recover(self, error: Exception) -> None:
        """Make this thread's connection usable for the next query after an error.

        Keep the connection if the disk is full or another process holds the lock. Otherwise open a
        new one before this one is closed. If the new one cannot read, keep this one.
        """
        self.release()
        with suppress(peewee.PeeweeException):
            self.rollback()
        if self.is_closed() or result_code(error) in (apsw.SQLITE_BUSY, apsw.SQLITE_FULL):
            return
        state = connection_state(self)
        former, opened = self.connection(), dict(vars(self._opened))
        state.reset()
        try:
            self.execute_sql("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        except peewee.PeeweeException:
            if not self.is_closed():
                self.close()
            state.set_connection(former)
            vars(self._opened).update(opened)
        else:
            former.close()

    def may_be_gone(self, error: Exception) -> bool:
        """Tell whether a statement may have failed because a register was just removed."""
        # Opening a file that is being removed fails in many ways. Repeating costs little.
        return not is_busy(error)

    @property
    def scratch_directory(self) -> Path:
        """The directory of the database, on the same disk as the registers."""
        return self.file.absolute().parent

    def write_refusal(self) -> str | None:
        try:
            # The answer to a load balancer must not wait for another writer.
            with self.without_waiting(), self.atomic() as transaction:
                # NOTE: a read-only file can be locked for writing; only a change shows it.
                self.execute_sql('UPDATE "installation" SET schema_version = schema_version')
                transaction.rollback()
        except peewee.OperationalError as error:
            self.recover(error)
            return None if is_busy(error) else message_of(error)
        return None

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Let statements fail at once if another process holds the lock."""
        self.execute_sql("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.execute_sql(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")

    @contextmanager
    def alone(self) -> Iterator[Callable[[], None]]:
        """Let nobody else use the file meanwhile. A service keeps it open, busy or not."""
        try:
            with self.without_waiting(), driver_errors_translated():
                try:
                    lock_alone(self.connection())
                except apsw.BusyError as error:
                    raise InUse("another process has its file open") from error
            yield lambda: None
        finally:
            self.execute_sql("PRAGMA main.locking_mode = NORMAL")
            # The next statement gives the lock back.
            self.execute_sql("SELECT 1 FROM main.sqlite_master LIMIT 1").fetchall()

    def missing_rights(self) -> list[str]:
        """Return an empty list: the owner of the file may do everything."""
        return []

    def attach_registers(
        self, registers: tuple[RegisterRef, ...], *, is_thorough: bool = False
    ) -> None:
        """Attach exactly these registers to this thread's connection, under their schema names.

        Another file at the path of a register is found within INODES_SECONDS.
        """
        held = self._opened.held
        if held is not None and held.registers is registers and not is_thorough:
            return
        self.connection()
        opened, files, now_ns = self._opened, _files(self.file, registers), clock.monotonic_ns()
        attached = opened.files
        is_due = is_thorough or now_ns >= opened.due_ns
        # A transaction cannot detach anything.
        if attached != files or (is_due and not self.in_transaction()):
            self._attach_anew(registers, files, now_ns, is_thorough=is_thorough)
        if opened.held is not None and not opened.stamps:
            opened.held.registers = registers

    def _attach_anew(
        self,
        registers: tuple[RegisterRef, ...],
        files: Mapping[str, Path],
        now_ns: int,
        *,
        is_thorough: bool,
    ) -> None:
        opened, attached = self._opened, self._opened.files
        opened.due_ns = now_ns + INODES_SECONDS * 1_000_000_000
        for schema, file in list(attached.items()):
            if files.get(schema) != file or schema in opened.stamps or self._is_replaced(schema):
                self._detach(schema)
        for ref in registers:
            if ref.schema not in attached:
                self._attach(ref, files[ref.schema])
            elif is_thorough:
                require_own(self, ref)

    def _is_replaced(self, schema: str) -> bool:
        """Tell whether there is another file at the path of an attached one."""
        # NOTE: a file that was removed can still be read where it is attached.
        return _inode_of(self._opened.files[schema]) not in (None, self._opened.inodes[schema])

    def data_number(self, schema: peewee.ColumnBase) -> None:
        """Return None: only the file system knows which file is at a path."""

    def can_attach(self, registers: tuple[RegisterRef, ...]) -> bool:
        """Tell whether the files exist. A removed file is still readable where it is attached."""
        return all(file.exists() for file in _files(self.file, registers).values())

    def _detach(self, schema: str) -> None:
        self.execute_sql("DETACH DATABASE ?", (schema,))
        for known in (self._opened.files, self._opened.inodes, self._opened.stamps):
            known.pop(schema, None)

    def _attach(self, ref: RegisterRef, file: Path) -> None:
        inode = _inode_of(file)
        if is_older_than_log(file):
            raise NotOwn(ref.name, f"its data is {_OLDER}")
        self._attach_file(ref.schema, file)
        self._opened.files[ref.schema] = file
        self._opened.inodes[ref.schema] = inode
        try:
            require_own(self, ref)
        except peewee.PeeweeException:
            self._detach(ref.schema)
            raise

    def _attach_file(self, schema: str, file: Path) -> None:
        # NOTE: read-only, because BEGIN IMMEDIATE locks every attached file that is writable.
        # Otherwise no domain could be created while a register is loaded.
        attach = "ATTACH DATABASE ? AS ?"
        try:
            self.execute_sql(attach, (file_uri(file, "ro"), schema))
        except peewee.OperationalError as error:
            if result_code(error) not in _NO_ROOM or not file.exists():
                raise
            stamp = stamp_of(file)
            if not is_at_rest(file):
                raise
            # The disk has no room for the -shm of the file. No process writes to it, so it can be
            # read without one. The next query tries the regular way again.
            self.execute_sql(attach, (f"{file_uri(file, 'ro')}&immutable=1", schema))
            self._opened.stamps[schema] = stamp
            self._opened.is_unproven = True
            self._opened.due_ns = 0

    def _require_unchanged(self) -> None:
        """Raise OperationalError if a file that is attached without a lock was written to."""
        self._opened.is_unproven = False
        for schema, stamp in self._opened.stamps.items():
            file = self._opened.files[schema]
            if not is_at_rest(file) or stamp_of(file) != stamp:
                raise peewee.OperationalError(f"{file} was changed while it was read")

    def _inode(self) -> _Inode | None:
        return _inode_of(self._name)


def lock_alone(connection: apsw.Connection) -> None:
    """Lock the main file, so that no other connection can use it until this one is closed.

    Raises apsw.BusyError if there is another connection, even if that does nothing.
    """
    connection.execute("PRAGMA main.locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")  # The lock stays after the transaction.
    connection.execute("COMMIT")


# PERF: without the cache, naming the files of three registers takes 15 % of a look-up.
@lru_cache(maxsize=8)
def _files(database: Path, registers: tuple[RegisterRef, ...]) -> Mapping[str, Path]:
    return {ref.schema: register_file(database, ref.name, ref.generation) for ref in registers}


def _inode_of(path: str | Path) -> _Inode | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _as_text(_cursor: object, _position: int, value: object) -> str:
    """Return the text that a date or time is stored as."""
    if isinstance(value, date):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")
