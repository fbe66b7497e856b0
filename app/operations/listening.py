"""The address at which the service listens, and the permissions of its Unix socket."""

import errno
import os
import socket
import time
from contextlib import closing
from pathlib import Path

from app import clock
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.setting_values import socket_address

SOCKET_UMASK = 0o117
"""The socket has mode 0660 from the moment it is created.

SEC: everybody who can connect to it can read `/metrics` and claim any client address (D10).
"""
# One of these is in the environment if systemd or a former master passes its socket.
_INHERITED = {"LISTEN_FDS", "GUNICORN_FD"}
LEAVING_NS = 1_500_000_000
"""How long the workers of a killed master may finish requests in flight (D62)."""
_PAUSE_SECONDS = 0.1
_UNPRIVILEGED, _PORT_MAX = 1024, 65_535


def require_free(config: Config) -> None:
    """Refuse an address that another program uses, or that this user may not use.

    gunicorn would replace the Unix socket of another server, and retry a port for five seconds.

    Raises OperatorError, also if the socket cannot be created or given to its group.
    """
    if not _INHERITED.isdisjoint(os.environ):
        return
    fault = path_fault(config.bind) or group_fault(config)
    if fault:
        raise OperatorError(fault)
    deadline_ns = clock.monotonic_ns() + LEAVING_NS
    while _is_in_use(config.bind):
        if clock.monotonic_ns() > deadline_ns:
            raise OperatorError(
                f"another program listens at {config.bind}; stop it, or " + _remedy(config.bind)
            )
        time.sleep(_PAUSE_SECONDS)


def _is_in_use(bind: str) -> bool:
    """Tell whether somebody listens there. Raises OperatorError if nobody can, or may."""
    family, target = socket_address(bind)
    with closing(socket.socket(family)) as probe:
        if family == socket.AF_UNIX:
            return probe.connect_ex(target) == 0
        # gunicorn sets this, too: otherwise connections that were closed lately are in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(target)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            reason = f"VERIFYD_BIND: {bind} cannot be used: {error.strerror}; "
            raise OperatorError(reason + _remedy(bind)) from error
    return False


def _remedy(bind: str) -> str:
    """Return how to use another address."""
    if bind.startswith("unix:"):
        return "set VERIFYD_BIND to another path"
    host, _, port = bind.rpartition(":")
    other = 8000 if int(port) < _UNPRIVILEGED else int(port) % _PORT_MAX + 1
    return f"use another address, such as VERIFYD_BIND={host}:{other}"


def path_fault(bind: str) -> str | None:
    """Return why no Unix socket can be created at this path, or None."""
    path = Path(bind.removeprefix("unix:"))
    if not bind.startswith("unix:"):
        return None
    if not path.parent.is_dir():
        return f"VERIFYD_BIND: the directory {path.parent} does not exist: create it first"
    if path.exists() and not path.is_socket():
        return f"VERIFYD_BIND: {path} exists and is not a socket: remove it, or set another path"
    return None


def group_fault(config: Config) -> str | None:
    """Return why the socket cannot be given to its group, or None."""
    group = config.socket_group
    if group is None or not config.bind.startswith("unix:"):
        return None
    if os.geteuid() == 0 or group in {os.getegid(), *os.getgroups()}:
        return None
    variable = SETTINGS["socket_group"].variable
    return (
        f"{variable}: user {os.geteuid()} is not in group {group}: "
        "add the user to it, or set another group"
    )


def give_to_group(config: Config) -> None:
    """Give the existing Unix socket to its group, so that it can connect. Raises OSError."""
    if config.socket_group is not None and config.bind.startswith("unix:"):
        os.chown(Path(config.bind.removeprefix("unix:")), -1, config.socket_group)
