"""`verifyd demo`: a demo register, accounts, domains and keys; the command can serve them.

The demo is served at most once per database, with the access log in a file.
"""

import argparse
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple

from app import actions, clock
from app.accounts.administration import (
    DEFAULT_PLAN,
    PLAN_LIMITS,
    create_account,
    create_key,
    list_accounts,
    list_keys,
    migrate_installation,
    require_account,
    require_plan,
    revoke_key,
    set_account_plan,
    set_plan,
)
from app.accounts.models import Account
from app.arguments import flag
from app.cli.console import base_url, link_url
from app.cli.output import print_item
from app.cli.parser import Group
from app.config import SETTINGS, Config
from app.domains.repository import Domains
from app.errors import OperatorError
from app.jobs.loads import printed_by_command
from app.own_command import run_again
from app.people.sessions import create_link
from app.registers.applying.counts import NAMES
from app.registers.attempts import Attempt
from app.registers.demo import SAMPLE_PLATES, SEED, fleet_policies, write_file, write_files
from app.registers.dropped import kept
from app.registers.history import REPLACE, RegisterLoad
from app.registers.holds import Hold, note_hold
from app.registers.load import load
from app.registers.request import LoadRequest
from app.registers.rules import RulesBroken
from app.serve import listening, service_lock
from app.settings.roles import Role
from app.storage.engine import Engine
from app.storage.file_lock import hold_until_exit, make_directory
from app.storage.registers import Register
from app.storage.session import opened_database, require_owner
from app.storage.versions import tells_unknown

commands = Group()
_ACCOUNT = "demo"
_LIMITED = "demo-limited"
"""The account to try 429 with, and its plan: the other one must not use the limit up."""
_LIMITED_REQUESTS, _LIMITED_SECONDS = 5, 10
"""The limit of that plan."""
_SANDBOX = "demo-sandbox"
"""The account to test programs with, and its plan."""
_ACCOUNTS = (_ACCOUNT, _LIMITED, _SANDBOX)
_REGISTER = "demo"
_HELD, _STALE = "demo_fleet", "demo_rentals"
"""The register with a load that waits for a decision, and the one that nobody loads any more."""
_HELD_SEED, _STALE_SEED = SEED + 1, SEED + 2
_HELD_CARS, _LEFT_CARS, _STALE_CARS = 60, 12, 40
"""How many cars these registers have, and how many of the first the held load would leave."""
_STALE_SECONDS = 30 * 86_400
"""How long ago that register was loaded, as far as it says."""
_PEOPLE = {"demo": Role.OPERATOR, "demo-clerk": Role.CLERK}
"""The people whom links of the console sign in."""
_LABEL = "demo"
_DOMAINS = ("example.com", "fleet.example.org")
_WATCHES_MAX = 1_000
_LOCK = "demo"
_ACCESS_LOG = "access.log"
_PAUSE_SECONDS = 0.1
_RUNNING = (
    "the demo is running already; nothing was changed. Its key is shown in the terminal where it "
    "was started; press Ctrl-C there to stop it"
)


class _Keys(NamedTuple):
    """The keys of the demo, or the shell variables that hold them."""

    key: str
    limited_key: str
    """The key of the account with few requests."""
    sandbox_key: str


_VARIABLES = _Keys("$KEY", "$LIMITED_KEY", "$SANDBOX_KEY")


class _Step(NamedTuple):
    """One request to try, and a sentence about its answer."""

    shows: str
    path: str
    body: str | None = None
    times: int = 1
    """If more than once, the key is the limited one, and only the headers of limits are shown."""
    is_sandbox: bool = False
    is_of_unknown: bool = False
    """Whether it shows that answers tell what is not known (D198)."""


_LIMIT_SHOWN = "grep -iE '^(HTTP|Retry-After)'"
_INSURED, _LAPSED, _UNKNOWN = (
    SAMPLE_PLATES["compliant"],
    SAMPLE_PLATES["lapsed"],
    SAMPLE_PLATES["unknown"],
)
_LAPSED_STEP = _Step("not insured: the policy has lapsed", f"/v1/vehicle/{_LAPSED}/insurance")
_STEPS = (
    _Step("insured: a policy is in force", f"/v1/vehicle/{_INSURED}/insurance"),
    _LAPSED_STEP,
    _Step("404: no register knows this plate", f"/v1/vehicle/{_UNKNOWN}/insurance"),
    _Step(
        "three at once, one of them in no register",
        "/v1/vehicle/bulk-insurance",
        f'{{"registrations": ["{_INSURED}", "{_LAPSED}", "{_UNKNOWN}"]}}',
    ),
    _Step(
        "not road-legal: off the road, SORN", f"/v1/compliance/{SAMPLE_PLATES['sorn']}?explain=true"
    ),
    _Step(
        "not known: no register knows an MOT",
        f"/v1/compliance/{SAMPLE_PLATES['mot_unknown']}?explain=true",
        is_of_unknown=True,
    ),
    _Step("the domains of the account", "/api/domains"),
    _Step(
        "201: a new domain, or 409 if it exists already",
        "/api/domains",
        '{"name": "new.example.com"}',
    ),
    _Step(
        f"429 with Retry-After: {_LIMITED_REQUESTS + 1} requests, where {_LIMITED_REQUESTS} in "
        f"{_LIMITED_SECONDS} seconds are allowed",
        "/v1/account",
        times=_LIMITED_REQUESTS + 1,
    ),
    _Step(
        "sandbox: invented answers for tests, 500 here", "/v1/compliance/TEST500", is_sandbox=True
    ),
)
"""The requests to try. In zsh a comment is a command, so `shows` has nothing special to a shell."""


