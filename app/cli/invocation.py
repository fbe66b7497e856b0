"""How to run this program again, as a line for a shell."""

import os
import pwd
import shlex
import shutil
import sys
from pathlib import Path

from app.config import SETTINGS, Config
from app.setting_values import sqlite_path

_WRAPPER, _USER = "verifyd.sh", "verifyd"
"""The script beside an installed program that runs it with its settings, as this user."""


def program(config: Config) -> tuple[list[str], str]:
    """Return lines that prepare a shell, and how to run this program there.

    It then uses the database of the settings, and judges as the service does.
    """
    found = _found()
    if _is_installed(found):
        return [], "sudo verifyd"
    exports = [f"export {each}" for each in _settings(config)]
    if found.name == "__main__.py":
        return exports, shlex.join([sys.executable, "-m", "app"])
    if found != Path(shutil.which(found.name) or "").absolute():
        exports.append(f'export PATH={shlex.quote(str(found.parent))}:"$PATH"')
    return exports, found.name


def one_line(config: Config) -> str:
    """Return how to run this program in any shell and directory, without preparing anything."""
    found = _found()
    if _is_installed(found):
        return "sudo verifyd"
    command = [sys.executable, "-m", "app"] if found.name == "__main__.py" else [str(found)]
    return " ".join([*_settings(config), shlex.join(command)])


def _found() -> Path:
    name = sys.argv[0]
    return Path(shutil.which(name) or name).absolute()


def _is_installed(found: Path) -> bool:
    return found.resolve().with_name(_WRAPPER).exists() and _user() == _USER


def _settings(config: Config) -> list[str]:
    """Return the variables of the database and of how vehicles are judged, with their values."""
    settings = []
    database = sqlite_path(config.database_url)
    if database is not None:  # SEC: another URL may hold a password; it is in the environment.
        settings.append(_variable("database_url", f"sqlite:///{database.absolute()}"))
    if config.mot_first_years:
        settings.append(_variable("mot_first_years", str(config.mot_first_years)))
    return settings


def _variable(setting: str, value: str) -> str:
    return f"{SETTINGS[setting].variable}={shlex.quote(value)}"


def _user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None
