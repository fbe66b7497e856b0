"""How people run this program again, for what it prints and shows."""

import shlex
import shutil
import sys
from pathlib import Path

from app.config import SETTINGS, Config, texts_of_settings
from app.settings.values import sqlite_path
from app.storage.file_lock import user_name

INSTALLED = "sudo verifyd"
"""How an operator runs an installed program."""
_OF_LOADS = tuple(f"{SETTINGS[name].variable}=" for name in ("database_url", "mot_first_years"))
_WRAPPER, _USER = "verifyd.sh", "verifyd"
"""The script beside an installed program that runs it with its settings, as this user."""


def run_again(config: Config) -> tuple[list[str], str]:
    """Return lines that prepare a shell, and how to run this program there.

    It then has the settings of this process, except secrets.
    """
    found = _found()
    if is_installed():
        return [], INSTALLED
    exports = [f"export {each}" for each in _settings(config)]
    if found.name == "__main__.py":
        return exports, shlex.join([sys.executable, "-m", "app"])
    if found != Path(shutil.which(found.name) or "").absolute():
        exports.append(f'export PATH={shlex.quote(str(found.parent))}:"$PATH"')
    return exports, found.name


def run_anywhere(config: Config) -> str:
    """Return how to load with this program in any shell and directory, without preparing anything.

    Only the settings that say where rows go, and what a load changes in answers, are in the line.
    """
    found = _found()
    if is_installed():
        return INSTALLED
    command = [sys.executable, "-m", "app"] if found.name == "__main__.py" else [str(found)]
    settings = [each for each in _settings(config) if each.startswith(_OF_LOADS)]
    return " ".join([*settings, shlex.join(command)])


def is_installed() -> bool:
    """Tell whether the installer installed this program, and systemd runs its jobs."""
    return _found().resolve().with_name(_WRAPPER).exists() and user_name() == _USER


def as_run_here(text: str) -> str:
    """Return a text with the commands of this program as they are run where it is not installed."""
    return text if is_installed() else text.replace(INSTALLED, "verifyd")


def _found() -> Path:
    name = sys.argv[0]
    return Path(shutil.which(name) or name).absolute()


def _settings(config: Config) -> list[str]:
    """Return the variables that are set, with their values. Paths are absolute."""
    texts = texts_of_settings()
    texts |= {
        name: str(value.absolute())
        for name in texts
        if isinstance(value := getattr(config, name), Path)
    }
    database = sqlite_path(config.database_url)
    if database is not None:  # SEC: another URL may hold a password; it is in the environment.
        texts = {"database_url": f"sqlite:///{database.absolute()}"} | texts
    return [f"{SETTINGS[name].variable}={shlex.quote(text)}" for name, text in texts.items()]
