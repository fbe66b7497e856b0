"""Serves the demo: at most once per database, with the access log in a file (D98)."""

import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.cli import invocation
from app.config import Config
from app.errors import OperatorError
from app.registers.demo import CAST
from app.serve import instance, listening
from app.setting_values import sqlite_path
from app.storage.file_lock import hold_until_exit, make_directory
from app.storage.session import require_owner

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
    deadline_ns = clock.monotonic_ns() + listening.LAST_REQUESTS_NS
    while instance.is_running(state_dir):
        if clock.monotonic_ns() > deadline_ns:
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


# What `verifyd demo` prints: requests to try, and what to do with the demo.

DOMAINS = ("example.com", "fleet.example.org")
LIMITED_REQUESTS, LIMITED_SECONDS = 5, 10
"""The plan of the limited key."""


class Keys(NamedTuple):
    """The keys of the demo, or the shell variables that hold them."""

    key: str
    limited_key: str
    """The key of the account with few requests."""


VARIABLES = Keys("$KEY", "$LIMITED_KEY")


class Step(NamedTuple):
    """One request to try, and what it shows."""

    shows: str
    path: str
    body: str | None = None
    times: int = 1
    """If more than once, the key is the limited one, and only what tells of the limit is shown."""


def _plate(path: str, part: str) -> str:
    return path.format(CAST[part])


_INSURANCE = "/v1/vehicle/{}/insurance"
_LIMIT_SHOWN = "grep -iE '^(HTTP|Retry-After)'"
_BULK = '{{"registrations": ["{}", "{}", "{}"]}}'
STEPS = (
    Step("insured: a policy is in force", _plate(_INSURANCE, "compliant")),
    Step("not insured: the policy has lapsed", _plate(_INSURANCE, "lapsed")),
    Step("404: no register knows this plate", _plate(_INSURANCE, "unknown")),
    Step(
        "three at once, one of them unknown",
        "/v1/vehicle/bulk-insurance",
        _BULK.format(*(CAST[part] for part in ("compliant", "lapsed", "unknown"))),
    ),
    Step("not road-legal: off the road, SORN", _plate("/v1/compliance/{}?explain=true", "sorn")),
    Step("the domains of the account", "/api/domains"),
    Step(
        "201: a new domain, or 409 if it exists already",
        "/api/domains",
        '{"name": "new.example.com"}',
    ),
    Step(
        f"429 with Retry-After: {LIMITED_REQUESTS + 1} requests, where {LIMITED_REQUESTS} in "
        f"{LIMITED_SECONDS} seconds are allowed",
        "/v1/account",
        times=LIMITED_REQUESTS + 1,
    ),
)
"""What to try. In zsh a comment is a command, so what it shows has nothing special to a shell."""


def curl(bind: str, keys: Keys, step: Step) -> str:
    """Return a command for a shell, to use while the demo is served."""
    is_single = step.times == 1
    arguments = ["curl -sS -w '\\n'" if is_single else "curl -sSI"]
    if bind.startswith("unix:"):
        arguments.append(f"--unix-socket {shlex.quote(bind.removeprefix('unix:'))}")
    arguments.append(f'-H "X-API-Key: {keys.key if is_single else keys.limited_key}"')
    if step.body is not None:
        arguments.append(f"-H 'Content-Type: application/json' -d '{step.body}'")
    if is_single:
        arguments.append(shlex.quote(base_url(bind) + step.path))
    else:
        # curl repeats what is in brackets, and sends nothing that follows a #.
        arguments.append(f"'{base_url(bind)}{step.path}#[1-{step.times}]' | {_LIMIT_SHOWN}")
    return " ".join(arguments)


def base_url(bind: str) -> str:
    """Return where a client on this host finds the service."""
    if bind.startswith("unix:"):
        return "http://localhost"
    address, _, port = bind.rpartition(":")
    if address in ("0.0.0.0", "[::]"):  # noqa: S104 - read, not bound
        address = "127.0.0.1"
    return f"http://{address}:{port}"


def print_lines(config: Config, keys: Keys, *, is_served: bool) -> None:
    """Print how to use the demo.

    Args:
        is_served: whether this process is about to serve the demo.
    """
    exports, program = invocation.program(config)
    if not is_served:
        print("\n".join(["\nServe the demo:\n", *exports, f"{program} serve"]))
    print("\nPaste these lines into another terminal, one by one or all at once:\n")
    print(f"export KEY={keys.key}\nexport LIMITED_KEY={keys.limited_key}")
    print("\n".join([*exports, ""]))
    for step in STEPS:
        print(f"# {step.shows}\n{curl(config.bind, VARIABLES, step)}\n")
    print("# load a file of your own: remove the # and write its name instead of FILE")
    print(f"# {program} import FILE\n")
    print("# if its columns have other names: print a mapping, which says how to use it")
    print(f"# {program} import --suggest-map FILE\n")


def links(config: Config, access_log: Path | None, console: str | None = None) -> str:
    """Return the lines with what can be opened, for as long as the demo is served.

    Args:
        access_log: the file of the access log, if this process is about to serve the demo.
        console: a link that opens the console, if it is on.
    """
    url = base_url(config.bind)
    lines = [f"Documentation  {url}/docs"]
    if console is not None:
        lines += [
            f"Console        {console}",
            "               (works once, for ten minutes; press Ctrl-C and run again for another)",
        ]
    if access_log is not None:
        lines += [
            f"Access log     {access_log if config.access_log else 'off'}",
            f"The demo answers at {url} until you press Ctrl-C here, or: kill {os.getpid()}",
        ]
    return "".join(f"{line}\n" for line in lines)
