"""How a command opens the database: settings, owner and schema are checked first."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from app.config import SETTINGS, Config, is_set
from app.errors import OperatorError
from app.settings.values import sqlite_path
from app.storage import reserve
from app.storage.engine import Engine, closed_afterwards, open_engine
from app.storage.file_lock import owner_fault
from app.storage.files import require_directory
from app.storage.interface import Waiting
from app.storage.versions import versions


@contextmanager
def opened_database(
    config: Config | None = None,
    *,
    create: bool = False,
    check_schema: bool = True,
    waiting: Waiting = nullcontext,
    option: str = "",
) -> Iterator[Engine]:
    """Open the database that the settings name, for one command.

    Args:
        config: the settings; by default those of the environment.
        create: create the SQLite file if it does not exist; only for `migrate` and `demo` (D27).
        check_schema: refuse a schema that this program cannot use (D29).
        waiting: tells the user what the command waits for.
        option: the option that `config` is from, if it is given; errors name it.

    Raises ConfigError, or OperatorError that says what to do.
    """
    if config is None:
        option = ""
    config = config or Config.from_env()
    engine = open_engine(config.database_url, create=create)
    engine.waiting = waiting
    if engine.file is not None:
        _check_file(engine.file, create=create, option=option)
    with closed_afterwards(engine):
        if check_schema:
            refusal = reserve.with_reserve(engine, partial(versions, engine)).refusal()
            if refusal:
                raise OperatorError(refusal)
        yield engine


def _check_file(file: Path, *, create: bool, option: str) -> None:
    path = file.absolute()  # It shows that a URL has a slash too few.
    source = option or SETTINGS["database_url"].variable
    if path.is_dir():
        raise OperatorError(f"{path} is a directory; name a file in it, or correct {source}")
    if path.exists():
        _require_owner(path)
    elif create:
        require_directory(path.parent, source)
    else:
        remedy = f"check {option}" if option else _remedy_of_setting()
        raise OperatorError(f"database file {path} does not exist; {remedy}")


def _remedy_of_setting() -> str:
    variable = SETTINGS["database_url"].variable
    otherwise = (
        f"or check {variable}"
        if is_set("database_url")
        else f"or set {variable}: it is not set, so this is the default"
    )
    return f'run "verifyd migrate" to create it, {otherwise}'


def require_owner(config: Config) -> None:
    """Refuse to run as another user than the owner of an existing SQLite file (D27).

    The service could not use files that another user creates beside it. Raises OperatorError.
    """
    database = sqlite_path(config.database_url)
    if database is not None:
        _require_owner(database)


def _require_owner(database: Path) -> None:
    if database.exists() and (fault := owner_fault(database)):
        raise OperatorError(fault)
