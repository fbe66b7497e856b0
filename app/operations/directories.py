"""Whether the directories and names in the settings can be used, for `check` and the console."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from app.accounts.administration import list_accounts
from app.config import SETTINGS, Config
from app.setting_values import sqlite_path
from app.storage.engine import Engine


def unknown_accounts(engine: Engine, config: Config) -> list[str]:
    """Return a warning for each account of VERIFYD_METRICS_ACCOUNTS that does not exist (D80)."""
    known = {account.name for account in list_accounts(engine)}
    return [
        f"{SETTINGS['metrics_accounts'].variable} names {name}: there is no such account"
        for name in sorted(set(config.metrics_accounts) - known)
    ]


def directory_faults(config: Config) -> list[str]:
    """Return a fault for each directory that the service cannot write to, and needs."""
    faults = []
    database = sqlite_path(config.database_url)
    # Path.exists() would raise an error below a directory that this user may not enter.
    if database and os.path.exists(database):
        if not os.access(database, os.W_OK):
            faults.append(setting_fault("database_url", f"{database} cannot be written to"))
        faults += _unwritable("database_url", database.absolute().parent)
    return faults + _unwritable("state_dir", _nearest_existing(config.state_dir))


def socket_faults(config: Config) -> list[str]:
    """Return a fault if the service could not create its Unix socket."""
    if not config.bind.startswith("unix:"):
        return []
    return _unwritable("bind", Path(config.bind.removeprefix("unix:")).parent)


def data_warnings(config: Config) -> list[str]:
    """Return a warning for each directory where rejects files and alerts cannot be written."""
    unwritable = chain.from_iterable(
        _unwritable("data_dir", directory) for directory in _written_directories(config)
    )
    return [f"{each}, so rejects and alerts are lost." for each in dict.fromkeys(unwritable)]


def _written_directories(config: Config) -> Iterator[Path]:
    """Yield the directories of rejects files and alerts, or those that they are created in."""
    for parts in ((), ("rejects",), ("notices",), ("notices", "queue")):
        yield _nearest_existing(config.data_dir.joinpath(*parts))


def _unwritable(name: str, directory: Path) -> list[str]:
    if directory.is_dir() and os.access(directory, os.W_OK | os.X_OK):
        return []
    return [setting_fault(name, f"{directory} cannot be written to")]


def _nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return path if os.path.exists(path) else _nearest_existing(path.parent)


def setting_fault(name: str, fault: str) -> str:
    """Return a fault of a setting. It begins with the variable, so that faults can be compared."""
    return f"{SETTINGS[name].variable}: {fault}"
