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


def program(config: Config) -> str:
    """Return how to run this program with the database of the settings, from any directory."""
    name = sys.argv[0]
    found = Path(shutil.which(name) or name).absolute()
    if found.resolve().with_name(_WRAPPER).exists() and _user() == _USER:
        return "sudo verifyd"
    words = []
    database = sqlite_path(config.database_url)
    if database is not None:  # SEC: another URL may hold a password; it is in the environment.
        variable = SETTINGS["database_url"].variable
        words.append(f"{variable}=" + shlex.quote(f"sqlite:///{database.absolute()}"))
    command = [sys.executable, "-m", "app"] if found.name == "__main__.py" else [str(found)]
    return " ".join([*words, shlex.join(command)])


def _user() -> str | None:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None
