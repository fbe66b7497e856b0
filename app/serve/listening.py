"""The addresses at which the service listens, and the permissions of its Unix sockets."""

import errno
import os
import socket
import time
from contextlib import closing, suppress
from pathlib import Path

from app import clock
from app.config import SETTINGS, Config, is_set, setting_fault
from app.errors import OperatorError
from app.serve import service_lock
from app.settings.listen_addresses import address_of, resolved, socket_address

SOCKET_UMASK = 0o117
"""A socket has mode 0660 from the moment it is created.

SEC: everybody who can connect to it can read `/metrics` and claim any client address (D10).
"""
_FIRST_OF_SYSTEMD = 3
LAST_REQUESTS_NS = 1_500_000_000
"""How long the workers of a killed master may finish requests in flight."""
_PAUSE_SECONDS = 0.1
_UNPRIVILEGED, _PORT_MAX = 1024, 65_535
_ANY_IPV4 = "0.0.0.0"  # noqa: S104 - compared, not bound


def console_address(config: Config) -> str | None:
    """Return the address of the console's own listener, resolved; None if it has none.

    Raises OSError if its host is unknown.
    """
    return resolved(config.console_bind) if config.console and config.console_bind else None


def require_free(config: Config) -> None:
    """Refuse addresses that another program uses, or that this user may not use.

    gunicorn would replace the Unix socket of another server, and retry a port for five seconds.

    Raises OperatorError, also if a socket cannot be created or given to its group, or if there
    would be no listener for the API.
    """
    passed = passed_addresses()
    fault = console_fault(config, passed)
    if fault:
        raise OperatorError(fault)
    for name in to_open(config, passed):
        bind = getattr(config, name)
        fault = path_fault(name, bind) or group_fault(config, bind)
        if fault:
            raise OperatorError(fault)
        deadline_ns = clock.monotonic_ns() + LAST_REQUESTS_NS
        while _is_in_use(name, bind):
            if clock.monotonic_ns() > deadline_ns:
                raise OperatorError(
                    f"another program listens at {bind}; stop it, or " + _remedy(name, bind)
                )
            time.sleep(_PAUSE_SECONDS)


def passed_addresses() -> list[str]:
    """Return the addresses of the sockets that systemd or a former master passes to this one."""
    is_ours = os.environ.get("LISTEN_PID") == str(os.getpid())
    count = int(os.environ.get("LISTEN_FDS", "0")) if is_ours else 0
    descriptors = [*range(_FIRST_OF_SYSTEMD, _FIRST_OF_SYSTEMD + count)]
    descriptors += map(int, filter(None, os.environ.get("GUNICORN_FD", "").split(",")))
    addresses = []
    for descriptor in descriptors:
        with closing(socket.socket(fileno=os.dup(descriptor))) as listener:
            addresses.append(address_of(listener))
    return addresses


def to_open(config: Config, passed: list[str]) -> list[str]:
    """Return the settings of the listeners that the service opens by itself.

    Args:
        passed: the addresses of the sockets that it was passed.
    """
    console = console_address(config)
    is_missing = console is not None and console not in passed
    return ["bind"] * (not passed) + ["console_bind"] * is_missing


def console_fault(config: Config, passed: list[str]) -> str | None:
    """Return why the console cannot have the listener that is set, or None.

    Args:
        passed: the addresses of the sockets that the service was passed.
    """
    bind = config.console_bind
    try:
        console = console_address(config)
    except OSError as error:
        return setting_fault("console_bind", f"{bind} cannot be used: {error.strerror}")
    if console is None:
        return None
    with suppress(OSError):  # An unknown host of VERIFYD_BIND is reported as such.
        if all(_overlap(console, each) for each in passed or [resolved(config.bind)]):
            fault = f"the API listens at {bind}: set another address"
            return setting_fault("console_bind", fault)
    return None


