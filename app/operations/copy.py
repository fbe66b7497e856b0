"""Copies a SQLite installation to Postgres and verifies the copy: `verifyd copy` (D46).

Everything is written, read back and compared in one transaction of the target. So a copy that is
killed at any moment leaves the target unchanged. The rows are compared byte for byte, in the text
that Postgres itself writes.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.lock import locked
from app.storage.errors import driver_errors_translated
from app.storage.postgres import PostgresEngine
from app.storage.postgres_dialect import copy_text
from app.storage.register_schemas import RegisterSchemas
from app.storage.registers import in_precedence, read_state
from app.storage.schema import migrate
from app.storage.sqlite import SqliteEngine
from app.storage.tables import RegisterRef, qualified
from app.storage.versions import versions

MAIN_TABLES = (
    *("plan", "account", "api_key", "domain", "register", "register_load"),
    *("job_run", "action", "register_task"),
    *("usage_account", "usage_hour", "usage_day"),
)
"""In the order of their foreign keys. The target keeps its own `installation`."""
REGISTER_TABLES = ("vehicle", "policy", "fine", "applied_load")
_NUMBERED = ("register_load", "job_run", "action", "register_task")
_BATCH_ROWS = 10_000

Progress = Callable[[str, int], object]
"""Called with a table, and how many more of its rows were read or written."""


class Copied(NamedTuple):
    """A table that is the same in both databases; `sha256` covers its rows as Postgres text."""

    table: str
    rows: int
    sha256: str


class _Table(NamedTuple):
    """A table of both databases; on SQLite its schema is an attached database."""

    schema: str | None
    name: str
    columns: Sequence[str]
    """Quoted, like the columns of the key."""
    booleans: Sequence[bool]
    key: Sequence[str]

    @property
    def title(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def select(self, columns: Iterable[str]) -> str:
        """Return the query for all rows in the order of their keys, which is the same on both.

        Args:
            columns: an expression for each column.
        """
        order = ", ".join(self.key)
        return f"SELECT {', '.join(columns)} FROM {self.quoted} ORDER BY {order}"  # noqa: S608 - ours

    @property
    def quoted(self) -> str:
        return qualified(self.schema, self.name)


class _Batch(NamedTuple):
    """Some rows of a table, in the text format of Postgres's COPY."""

    rows: int
    text: bytes


def copy_database(
    source: SqliteEngine,
    target: PostgresEngine,
    progress: Progress,
    waiting: AbstractContextManager[None] | None = None,
) -> list[Copied]:
    """Copy everything to an empty target; only compare if the target holds the same already.

    The source is read in one snapshot. No register can be loaded meanwhile.

    Args:
        waiting: entered while the copy waits for others who use the target.

    Raises OperatorError if the schemas differ, the target holds other data, or the rows that were
    read back differ from those written; peewee.PeeweeException if a database fails.
    """
    migrate(target)
    _require_same_schema(source, target)
    with ExitStack() as held:
        registers = _registers(source)
        for register in registers:
            held.enter_context(locked(source, register.name))
        source.attach_registers(registers)
        held.enter_context(source.atomic("DEFERRED"))
        if _registers(source) != registers:
            raise OperatorError("a register of the source was changed meanwhile; try again")
        held.enter_context(target.atomic())
        # A service that uses the target must wait, and so must another copy.
        tables = ", ".join(f'"{name}"' for name in MAIN_TABLES)
        with waiting or nullcontext():
            target.execute_sql(f"LOCK TABLE {tables} IN EXCLUSIVE MODE")
        if not _is_empty(target):
            return _compared(source, target, registers, progress)
        return _copied(source, target, registers, progress)


def _require_same_schema(source: SqliteEngine, target: PostgresEngine) -> None:
    found = versions(source)
    if found.database != versions(target).database:
        raise OperatorError(
            f"the source is at schema {found.database}, this program at {found.program}; "
            'run "verifyd migrate" on the source with this program'
        )


def _registers(source: SqliteEngine) -> tuple[RegisterRef, ...]:
    """Return the registers that hold rows; an interrupted first load leaves none."""
    return in_precedence(read_state(source), ())


