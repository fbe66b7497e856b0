"""Copies SQLite files that are in use, and checks the copies."""

from contextlib import closing
from pathlib import Path

import apsw

from app.errors import OperatorError
from app.storage.engine import closed_afterwards
from app.storage.errors import driver_errors_translated
from app.storage.files import connect, file_uri
from app.storage.sqlite import SqliteEngine

_PAGES_BETWEEN_INTERRUPTS = 10_000
WAITING_TABLES = ("register_kept", "register_dropped")
"""The tables of snapshots and dropped registers. An older schema lacks some."""


def copy(source: Path, target: Path) -> dict[str, int]:
    """Copy a database while others read and write it; return the rows of each table.

    The copy shows one moment, and was checked. Writers do not wait for it. Raises OperatorError if
    the database is damaged; peewee.PeeweeException if it cannot be read, or if the copy cannot be
    written.
    """
    with closed_afterwards(SqliteEngine(source)) as engine:
        # The first query sets the moment. The copy is made in the same transaction.
        engine.execute_sql("BEGIN")
        connection = engine.connection()
        with driver_errors_translated():
            rows = _count(connection)
            with closing(connect(file_uri(target, "rwc"))) as copied:
                copied.execute("PRAGMA synchronous = OFF")  # The whole file is synced later.
                with copied.backup("main", connection, "main") as copying:
                    while not copying.done:
                        copying.step(_PAGES_BETWEEN_INTERRUPTS)
    require_sound(target, rows)
    return rows


def require_sound(path: Path, rows: dict[str, int]) -> None:
    """Check a file that is not in use: structure, foreign keys and the number of rows per table.

    Raises OperatorError if it is damaged.
    """
    with driver_errors_translated(), _opened_at_rest(path) as connection:
        told = [text for (text,) in connection.execute("PRAGMA integrity_check(1)")]
        if told != ["ok"]:
            raise OperatorError(f"{path} is damaged: {' '.join(told)}")
        if connection.execute("PRAGMA foreign_key_check").fetchone():
            raise OperatorError(f"{path} is damaged: a row refers to a missing row")
        if _count(connection) != rows:
            raise OperatorError(f"{path} is not what was copied: the number of rows differs")


def list_registers(main: Path) -> list[tuple[str, int]]:
    """Return name and generation of each register in a main file that is not in use.

    Registers without a successful load are left out: they may have no file.
    """
    with driver_errors_translated(), _opened_at_rest(main) as connection:
        rows = connection.execute(
            "SELECT name, generation FROM register WHERE kinds <> '' ORDER BY name"
        )
        return [(str(name), int(generation)) for name, generation in rows]


def list_waiting(main: Path) -> list[tuple[str, int]]:
    """Return name and generation of each snapshot and dropped register in a main file."""
    with driver_errors_translated(), _opened_at_rest(main) as connection:
        return [
            (str(name), int(generation))
            for table in list_tables(connection)
            if table in WAITING_TABLES
            for name, generation in connection.execute(f'SELECT name, generation FROM "{table}"')  # noqa: S608
        ]


def list_tables(connection: apsw.Connection) -> list[str]:
    """Return the names of all tables except SQLite's own."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    return [str(name) for (name,) in rows]


def _count(connection: apsw.Connection) -> dict[str, int]:
    counts = {}
    for table in list_tables(connection):
        query = f'SELECT COUNT(*) FROM "{table}"'  # noqa: S608 - a name from the schema
        counts[table] = int(connection.execute(query).get)
    return counts


def _opened_at_rest(path: Path) -> closing[apsw.Connection]:
    """Open a file that no process writes to."""
    return closing(connect(f"{file_uri(path, 'ro')}&immutable=1"))