@commands.command(
    "demo",
    "fill an empty database with invented vehicles to try the service",
    flag("--serve", "serve the demo until Ctrl-C, as make run does"),
    examples=["demo", "demo --serve", "demo --json"],
)
def _demo(args: argparse.Namespace) -> None:
    config = Config.from_env()
    access_log = claim(config) if args.serve else None
    with opened_database(create=True, check_schema=False) as engine:
        migrate_installation(engine)
        _require_demo_or_empty(engine)
        loaded = _load_register(engine, config)
        _ensure_held_load(engine, config)
        _ensure_stale_register(engine, config)
        _ensure_account(engine)
        _ensure_limited_account(engine)
        _ensure_sandbox(engine)
        replaced = sum(_revoke_keys(engine, each) for each in _ACCOUNTS)
        keys = _Keys(*(create_key(engine, each, _LABEL)[1].text for each in _ACCOUNTS))
        tells = tells_unknown(engine)
        links = {}
        if args.serve and config.console:
            for name, role in _PEOPLE.items():
                links[role] = link_url(config, create_link(engine, name, role))
    is_complete = _REGISTER in config.complete_registers
    steps = _steps(tells=tells, is_complete=is_complete)
    members = {
        "account": _ACCOUNT,
        "key": keys.key,
        "rows": loaded,
        "curl": [_curl(config.bind, keys, step) for step in steps],
        "limitedAccount": _LIMITED,
        "limitedKey": keys.limited_key,
        "sandboxAccount": _SANDBOX,
        "sandboxKey": keys.sandbox_key,
    }
    text = [f"Loaded {loaded:,} rows of demo vehicles, policies and fines."]
    if replaced:
        text.append("What you loaded or created is kept. The keys below are new,")
        text.append("and those of the last run are revoked.")
    if tells and not is_complete:
        variable = SETTINGS["complete_registers"].variable
        text.append(f"With {variable}={_REGISTER} answers say who has no policy:")
        text.append("without it, that is not known.")
    text.extend(_lines(config, keys, steps, is_served=args.serve))
    opened = "" if args.json else _links(config, access_log, links)

    def show() -> None:
        print_item(args, members, text="\n".join(text).split("\n"))
        print(opened, end="")

    if access_log is None:
        show()
    else:
        _serve(access_log, show)


def _steps(*, tells: bool, is_complete: bool) -> list[_Step]:
    """Return the requests to try.

    Args:
        tells: whether answers tell what is not known (D198).
        is_complete: whether the absence of a policy counts.
    """
    steps = [step for step in _STEPS if tells or not step.is_of_unknown]
    if tells and not is_complete:
        at = steps.index(_LAPSED_STEP)
        steps[at] = _LAPSED_STEP._replace(
            shows="not known: the policy has lapsed, and there may be another one"
        )
    return steps


def _require_demo_or_empty(engine: Engine) -> None:
    """Refuse a database of real data: no real request may get an invented vehicle.

    A database with the demo's register is the demo's, even if other registers were loaded.
    """
    if Register.select().where(Register.name == _REGISTER).exists(engine):
        return
    names = [account.name for account in list_accounts(engine)]
    if not set(_ACCOUNTS).issuperset(names) or Register.select().exists(engine):
        raise OperatorError(
            "this database has real accounts or registers; the demo needs a database of its own: "
            "set VERIFYD_DATABASE_URL to another file"
        )


def _ensure_account(engine: Engine) -> None:
    """Create the account and its domains, as far as they are missing, and allow it watches."""
    account = _account_named(engine, _ACCOUNT)
    plan = require_plan(engine, account.plan_id)
    if not plan.watches_max:
        limits = {name: getattr(plan, name) for name in PLAN_LIMITS}
        set_plan(engine, plan.name, limits | {"watches_max": _WATCHES_MAX})
    domains = Domains(engine)
    for name in _DOMAINS:
        if domains.find_domain(account.id, name) is None:
            # Others may have been created and deleted meanwhile.
            domains_max = domains.count_domains(account.id) + 1
            domains.create_domain(account.id, name, domains_max)


