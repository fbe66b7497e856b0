"""Attaches the files of registers to a connection, read-only, also on a full disk (D35, D56)."""

import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import peewee

from app.storage.errors import CANTOPEN, FULL, IOERR, result_code
from app.storage.files import Stamp, file_uri, is_at_rest, register_file, stamp_of
from app.storage.sqlite_dialect import SqliteDialect
from app.storage.tables import RegisterRef


class SqliteAttachments(SqliteDialect):
    """A SQLite database to whose connections files are attached."""

    file: Path
    _opened: threading.local
    """What each thread's connection has opened: the inode of the file, and the registers."""

    def attach_registers(self, registers: tuple[RegisterRef, ...]) -> None:
        """Attach exactly these registers to this thread's connection, under their schema names."""
        self.attach_only(_files(self.file, registers))

    def can_attach(self, registers: tuple[RegisterRef, ...]) -> bool:
        """Tell whether the files exist. A removed file is still readable where it is attached."""
        return all(file.exists() for file in _files(self.file, registers).values())

    def attach_only(self, files: Mapping[str, Path]) -> None:
        """Attach exactly these files to this thread's connection.

        Args:
            files: by the name of the schema.

        Raises OperationalError if a file is missing or cannot be read.
        """
        self.connection()
        attached: dict[str, Path] = self._opened.files
        stamps: dict[str, Stamp] = self._opened.stamps
        if attached == files and (not stamps or self.in_transaction()):
            return  # A transaction cannot detach anything.
        for schema in list(attached):
            if files.get(schema) != attached[schema] or schema in stamps:
                self.execute_sql("DETACH DATABASE ?", (schema,))
                del attached[schema]
                stamps.pop(schema, None)
        for schema in files.keys() - attached.keys():
            self._attach(schema, files[schema])
            attached[schema] = files[schema]

    def _attach(self, schema: str, file: Path) -> None:
        # NOTE: read-only, because BEGIN IMMEDIATE locks every attached file that is writable.
        # Otherwise nobody could create a domain while a register is loaded (D35).
        attach = "ATTACH DATABASE ? AS ?"
        try:
            self.execute_sql(attach, (file_uri(file, "ro"), schema))
        except peewee.OperationalError as error:
            if result_code(error) not in (FULL, IOERR, CANTOPEN) or not file.exists():
                raise
            stamp = stamp_of(file)
            if not is_at_rest(file):
                raise
            # The disk has no room for the -shm of the file. Nobody writes to the file now, so it
            # can be read without one. The next query tries the regular way again.
            self.execute_sql(attach, (f"{file_uri(file, 'ro')}&immutable=1", schema))
            self._opened.stamps[schema] = stamp
            self._opened.is_unproven = True

    def _require_unchanged(self) -> None:
        """Raise OperationalError if a file that is attached without a lock was written to."""
        self._opened.is_unproven = False
        for schema, stamp in self._opened.stamps.items():
            file = self._opened.files[schema]
            if not is_at_rest(file) or stamp_of(file) != stamp:
                raise peewee.OperationalError(f"{file} was changed while it was read")


# PERF: without the cache, naming the files of three registers takes 15 % of a look-up.
@lru_cache(maxsize=8)
def _files(database: Path, registers: tuple[RegisterRef, ...]) -> Mapping[str, Path]:
    return {ref.schema: register_file(database, ref.name, ref.generation) for ref in registers}