def _is_empty(target: PostgresEngine) -> bool:
    """Tell whether the target holds no data but the plans that every database begins with."""
    return not any(
        target.execute_sql(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone()  # noqa: S608 - ours
        for table in MAIN_TABLES
        if table != "plan"
    )


def _copied(
    source: SqliteEngine,
    target: PostgresEngine,
    registers: Iterable[RegisterRef],
    progress: Progress,
) -> list[Copied]:
    target.execute_sql('DELETE FROM "plan"')
    for register in registers:
        # The target does not know the register yet.
        RegisterSchemas(target, register.name).make_empty()
    copied = []
    for table in _tables(target, registers):
        written = _digest(table, _written(target, table, source), progress)
        if _read_back(target, table, progress) != written:
            raise OperatorError(
                f"{table.title}: the rows that were read back differ from those written"
            )
        target.execute_sql(f"ANALYZE {table.quoted}")
        copied.append(written)
    for name in _NUMBERED:
        target.execute_sql(
            f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) "  # noqa: S608 - ours
            f'FROM "{name}" HAVING max(id) IS NOT NULL'
        )
    # The numbers of deleted accounts are not used again (D81).
    last_account = "SELECT seq FROM sqlite_sequence WHERE name = 'account'"
    for (number,) in source.execute_sql(last_account).fetchall():
        target.execute_sql("SELECT setval('account_id_seq', %s)", (number,))
    return copied


def _compared(
    source: SqliteEngine,
    target: PostgresEngine,
    registers: Iterable[RegisterRef],
    progress: Progress,
) -> list[Copied]:
    """Return the tables of both databases. Raises OperatorError if their rows differ."""
    copied = []
    for table in _tables(target, registers):
        copied.append(_digest(table, _read(source, table), progress))
        if _read_back(target, table, progress) != copied[-1]:
            raise OperatorError(
                f"the target holds other data ({table.title}); copy into an empty database"
            )
    return copied


def _tables(target: PostgresEngine, registers: Iterable[RegisterRef]) -> Iterator[_Table]:
    """Yield all tables, with the columns that the target has."""
    named: list[tuple[str | None, str]] = [(None, name) for name in MAIN_TABLES]
    named += [(each.schema, name) for each in registers for name in REGISTER_TABLES]
    for schema, name in named:
        columns = target.get_columns(name, schema)
        yield _Table(
            schema,
            name,
            [f'"{column.name}"' for column in columns],
            [column.data_type == "boolean" for column in columns],
            [f'"{name}"' for name in target.get_primary_keys(name, schema)],
        )


def _digest(table: _Table, batches: Iterable[_Batch], progress: Progress) -> Copied:
    """Count and hash the rows of a table."""
    rows, sha256 = 0, hashlib.sha256()
    for batch in batches:
        sha256.update(batch.text)
        rows += batch.rows
        progress(table.title, batch.rows)
    return Copied(table.title, rows, sha256.hexdigest())


def _read(source: SqliteEngine, table: _Table) -> Iterator[_Batch]:
    """Yield the source's rows."""
    # Postgres writes booleans like this.
    flag = "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END"
    columns = [
        flag.format(quoted) if is_boolean else quoted
        for quoted, is_boolean in zip(table.columns, table.booleans, strict=True)
    ]
    with driver_errors_translated():
        cursor = source.execute_sql(table.select(columns))
        while rows := list(islice(cursor, _BATCH_ROWS)):
            yield _Batch(len(rows), copy_text(rows).encode())


def _written(target: PostgresEngine, table: _Table, source: SqliteEngine) -> Iterator[_Batch]:
    """Send the source's rows to the target; yield each batch after it was sent."""
    statement = f"COPY {table.quoted} ({', '.join(table.columns)}) FROM STDIN"
    with driver_errors_translated(), target.cursor().copy(statement) as stream:
        for batch in _read(source, table):
            stream.write(batch.text)
            yield batch


def _read_back(target: PostgresEngine, table: _Table, progress: Progress) -> Copied:
    statement = f"COPY ({table.select(table.columns)}) TO STDOUT"
    with driver_errors_translated(), target.cursor().copy(statement) as stream:
        # NOTE: the server sends one message per row.
        lines = map(bytes, stream)
        return _digest(table, iter(lambda: _batch_of(lines), _Batch(0, b"")), progress)


def _batch_of(lines: Iterator[bytes]) -> _Batch:
    """Return the next lines as a batch, which is empty at the end."""
    some = list(islice(lines, _BATCH_ROWS))
    return _Batch(len(some), b"".join(some))