def _ensure_limited_account(engine: Engine) -> None:
    """Create the account whose limit is soon used up, and put it on its plan."""
    set_plan(
        engine,
        _LIMITED,
        {
            "requests": _LIMITED_REQUESTS,
            "window_seconds": _LIMITED_SECONDS,
            "bulk_max": 100,
            "domains_max": 10,
        },
    )
    _account_named(engine, _LIMITED)
    set_account_plan(engine, _LIMITED, _LIMITED)


def _ensure_sandbox(engine: Engine) -> None:
    """Create the account whose answers are invented, on a plan of its own."""
    limits = {"requests": 6_000, "window_seconds": 60, "bulk_max": 1_000, "domains_max": 100}
    limits["watches_max"] = _WATCHES_MAX
    set_plan(engine, _SANDBOX, limits, enquiry="optional", suggest="on", sandbox="on")
    _account_named(engine, _SANDBOX, _SANDBOX)


def _account_named(engine: Engine, name: str, plan: str = DEFAULT_PLAN) -> Account:
    """Return an account, which is created on the plan if it is missing."""
    if all(account.name != name for account in list_accounts(engine)):
        create_account(engine, name, plan)
    return require_account(engine, name)


def _load_register(engine: Engine, config: Config) -> int:
    """Replace the register by vehicles whose policies fit today; return the number of rows.

    A load that fails leaves the register as it was.
    """
    with tempfile.TemporaryDirectory() as directory:
        paths = write_files(Path(directory), clock.today(config.timezone))
        requests = [_request(_REGISTER, path, allow_loss=NAMES) for path in paths]
        return sum(_load(engine, config, request) for request in requests)


def _load(engine: Engine, config: Config, request: LoadRequest) -> int:
    return load(engine, config.data_dir, request, lambda _: None).loaded


def _request(register: str, path: Path, *, allow_loss: Sequence[str] = ()) -> LoadRequest:
    """Return the request to replace the rows of one kind of a register."""
    return LoadRequest(
        files=[str(path)],
        register=register,
        mode=REPLACE,
        allow_shrink=bool(allow_loss),
        allow_loss=allow_loss,
        keep_snapshots=0,
        actor=actions.of_command(),
    )


def _ensure_held_load(engine: Engine, config: Config) -> None:
    """Let a load wait for a decision, as in the drop directory, unless there was one before."""
    is_held = (RegisterLoad.register == _HELD) & RegisterLoad.hold.is_null(False)
    if RegisterLoad.select().where(is_held).exists(engine):
        return
    drop = config.data_dir.absolute() / "drop"
    kept.remember(config.data_dir, drop)
    place = drop / _HELD / kept.FAILED
    place.mkdir(parents=True, exist_ok=True)
    policies = fleet_policies(clock.today(config.timezone), _HELD_SEED, _HELD_CARS)
    path = write_file(place / "policies.csv", policies)
    request = _request(_HELD, path)
    _load(engine, config, request)
    write_file(path, policies[:_LEFT_CARS])
    attempt = Attempt(request)
    try:
        with printed_by_command():
            load(engine, config.data_dir, request, lambda _: None, attempt)
    except RulesBroken as error:
        hold = Hold(str(drop), [_HELD], [path.name], [], [])
        note_hold(engine, attempt.load_id or 0, hold, error.broken)


def _ensure_stale_register(engine: Engine, config: Config) -> None:
    """Load a register that seems to be old, unless it was there before."""
    if RegisterLoad.select().where(RegisterLoad.register == _STALE).exists(engine):
        return
    today = clock.today(config.timezone)
    with tempfile.TemporaryDirectory() as directory:
        policies = fleet_policies(today, _STALE_SEED, _STALE_CARS)
        path = write_file(Path(directory) / "policies.csv", policies)
        _load(engine, config, _request(_STALE, path))
    with engine.atomic():
        at = clock.now() - _STALE_SECONDS
        Register.update(loaded_at=at).where(Register.name == _STALE).execute(engine)
        is_it = RegisterLoad.register == _STALE
        RegisterLoad.update(started_at=at, finished_at=at).where(is_it).execute(engine)


def _revoke_keys(engine: Engine, account: str) -> int:
    """Revoke the keys of earlier runs, which cannot be shown again; return their number."""
    keys = [key for key in list_keys(engine, account) if key.label == _LABEL]
    for key in keys:
        revoke_key(engine, key.id)
    return len(keys)


