"""What `verifyd demo` prints: requests to try, and what to do with the demo."""

import shlex
from pathlib import Path
from typing import NamedTuple

from app.cli import invocation
from app.config import Config
from app.registers.demo import CAST

DOMAINS = ("example.com", "fleet.example.org")


class Step(NamedTuple):
    """One request to try, and what it shows."""

    shows: str
    path: str
    body: str | None = None
    times: int = 1
    """If more than once, the statuses of the answers are counted instead of shown."""


def _plate(path: str, part: str) -> str:
    return path.format(CAST[part])


_INSURANCE = "/v1/vehicle/{}/insurance"
_BULK = '{{"registrations": ["{}", "{}", "{}"]}}'
STEPS = (
    Step("insured: a policy is in force", _plate(_INSURANCE, "compliant")),
    Step("not insured: the policy has lapsed", _plate(_INSURANCE, "lapsed")),
    Step("404: no register knows this plate", _plate(_INSURANCE, "unknown")),
    Step(
        "three at once; one of them is unknown",
        "/v1/vehicle/bulk-insurance",
        _BULK.format(*(CAST[part] for part in ("compliant", "lapsed", "unknown"))),
    ),
    Step("road-legal? no: off the road (SORN)", _plate("/v1/compliance/{}?explain=true", "sorn")),
    Step("the account's domains", "/api/domains"),
    Step(
        "201: a new domain; 409 if it exists already",
        "/api/domains",
        '{"name": "new.example.com"}',
    ),
    Step(
        "429: 10,000 requests, many more than the plan allows; try your client meanwhile",
        "/v1/account",
        times=10_000,
    ),
)


def curl(bind: str, key: str, step: Step) -> str:
    """Return a command for a shell, to use while the demo is served.

    Args:
        key: the key, or `$KEY`.
    """
    arguments = ["curl -s"]
    if bind.startswith("unix:"):
        arguments.append(f"--unix-socket {shlex.quote(bind.removeprefix('unix:'))}")
    arguments.append(f'-H "X-API-Key: {key}"')
    if step.body is not None:
        arguments.append(f"-H 'Content-Type: application/json' -d '{step.body}'")
    if step.times == 1:
        arguments.append(shlex.quote(base_url(bind) + step.path))
    else:
        # curl repeats what is in brackets, and sends nothing that follows a #.
        arguments.append("-o /dev/null -w '%{http_code}\\n'")
        arguments.append(f"'{base_url(bind)}{step.path}#[1-{step.times}]' | sort | uniq -c")
    return " ".join(arguments)


def base_url(bind: str) -> str:
    """Return where a client on this host finds the service."""
    if bind.startswith("unix:"):
        return "http://localhost"
    address, _, port = bind.rpartition(":")
    if address in ("0.0.0.0", "[::]"):  # noqa: S104 - read, not bound
        address = "127.0.0.1"
    return f"http://{address}:{port}"


def print_lines(config: Config, key: str, access_log: Path | None) -> None:
    """Print how to use the demo.

    Args:
        access_log: the file of the access log, if this process is about to serve the demo.
    """
    url, program = base_url(config.bind), invocation.program(config)
    if access_log is None:
        print(f"\nServe the demo:\n\n{program} serve")
    print(f"\nPaste these lines into another terminal:\n\nexport KEY={key}\n")
    for step in STEPS:
        print(f"# {step.shows}\n{curl(config.bind, '$KEY', step)}\n")
    print("# load your own file; --suggest-map writes a mapping if its columns have other names")
    print(f"{program} import FILE\n")
    print(f"Documentation  {url}/docs")
    if access_log is not None:
        print(f"Access log     {access_log if config.access_log else 'off'}")
        print(f"The demo answers at {url} until you press Ctrl-C.")
