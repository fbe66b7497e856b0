"""Serves the demo: at most once per database, with the access log in a file (D98)."""

import os
import time
from contextlib import suppress
from pathlib import Path

from app import clock
from app.cli.session import require_owner
from app.config import Config
from app.directories import make_directory
from app.errors import OperatorError
from app.file_lock import hold_until_exit
from app.serve import instance, listening
from app.setting_values import sqlite_path

_LOCK = "demo"
_ACCESS_LOG = "access.log"
_PAUSE_SECONDS = 0.1


def claim(config: Config) -> Path:
    """Make sure that this process alone may serve the demo; return the path of its access log.

    Nothing is created if the demo is running already, or if another program uses the address.
    Raises OperatorError with what to do.
    """
    try:
        database = sqlite_path(config.database_url)
        if database is not None:
            require_owner(database)
        if _is_running(config.state_dir):
            raise OperatorError(_RUNNING)
        listening.require_free(config)
        make_directory(config.state_dir)
        make_directory(config.data_dir)
        if not hold_until_exit(config.state_dir / _LOCK):
            raise OperatorError(_RUNNING)
    except OSError as error:
        raise OperatorError(
            f"{error.filename or config.data_dir} cannot be used: {error.strerror}; "
            "use a directory of your own: make run DEMO=$HOME/verifyd-demo"
        ) from error
    return config.data_dir.absolute() / _ACCESS_LOG


_RUNNING = (
    "the demo is running already; nothing was changed. Its key is shown in the terminal where it "
    "was started; press Ctrl-C there to stop it"
)


def serve(access_log: Path, announcement: str) -> None:
    """Serve until Ctrl-C or TERM. The terminal gets warnings and errors only.

    Args:
        announcement: what to print when the demo answers, and not before.
    """
    # NOTE: only now is it certain that the directory is a demo's.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(access_log, flags, 0o640)
    terminal = os.dup(1)
    os.dup2(descriptor, 1)
    os.close(descriptor)

    def announce() -> None:
        with suppress(OSError), open(terminal, "w", encoding="utf-8") as stdout:
            stdout.write(announcement)

    # NOTE: this module is gunicorn's configuration; importing it reads the environment.
    from app.server import serve as serve_forever  # noqa: PLC0415

    serve_forever(is_quiet=True, announce=announce)


def _is_running(state_dir: Path) -> bool:
    """Tell whether a service of this database is running. Workers of a killed one end soon."""
    deadline_ns = clock.monotonic_ns() + listening.LEAVING_NS
    while instance.is_running(state_dir):
        if clock.monotonic_ns() > deadline_ns:
            return True
        time.sleep(_PAUSE_SECONDS)
    return False