def console_warning(config: Config) -> str | None:
    """Return what may be wrong with the console's listener, for an operator; None if nothing is."""
    if not config.console_bind:
        return None
    bind = config.console_bind
    if not config.console:
        variable = SETTINGS["console_bind"].variable
        return f"{variable} is set, and the console is off: set VERIFYD_CONSOLE=on."
    try:
        is_own = console_address(config) in service_lock.listeners(config.state_dir)
        # NOTE: to connect to a Unix socket of systemd would start the service.
        if not (is_own or bind.startswith("unix:")) and _is_in_use("console_bind", bind):
            return setting_fault("console_bind", f"another program listens at {bind}.")
    except OperatorError as error:
        return f"{error}."
    except OSError:  # An unknown host is a fault.
        pass
    return None


def chosen_by_systemd(config: Config) -> list[str]:
    """Return where the running service listens for the API if no setting says it."""
    return [] if is_set("bind") else service_lock.listeners(config.state_dir)[:1]


def _overlap(one: str, other: str) -> bool:
    """Tell whether two sockets cannot listen at these addresses at the same time."""
    if one.startswith("unix:") != other.startswith("unix:"):
        return False
    if one.startswith("unix:"):
        # Different texts can name one path: the second listener would replace the socket.
        one, other = map(os.path.realpath, (one.removeprefix("unix:"), other.removeprefix("unix:")))
        return one == other
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    hosts = {host, other_host}
    # A socket at [::] also accepts connections over IPv4, one at 0.0.0.0 no others.
    is_any = "[::]" in hosts or (_ANY_IPV4 in hosts and not any("[" in each for each in hosts))
    return port == other_port and (host == other_host or is_any)


def _is_in_use(name: str, bind: str) -> bool:
    """Tell whether a program listens at an address. Raises OperatorError if no program can."""
    family, target = socket_address(bind)
    with closing(socket.socket(family)) as probe:
        if family == socket.AF_UNIX:
            # NOTE: otherwise this would wait for room in the queue of a program that hangs.
            probe.setblocking(False)
            return probe.connect_ex(target) in (0, errno.EAGAIN)
        # gunicorn sets this, too: otherwise connections that were closed lately are in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(target)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            fault = f"{bind} cannot be used: {error.strerror}; {_remedy(name, bind)}"
            raise OperatorError(setting_fault(name, fault)) from error
    return False


def _remedy(name: str, bind: str) -> str:
    """Return how to use another address."""
    variable = SETTINGS[name].variable
    if bind.startswith("unix:"):
        return f"set {variable} to another path"
    host, _, port = bind.rpartition(":")
    other = 8000 if int(port) < _UNPRIVILEGED else int(port) % _PORT_MAX + 1
    return f"use another address, such as {variable}={host}:{other}"


def path_fault(name: str, bind: str) -> str | None:
    """Return why no Unix socket can be created at this path, or None."""
    path = Path(bind.removeprefix("unix:"))
    if not bind.startswith("unix:"):
        return None
    try:
        path.stat()
    except PermissionError:
        return setting_fault(name, f"{path.parent} cannot be written to")
    except OSError:
        pass  # It does not exist yet.
    if not path.parent.is_dir():
        return setting_fault(name, f"the directory {path.parent} does not exist: create it first")
    if path.exists() and not path.is_socket():
        fault = f"{path} exists and is not a socket: remove it, or set another path"
        return setting_fault(name, fault)
    return None


def group_fault(config: Config, bind: str) -> str | None:
    """Return why the socket at an address cannot be given to its group, or None."""
    group = config.socket_group
    if group is None or not bind.startswith("unix:"):
        return None
    if os.geteuid() == 0 or group in {os.getegid(), *os.getgroups()}:
        return None
    fault = f"user {os.geteuid()} is not in group {group}: add the user to it, or set another group"
    return setting_fault("socket_group", fault)


def give_to_group(config: Config, bind: str) -> None:
    """Give an existing Unix socket to its group, so that it can connect. Raises OSError."""
    if config.socket_group is not None and bind.startswith("unix:"):
        os.chown(Path(bind.removeprefix("unix:")), -1, config.socket_group)
