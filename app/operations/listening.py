"""Where the service listens: an address that is free, and a socket that is not for everybody."""

import os
import socket
import time
from contextlib import closing, suppress
from pathlib import Path

from app import clock
from app.config import SETTINGS, Config, socket_address
from app.errors import OperatorError

SOCKET_UMASK = 0o117
"""What the socket is made with: mode 0660 from its first moment.

SEC: whoever connects to it can read `/metrics`, and is believed an address (D10).
"""
# With one of these in the environment, systemd or a former master hands the socket over.
_INHERITED = {"LISTEN_FDS", "GUNICORN_FD"}
# Workers of a master that was killed answer what they have begun, for so long at most (D62).
_LEAVING_NS = 1_500_000_000
_PAUSE_SECONDS = 0.1


def require_free(config: Config) -> None:
    """Refuse an address at which a server answers already: gunicorn takes Unix sockets away.

    Raises OperatorError, also if the socket cannot be made there or given to its group.
    """
    if not _INHERITED.isdisjoint(os.environ):
        return
    fault = path_fault(config.bind) or group_fault(config)
    if fault:
        raise OperatorError(fault)
    deadline_ns = clock.monotonic_ns() + _LEAVING_NS
    while _is_answered(config.bind):
        if clock.monotonic_ns() > deadline_ns:
            raise OperatorError(
                f"another server answers at {config.bind}: stop it, or set VERIFYD_BIND"
            )
        time.sleep(_PAUSE_SECONDS)


def _is_answered(bind: str) -> bool:
    family, target = socket_address(bind)
    with closing(socket.socket(family)) as connection, suppress(OSError):
        connection.connect(target)
        return True
    return False


def path_fault(bind: str) -> str | None:
    """Return why no Unix socket can be made at this path, or None if one can be."""
    path = Path(bind.removeprefix("unix:"))
    if not bind.startswith("unix:"):
        return None
    if not path.parent.is_dir():
        return f"VERIFYD_BIND: the directory {path.parent} does not exist: make it first"
    if path.exists() and not path.is_socket():
        return f"VERIFYD_BIND: {path} exists and is not a socket: remove it, or set another path"
    return None


def group_fault(config: Config) -> str | None:
    """Return why the socket cannot be given to its group, or None if it can be."""
    group = config.socket_group
    if group is None or not config.bind.startswith("unix:"):
        return None
    if os.geteuid() == 0 or group in {os.getegid(), *os.getgroups()}:
        return None
    variable = SETTINGS["socket_group"].variable
    return f"{variable}: user {os.geteuid()} is no member of group {group}: add it, or take another"


def give_to_group(config: Config) -> None:
    """Let the group connect to the Unix socket that was just made. Raises OSError."""
    if config.socket_group is not None and config.bind.startswith("unix:"):
        os.chown(Path(config.bind.removeprefix("unix:")), -1, config.socket_group)
