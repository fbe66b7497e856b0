"""A SQLite installation carried into Postgres, whole and verified: `verifyd copy` (D46).

Everything is written, read back and compared in one transaction of the target: killed at any
moment, it holds what it held before. What is compared are the rows as Postgres itself writes
them out, byte for byte.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import NamedTuple

from app.errors import OperatorError
from app.registers.lock import locked
from app.storage.errors import driver_errors_translated
from app.storage.postgres import PostgresEngine
from app.storage.postgres_dialect import copy_text
from app.storage.register_schemas import RegisterSchemas
from app.storage.registers import Register
from app.storage.schema import migrate
from app.storage.sqlite import SqliteEngine
from app.storage.tables import RegisterRef, qualified
from app.storage.versions import versions

MAIN_TABLES = ("plan", "account", "api_key", "domain", "register", "register_load", "job_run")
"""In the order of their foreign keys; `installation` stays the target's own."""
REGISTER_TABLES = ("vehicle", "policy", "fine", "applied_load")
_NUMBERED = ("register_load", "job_run")
_BATCH_ROWS = 10_000

Progress = Callable[[str, int], object]
"""Called now and then with a table and how many more of its rows were read or written."""


class Copied(NamedTuple):
    """One table, as it is in both databases; `sha256` is that of its rows in Postgres' words."""

    table: str
    rows: int
    sha256: str


class _Table(NamedTuple):
    """A table of both databases; its schema is the attached one on SQLite."""

    schema: str | None
    name: str
    columns: Sequence[str]
    """In quotes, like the columns of the key."""
    booleans: Sequence[bool]
    key: Sequence[str]

    @property
    def title(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def select(self, columns: Iterable[str]) -> str:
        """Return the query for all rows, in the order of their keys: by code point on both.

        Args:
            columns: expressions for them.
        """
        order = ", ".join(self.key)
        return f"SELECT {', '.join(columns)} FROM {self.quoted} ORDER BY {order}"  # noqa: S608 - ours

    @property
    def quoted(self) -> str:
        return qualified(self.schema, self.name)


class _Batch(NamedTuple):
    """Some rows of a table, in the text format of Postgres' COPY."""

    rows: int
    text: bytes


def copy_database(source: SqliteEngine, target: PostgresEngine, progress: Progress) -> list[Copied]:
    """Carry everything into an empty target; one that holds the same already is only compared.

    The source is read in one snapshot, and no register can be loaded meanwhile.

    Raises OperatorError if the schemas differ, the target holds anything else, or what was read
    back is not what was written; peewee.PeeweeException if a database fails.
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
            raise OperatorError("the registers of the source change just now; try again")
        held.enter_context(target.atomic())
        # A service that runs on the target, or another copy, waits.
        tables = ", ".join(f'"{name}"' for name in MAIN_TABLES)
        target.execute_sql(f"LOCK TABLE {tables} IN EXCLUSIVE MODE")
        if not _is_empty(target):
            return _compared(source, target, registers, progress)
        return _carried(source, target, registers, progress)


def _require_same_schema(source: SqliteEngine, target: PostgresEngine) -> None:
    found = versions(source)
    if found.database != versions(target).database:
        raise OperatorError(
            f"the source is at schema {found.database}, this program at {found.program}: "
            "run `verifyd migrate` on it, with the same program"
        )


def _registers(source: SqliteEngine) -> tuple[RegisterRef, ...]:
    """Return the registers that anything was loaded into; an interrupted first load left none."""
    query = Register.select(Register.name, Register.generation, Register.kinds)
    rows = query.where(Register.kinds != "").order_by(Register.name).tuples().execute(source)
    return tuple(RegisterRef(*row) for row in rows)


def _is_empty(target: PostgresEngine) -> bool:
    """Tell whether nothing was ever put into the target; plans are there from the beginning."""
    return not any(
        target.execute_sql(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone()  # noqa: S608 - ours
        for table in MAIN_TABLES
        if table != "plan"
    )


def _carried(
    source: SqliteEngine,
    target: PostgresEngine,
    registers: Iterable[RegisterRef],
    progress: Progress,
) -> list[Copied]:
    target.execute_sql('DELETE FROM "plan"')
    for register in registers:
        # No register is known here yet.
        RegisterSchemas(target, register.name).make_empty()
    copied = []
    for table in _tables(target, registers):
        written = _digest(table, _written(target, table, source), progress)
        if _read_back(target, table, progress) != written:
            raise OperatorError(f"{table.title}: what was read back is not what was written")
        target.execute_sql(f"ANALYZE {table.quoted}")
        copied.append(written)
    for name in _NUMBERED:
        target.execute_sql(
            f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) "  # noqa: S608 - ours
            f'FROM "{name}" HAVING max(id) IS NOT NULL'
        )
    # The numbers of deleted accounts are not given again (D81).
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
    """Return what both hold; raises OperatorError if it is not the same."""
    copied = []
    for table in _tables(target, registers):
        copied.append(_digest(table, _read(source, table), progress))
        if _read_back(target, table, progress) != copied[-1]:
            raise OperatorError(
                f"the target holds other data ({table.title}); copy into an empty database"
            )
    return copied


def _tables(target: PostgresEngine, registers: Iterable[RegisterRef]) -> Iterator[_Table]:
    """Yield all tables, as the target knows them."""
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
    # As Postgres writes flags.
    flag = "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END"
    columns = [
        flag.format(quoted) if is_boolean else quoted
        for quoted, is_boolean in zip(table.columns, table.booleans, strict=True)
    ]
    with driver_errors_translated():
        cursor = source.execute_sql(table.select(columns))
        while rows := cursor.fetchmany(_BATCH_ROWS):
            yield _Batch(len(rows), copy_text(rows).encode())


def _written(target: PostgresEngine, table: _Table, source: SqliteEngine) -> Iterator[_Batch]:
    """Yield the source's rows, each batch of them after it was sent to the target."""
    statement = f"COPY {table.quoted} ({', '.join(table.columns)}) FROM STDIN"
    with driver_errors_translated(), target.cursor().copy(statement) as stream:
        for batch in _read(source, table):
            stream.write(batch.text)
            yield batch


def _read_back(target: PostgresEngine, table: _Table, progress: Progress) -> Copied:
    statement = f"COPY ({table.select(table.columns)}) TO STDOUT"
    with driver_errors_translated(), target.cursor().copy(statement) as stream:
        # NOTE: the server sends each row as a message of its own.
        lines = map(bytes, stream)
        return _digest(table, iter(lambda: _batch_of(lines), _Batch(0, b"")), progress)


def _batch_of(lines: Iterator[bytes]) -> _Batch:
    """Return the next lines as a batch; an empty one in the end."""
    some = list(islice(lines, _BATCH_ROWS))
    return _Batch(len(some), b"".join(some))
