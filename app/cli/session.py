"""A command's way to the database: the settings, the owner's rights, a usable schema."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from app.config import Config
from app.directories import make_directory
from app.errors import OperatorError
from app.storage import reserve
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.versions import versions


@contextmanager
def opened_database(
    config: Config | None = None, *, create: bool = False, check_schema: bool = True
) -> Iterator[Engine]:
    """Open the database that the settings name, for one command.

    Args:
        config: the settings; read from the environment unless given.
        create: make the SQLite file if it is missing; only `migrate` and `demo` may (D27).
        check_schema: refuse a schema that this program cannot use (D29).

    Raises ConfigError, or OperatorError with what to do.
    """
    config = config or Config.from_env()
    engine = open_engine(config.database_url, create=create)
    if engine.file is not None:
        _check_file(engine.file, create=create)
    try:
        if check_schema:
            refusal = reserve.written(engine, partial(versions, engine)).refusal()
            if refusal:
                raise OperatorError(refusal)
        yield engine
    finally:
        close_quietly(engine)


def _check_file(file: Path, *, create: bool) -> None:
    path = file.absolute()  # Told so, where a URL has a slash too few.
    if not path.exists():
        if not create:
            raise OperatorError(f"there is no database {path}: run `verifyd migrate`")
        make_directory(path.parent)
        return
    require_owner(path)


def require_owner(database: Path) -> None:
    """Refuse to run as another user than the owner of a SQLite file that is there (D27).

    Files made beside it by another user would lock the service out. Raises OperatorError.
    """
    owner = database.stat().st_uid if database.exists() else os.geteuid()
    if owner != os.geteuid():
        raise OperatorError(
            f"{database} belongs to user {owner}, not to you ({os.geteuid()}); "
            f"run the command as its owner: sudo -u '#{owner}' verifyd ..."
        )