def claim(config: Config) -> Path:
    """Make sure that this process alone may serve the demo; return the path of its access log.

    Nothing is created if the demo is running already, or if another program uses the address: a
    second run must not revoke the key of the first.
    Raises OperatorError with what to do.
    """
    try:
        require_owner(config)
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


def _serve(access_log: Path, show: Callable[[], None]) -> None:
    """Serve until Ctrl-C or TERM.

    The terminal gets warnings and errors only: JSON lines bury what a person reads.

    Args:
        show: prints what to try, as soon as the demo answers: above an error it would scroll away.
    """
    # NOTE: not before now is the directory certainly a demo's.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(access_log, flags, 0o640)
    terminal = os.dup(1)
    os.dup2(descriptor, 1)
    os.close(descriptor)

    def announce() -> None:
        with (
            suppress(OSError),
            open(terminal, "w", encoding="utf-8") as stdout,
            redirect_stdout(stdout),
        ):
            show()

    # NOTE: this module is gunicorn's configuration; importing it reads the environment.
    from app.server import serve as serve_forever  # noqa: PLC0415

    try:
        serve_forever(is_quiet=True, announce=announce)
    except Exception:
        os.dup2(terminal, 1)  # With --json, the reason is a document on stdout.
        raise


def _is_running(state_dir: Path) -> bool:
    """Tell whether a service of this database is running. Workers of a killed one end soon."""
    deadline_ns = clock.monotonic_ns() + listening.LAST_REQUESTS_NS
    while service_lock.is_running(state_dir):
        if clock.monotonic_ns() > deadline_ns:
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def _curl(bind: str, keys: _Keys, step: _Step) -> str:
    """Return a command for a shell, to use while the demo is served."""
    is_single = step.times == 1
    key = keys.sandbox_key if step.is_sandbox else keys.key if is_single else keys.limited_key
    arguments = ["curl -sS -w '\\n'" if is_single else "curl -sSI"]
    if bind.startswith("unix:"):
        arguments.append(f"--unix-socket {shlex.quote(bind.removeprefix('unix:'))}")
    arguments.append(f'-H "X-API-Key: {key}"')
    if step.body is not None:
        arguments.append(f"-H 'Content-Type: application/json' -d '{step.body}'")
    if is_single:
        arguments.append(shlex.quote(base_url(bind) + step.path))
    else:
        # curl sends a request for each number in brackets, without the part after the #.
        arguments.append(f"'{base_url(bind)}{step.path}#[1-{step.times}]' | {_LIMIT_SHOWN}")
    return " ".join(arguments)


def _lines(
    config: Config, keys: _Keys, steps: Iterable[_Step], *, is_served: bool
) -> Iterator[str]:
    """Yield how to use the demo.

    Args:
        steps: the requests to try.
        is_served: whether this process is about to serve the demo.
    """
    exports, program = run_again(config)
    if not is_served:
        yield from ("", "Serve the demo:", "", *exports, f"{program} serve")
    yield "\nPaste these lines into another terminal, one by one or all at once:\n"
    yield from (f"export KEY={keys.key}", f"export LIMITED_KEY={keys.limited_key}")
    yield from (f"export SANDBOX_KEY={keys.sandbox_key}", *exports, "")
    for step in steps:
        yield f"# {step.shows}\n{_curl(config.bind, _VARIABLES, step)}\n"
    yield "# load a file of your own: remove the # and write its name instead of FILE"
    yield f"# {program} import FILE\n"
    yield "# if its columns have other names: print a mapping, which says how to use it"
    yield f"# {program} import --suggest-map FILE\n"


def _links(config: Config, access_log: Path | None, links: Mapping[Role, str]) -> str:
    """Return lines with the addresses that work while the demo is served.

    Args:
        access_log: the file of the access log, if this process is about to serve the demo.
        links: those that open the console, if it is on.
    """
    url = base_url(config.bind)
    lines = [f"Documentation  {url}/docs"]
    if links:
        lines += [
            f"Console        {links[Role.OPERATOR]}",
            f"               as an operator; {_HELD} has a load to decide about, {_STALE} is stale",
            f"For a clerk    {links[Role.CLERK]}",
            f"               in a private window; try {_INSURED}, {_LAPSED} and {_UNKNOWN}",
            "               Links work once, for ten minutes. For another, in the other terminal:",
            f"               {run_again(config)[1]} console link --as ann --role operator",
        ]
    if access_log is not None:
        lines += [
            f"Access log     {access_log if config.access_log else 'off'}",
            f"The demo answers at {url} until you press Ctrl-C here, or: kill {os.getpid()}",
        ]
    return "".join(f"{line}\n" for line in lines)
