"""Backs Postgres up with its own programs, `pg_dump` and `pg_restore`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from app.errors import OperatorError
from app.storage.engine import Engine
from app.storage.register_schemas import READ, UNREAD, hold_off_renames, other_schemas

_KNOWS_TRANSACTION_TIMEOUT = 17
# They belong to the administrator of the server, and this role could not create them again.
_WITHOUT_REPLICATION = ("--no-publications", "--no-subscriptions")


def dump(
    engine: Engine, target: Path, list_wanted: Callable[[], list[str]] | None
) -> tuple[list[str], dict[str, int]]:
    """Write a dump in Postgres's custom format.

    The dump shows one moment, while others read and write. If it may contain registers, loads wait
    for it before they end. Raises OperatorError with the message of `pg_dump`;
    peewee.PeeweeException if the database cannot be read.

    Args:
        list_wanted: returns the registers that the dump contains, at its moment; None for none.

    Returns these registers, and the rows of each table of the main schema.
    """
    _require_fitting("pg_dump", engine)
    # NOTE: in a transaction of Peewee, so that a lost connection ends it (D45). Otherwise the rows
    # would be counted at another moment.
    with engine.atomic():
        engine.execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        registers: list[str] = []
        left_out = [*UNREAD, READ]
        if list_wanted is not None:
            # pg_dump finds tables by name. A generation that got the name meanwhile would be empty
            # at the moment of the dump.
            hold_off_renames(engine)
            registers = list_wanted()
            left_out = [*UNREAD, *other_schemas(engine, registers)]
        (snapshot,) = engine.execute_sql("SELECT pg_export_snapshot()").fetchone()
        words = ["--format=custom", "--no-owner", "--no-privileges", *_WITHOUT_REPLICATION]
        words += [f"--snapshot={snapshot}", f"--file={target}"]
        words += [f"--exclude-schema={schema}" for schema in left_out]
        _run("pg_dump", words, engine.database)
        return registers, count(engine)


def restore(engine: Engine, source: Path, rows: dict[str, int]) -> None:
    """Restore a dump into an empty database, all of it or nothing.

    Raises OperatorError with the message of `pg_restore`, if the tables would be in a schema that
    this role does not look in, or if the number of rows differs.
    """
    _require_fitting("pg_restore", engine)
    listed = _run("pg_restore", ["--list", str(source)], engine.database)
    schema = re.search(r"; 1259 \d+ TABLE (.+?) installation ", listed)
    if schema is not None and _is_there(engine, schema[1]):
        # Somebody has created it, and the dump would create it again.
        listed = re.sub(rf"(?m)^.* SCHEMA - {re.escape(schema[1])} .*\n", "", listed)
    words = ["--no-owner", "--no-privileges", *_WITHOUT_REPLICATION]
    words += ["--single-transaction", "--exit-on-error"]
    with tempfile.NamedTemporaryFile("w") as wanted:
        wanted.write(listed)
        wanted.flush()
        words += [f"--use-list={wanted.name}", "--dbname=", str(source)]
        _run("pg_restore", words, engine.database)
    if count(engine) != rows:
        raise OperatorError(f"{source} is not what was dumped: the number of rows differs")


def _is_there(engine: Engine, schema: str) -> bool:
    """Tell whether a schema exists.

    Raises OperatorError if this role would not look for its tables in it.
    """
    query = "SELECT count(*) FROM pg_namespace WHERE nspname = %s"
    (is_there,) = engine.execute_sql(query, (schema,)).fetchone()
    with engine.atomic() as transaction:
        if not is_there:
            # `search_path` may name it already.
            query = "SELECT format('CREATE SCHEMA %%I', %s::text)"
            engine.execute_sql(*engine.execute_sql(query, (schema,)).fetchone())
        query = (
            "SELECT current_schema(), format('ALTER ROLE %%I IN DATABASE %%I SET search_path = %%I'"
            ", current_user, current_database(), %s::text)"
        )
        current, line = engine.execute_sql(query, (schema,)).fetchone()
        transaction.rollback()
    if current != schema:
        raise OperatorError(
            f"the backup is of the schema {schema}, and this role uses {current or 'none'}: "
            f"run {line}"
        )
    return bool(is_there)


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
