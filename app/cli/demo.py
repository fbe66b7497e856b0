"""`verifyd demo`: create a demo register, an account, two domains, a key, and print curl lines."""

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

from app import clock
from app.accounts.administration import (
    create_account,
    create_key,
    list_accounts,
    list_keys,
    require_account,
    revoke_key,
)
from app.accounts.models import Account
from app.cli.output import print_item
from app.cli.parser import Commands, add_command
from app.cli.session import opened_database
from app.config import Config
from app.domains.repository import Domains
from app.errors import OperatorError
from app.registers.demo import CAST, write_files
from app.registers.load import load
from app.registers.request import LoadRequest
from app.registers.undo import purge_register
from app.storage.engine import Engine
from app.storage.registers import Register
from app.storage.schema import migrate

_ACCOUNT = "demo"
_REGISTER = "demo"
_DOMAINS = ("example.com", "fleet.example.org")


class Step(NamedTuple):
    """One request to try, and what it shows."""

    shows: str
    method: str
    path: str
    body: str | None = None


def add_commands(commands: Commands) -> None:
    """Add the command."""
    add_command(
        commands,
        "demo",
        _demo,
        "fill an empty database with invented vehicles to try the service",
        examples=["demo", "demo --json"],
    )


def _demo(args: argparse.Namespace) -> None:
    config = Config.from_env()
    with opened_database(create=True, check_schema=False) as engine:
        migrate(engine)
        _require_no_others(engine)
        account = _ensure_account(engine)
        loaded = _load_register(engine, config)
        key = _new_key(engine, account)
    lines = [_curl(config.bind, key, step) for step in _STEPS]
    if args.json:
        print_item(args, {"account": _ACCOUNT, "key": key, "rows": loaded, "curl": lines})
        return
    print(f"Loaded {loaded:,} rows of demo vehicles, policies and fines.\n\nAPI key: {key}\n")
    for step, line in zip(_STEPS, lines, strict=True):
        print(f"# {step.shows}\n{line}\n")


def _require_no_others(engine: Engine) -> None:
    # A real request must never be answered with invented vehicles.
    names = [account.name for account in list_accounts(engine)]
    registers = Register.select(Register.name).where(Register.name != _REGISTER)
    if names not in ([], [_ACCOUNT]) or registers.exists(engine):
        raise OperatorError(
            "this database has real accounts or registers; the demo needs a database of its own: "
            "set VERIFYD_DATABASE_URL to another file"
        )


def _ensure_account(engine: Engine) -> Account:
    if not list_accounts(engine):
        create_account(engine, _ACCOUNT)
    account = require_account(engine, _ACCOUNT)
    domains = Domains(engine)
    for name in _DOMAINS:
        if domains.find_domain(account.id, name) is None:
            domains.create_domain(account.id, name, len(_DOMAINS))
    return account


def _load_register(engine: Engine, config: Config) -> int:
    loaded = 0
    # The policies of an earlier day may have expired.
    if Register.select().where(Register.name == _REGISTER).exists(engine):
        purge_register(engine, _REGISTER)
    with tempfile.TemporaryDirectory() as directory:
        for path in write_files(Path(directory), clock.today(config.timezone)):
            request = LoadRequest(files=[str(path)], register=_REGISTER)
            loaded += load(engine, config.data_dir, request, lambda _: None).loaded
    return loaded


def _new_key(engine: Engine, account: Account) -> str:
    """Create a key, and revoke those of earlier runs, which nobody can show again."""
    for key in list_keys(engine, account.name):
        revoke_key(engine, key.id)
    return create_key(engine, account.name, label="demo")[1].text


def _plate(path: str, part: str) -> str:
    return path.format(CAST[part])


_INSURANCE = "/v1/vehicle/{}/insurance"
_COMPLIANCE = "/v1/compliance/{}?explain=true"
_STEPS = (
    Step("insured: a policy is in force", "GET", _plate(_INSURANCE, "compliant")),
    Step("not insured: the policy has lapsed", "GET", _plate(_INSURANCE, "lapsed")),
    Step("404: no register knows this plate", "GET", _plate(_INSURANCE, "unknown")),
    Step("road-legal: all four checks hold", "GET", _plate(_COMPLIANCE, "compliant")),
    Step("not compliant: off the road (SORN)", "GET", _plate(_COMPLIANCE, "sorn")),
    Step("not compliant: a fine is owed", "GET", _plate(_COMPLIANCE, "fined")),
    Step(
        "three at once; one of them is unknown",
        "POST",
        "/v1/vehicle/bulk-insurance",
        '{{"registrations": ["{}", "{}", "{}"]}}'.format(
            *(CAST[part] for part in ("compliant", "lapsed", "unknown"))
        ),
    ),
    Step("the account's domains", "GET", "/api/domains"),
    Step("one domain", "GET", f"/api/domains/{_DOMAINS[0]}"),
    Step(
        "201: a new domain; 409 when it is there already",
        "POST",
        "/api/domains",
        '{"name": "new.example.com"}',
    ),
)


def _curl(bind: str, key: str, step: Step) -> str:
    """Return a command to paste into a shell while `verifyd serve` runs."""
    arguments = ["curl -s"]
    if bind.startswith("unix:"):
        arguments.append(f"--unix-socket '{bind.removeprefix('unix:')}'")
        bind = "localhost"
    address, _, port = bind.rpartition(":")
    if address in ("0.0.0.0", "[::]"):  # noqa: S104 - read, not bound
        bind = f"127.0.0.1:{port}"
    arguments.append(f"-H 'Authorization: Bearer {key}'")
    if step.body is not None:
        arguments.append(f"-H 'Content-Type: application/json' -d '{step.body}'")
    arguments.append(f"'http://{bind}{step.path}'")
    return " ".join(arguments)
