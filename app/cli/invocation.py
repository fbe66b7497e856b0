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
    name = sys.argv[0]
    found = Path(shutil.which(name) or name).absolute()
    if found.resolve().with_name(_WRAPPER).exists() and _user() == _USER:
        return [], "sudo verifyd"
    exports = []
    database = sqlite_path(config.database_url)
    if database is not None:  # SEC: another URL may hold a password; it is in the environment.
        exports.append(_export("database_url", f"sqlite:///{database.absolute()}"))
    if config.mot_first_years:
        exports.append(_export("mot_first_years", str(config.mot_first_years)))
    if found.name == "__main__.py":
        return exports, shlex.join([sys.executable, "-m", "app"])
    if found != Path(shutil.which(found.name) or "").absolute():
        exports.append(f'export PATH={shlex.quote(str(found.parent))}:"$PATH"')
    return exports, found.name


def _export(setting: str, value: str) -> str:
    return f"export {SETTINGS[setting].variable}={shlex.quote(value)}"


def _user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None
