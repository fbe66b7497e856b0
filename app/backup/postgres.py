"""Backs Postgres up with its own programs, `pg_dump` and `pg_restore`."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from app.errors import OperatorError
from app.storage.engine import Engine
from app.storage.register_schemas import READ, UNREAD, hold_off_renames, other_schemas

_KNOWS_TRANSACTION_TIMEOUT = 17
# They belong to the administrator of the server, and this role could not create them again.
_WITHOUT_REPLICATION = ("--no-publications", "--no-subscriptions")


def dump(engine: Engine, target: Path, registers: Sequence[str]) -> dict[str, int]:
    """Write a dump in Postgres's custom format; return the rows of each table of the main schema.

    The dump shows one moment, while others read and write. If it contains registers, loads wait
    for it before they end. Raises OperatorError with the message of `pg_dump`;
    peewee.PeeweeException if the database cannot be read.

    Args:
        registers: the registers that the dump contains.
    """
    _require_fitting("pg_dump", engine)
    # NOTE: in a transaction of Peewee, so that a lost connection ends it (D45). Otherwise the rows
    # would be counted at another moment.
    with engine.atomic():
        engine.execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if registers:
            # pg_dump finds tables by name. A generation that got the name meanwhile would be empty
            # at the moment of the dump.
            hold_off_renames(engine)
        (snapshot,) = engine.execute_sql("SELECT pg_export_snapshot()").fetchone()
        words = ["--format=custom", "--no-owner", "--no-privileges", *_WITHOUT_REPLICATION]
        words += [f"--snapshot={snapshot}", f"--file={target}"]
        left_out = [*UNREAD, *(other_schemas(engine, registers) if registers else [READ])]
        words += [f"--exclude-schema={schema}" for schema in left_out]
        _run("pg_dump", words, engine.database)
        return count(engine)


def restore(engine: Engine, source: Path, rows: dict[str, int]) -> None:
    """Restore a dump into an empty database, all of it or nothing.

    Raises OperatorError with the message of `pg_restore`, or if the number of rows differs.
    """
    _require_fitting("pg_restore", engine)
    words = ["--no-owner", "--no-privileges", *_WITHOUT_REPLICATION]
    words += ["--single-transaction", "--exit-on-error"]
    _run("pg_restore", [*words, "--dbname=", str(source)], engine.database)
    if count(engine) != rows:
        raise OperatorError(f"{source} is not what was dumped: the number of rows differs")


def can_restore(program: int, server: int) -> bool:
    """Tell whether a dump of this program can be restored into this server; both major versions.

    Since 17 the programs set `transaction_timeout`, which older servers do not know.
    """
    return program < _KNOWS_TRANSACTION_TIMEOUT or server >= _KNOWS_TRANSACTION_TIMEOUT


def _require_fitting(program: str, engine: Engine) -> None:
    printed = _run(program, ["--version"], "")
    found = re.search(r"\d+", printed)
    if found is None:
        raise OperatorError(f"{program} does not print its version: {printed.strip()}")
    server = engine.connection().info.server_version // 10_000
    if not can_restore(int(found[0]), server):
        raise OperatorError(
            f"{program} of Postgres {found[0]} does not work with this server of version {server}: "
            f"install the client programs of a version from {server} to 16"
        )


def count(engine: Engine) -> dict[str, int]:
    """Return the rows of each table of the main database."""
    return {
        table: engine.execute_sql(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0]  # noqa: S608
        for table in engine.get_tables()
    }


def _run(program: str, words: list[str], database_url: str) -> str:
    if shutil.which(program) is None:
        raise OperatorError(f"{program} is not installed: install the client programs of Postgres")
    ended = subprocess.run(  # noqa: S603 - only our own words
        [program, *words, "--no-password"],
        env=_environment(database_url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise OperatorError(f"{program} failed: {ended.stderr.strip()}")
    return ended.stdout


def _environment(database_url: str) -> dict[str, str]:
    """Return an environment that names the database for the program.

    SEC: everybody on the host can read arguments, and the URL may hold a password.
    """
    from psycopg import pq  # noqa: PLC0415 - an extra, only needed here

    environment = dict(os.environ)
    if getattr(sys, "frozen", False):
        # Other programs must not use the libraries of the binary.
        environment.pop("LD_LIBRARY_PATH", None)
        if "LD_LIBRARY_PATH_ORIG" in environment:
            environment["LD_LIBRARY_PATH"] = environment["LD_LIBRARY_PATH_ORIG"]
    for option in pq.Conninfo.parse(database_url.encode()):
        if option.val and option.envvar:
            environment[option.envvar.decode()] = option.val.decode()
    return environment
