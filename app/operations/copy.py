"""A SQLite installation carried into Postgres, whole and verified: `verifyd copy` (D46).

Everything is written, read back and compared in one transaction of the target: killed at any
moment, it holds what it held before. What is compared are the rows as Postgres itself writes
them out, byte for byte.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, NamedTuple

from app.errors import OperatorError
from app.registers.lock import alone
from app.storage.engine import Row
from app.storage.postgres import PostgresEngine
from app.storage.registers import Register, attach
from app.storage.schema import migrate, migrate_register, versions
from app.storage.sqlite import SqliteEngine, driver_errors_translated
from app.storage.tables import RegisterRef

MAIN_TABLES = ("plan", "account", "api_key", "domain", "register", "register_load", "job_run")
"""In the order of their foreign keys; `installation` stays the target's own."""
REGISTER_TABLES = ("vehicle", "policy", "fine", "applied_load")
_NUMBERED = ("register_load", "job_run")
_BATCH_ROWS = 10_000
_ESCAPES = str.maketrans(
    {"\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
)

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
    booleans: Sequence[bool]
    key: Sequence[str]

    @property
    def title(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def select(self) -> str:
        """Return the query for all rows, in the order of their keys: by code point on both."""
        columns, key = (", ".join(f'"{c}"' for c in each) for each in (self.columns, self.key))
        return f"SELECT {columns} FROM {self.quoted} ORDER BY {key}"  # noqa: S608 - names of ours

    @property
    def quoted(self) -> str:
        return f'"{self.schema}"."{self.name}"' if self.schema else f'"{self.name}"'


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
            held.enter_context(alone(source, register.name))
        attach(source, registers)
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
        # NOTE: no register is known here yet; a schema of that name is what a failure left.
        target.execute_sql(f'DROP SCHEMA IF EXISTS "{register.schema}" CASCADE')
        target.execute_sql(f'CREATE SCHEMA "{register.schema}"')
        migrate_register(target, register.schema)
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
        copied.append(_digest(table, _batches(_lines(source, table)), progress))
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
            [column.name for column in columns],
            [column.data_type == "boolean" for column in columns],
            target.get_primary_keys(name, schema),
        )


def _digest(table: _Table, batches: Iterable[list[bytes]], progress: Progress) -> Copied:
    """Count and hash the lines of a table."""
    rows, sha256 = 0, hashlib.sha256()
    for batch in batches:
        sha256.update(b"".join(batch))
        rows += len(batch)
        progress(table.title, len(batch))
    return Copied(table.title, rows, sha256.hexdigest())


def _lines(source: SqliteEngine, table: _Table) -> Iterator[bytes]:
    """Yield the source's rows as lines of Postgres' COPY."""
    with driver_errors_translated():
        for row in source.execute_sql(table.select()):
            yield _line(row, table.booleans)


def _line(row: Row, booleans: Sequence[bool]) -> bytes:
    return ("\t".join(map(_text, row, booleans)) + "\n").encode()


def _text(value: Any, is_boolean: bool) -> str:
    if value is None:
        return r"\N"
    if is_boolean:
        return "t" if value else "f"
    if not isinstance(value, str):
        return str(value)
    # PERF: nearly all are plain; translating takes ten times as long as looking.
    is_plain = value.isprintable() and "\\" not in value
    return value if is_plain else value.translate(_ESCAPES)


def _written(target: PostgresEngine, table: _Table, source: SqliteEngine) -> Iterator[list[bytes]]:
    """Yield the source's lines in batches, each of them after it was sent to the target."""
    columns = ", ".join(f'"{column}"' for column in table.columns)
    statement = f"COPY {table.quoted} ({columns}) FROM STDIN"
    with driver_errors_translated(), target.cursor().copy(statement) as stream:
        for batch in _batches(_lines(source, table)):
            stream.write(b"".join(batch))
            yield batch


def _read_back(target: PostgresEngine, table: _Table, progress: Progress) -> Copied:
    statement = f"COPY ({table.select()}) TO STDOUT"
    with driver_errors_translated(), target.cursor().copy(statement) as stream:
        # NOTE: the server sends each row as a message of its own.
        return _digest(table, _batches(map(bytes, stream)), progress)


def _batches(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    iterator = iter(lines)
    while batch := list(islice(iterator, _BATCH_ROWS)):
        yield batch
