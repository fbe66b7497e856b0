"""`verifyd demo`: create a demo register, accounts, domains and keys; serve them (D42, D122)."""

import argparse
import sys
import tempfile
from pathlib import Path

from app import actions, clock
from app.accounts.administration import (
    create_account,
    create_key,
    list_accounts,
    list_keys,
    require_account,
    revoke_key,
    set_account_plan,
    set_plan,
)
from app.accounts.models import Account
from app.cli import demo_service
from app.cli.console import link_url
from app.cli.demo_service import (
    DOMAINS,
    LIMITED_REQUESTS,
    LIMITED_SECONDS,
    STEPS,
    Keys,
    curl,
    links,
    print_lines,
)
from app.cli.output import print_item
from app.cli.parser import Commands, add_command
from app.config import Config
from app.console.roles import Role
from app.console.sessions import create_link
from app.domains.repository import Domains
from app.errors import OperatorError
from app.registers.applying.counts import NAMES
from app.registers.demo import write_files
from app.registers.history import REPLACE
from app.registers.load import load
from app.registers.request import LoadRequest
from app.storage.engine import Engine
from app.storage.registers import Register
from app.storage.session import opened_database
from app.storage.stores import migrate

_ACCOUNT = "demo"
_LIMITED = "demo-limited"
"""The account to try 429 with, and its plan (D122)."""
_REGISTER = "demo"
_LABEL = "demo"


def add_commands(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "demo",
        _demo,
        "fill an empty database with invented vehicles to try the service",
        examples=["demo", "demo --serve", "demo --json"],
    )
    command.add_argument(
        "--serve", action="store_true", help="serve the demo until Ctrl-C, as make run does"
    )


def _demo(args: argparse.Namespace) -> None:
    config = Config.from_env()
    access_log = demo_service.claim(config) if args.serve else None
    with opened_database(create=True, check_schema=False) as engine:
        migrate(engine)
        _require_demo_or_empty(engine)
        loaded = _load_register(engine, config)
        _ensure_account(engine)
        _ensure_limited_account(engine)
        replaced = _revoke_keys(engine, _ACCOUNT) + _revoke_keys(engine, _LIMITED)
        keys = Keys(_create_key(engine, _ACCOUNT), _create_key(engine, _LIMITED))
        console = _console_link(engine, config) if args.serve else None
    if args.json:
        lines = [curl(config.bind, keys, step) for step in STEPS]
        made = {"account": _ACCOUNT, "key": keys.key, "rows": loaded, "curl": lines}
        print_item(args, made | {"limitedAccount": _LIMITED, "limitedKey": keys.limited_key})
    else:
        print(f"Loaded {loaded:,} rows of demo vehicles, policies and fines.")
        if replaced:
            print("What you loaded or created is kept. The keys below are new,")
            print("and those of the last run are revoked.")
        print_lines(config, keys, is_served=args.serve)
    opened = "" if args.json else links(config, access_log, console)
    if access_log is None:
        print(opened, end="")
    else:
        sys.stdout.flush()
        demo_service.serve(access_log, opened)


def _require_demo_or_empty(engine: Engine) -> None:
    """Refuse a database of real data: no real request may get an invented vehicle (D42).

    A database with the demo's register is the demo's, whatever else was loaded into it.
    """
    if Register.select().where(Register.name == _REGISTER).exists(engine):
        return
    names = [account.name for account in list_accounts(engine)]
    if not {_ACCOUNT, _LIMITED}.issuperset(names) or Register.select().exists(engine):
        raise OperatorError(
            "this database has real accounts or registers; the demo needs a database of its own: "
            "set VERIFYD_DATABASE_URL to another file"
        )


def _ensure_account(engine: Engine) -> None:
    """Create the account and its domains, as far as they are missing."""
    account = _account_named(engine, _ACCOUNT)
    domains = Domains(engine)
    for name in DOMAINS:
        if domains.find_domain(account.id, name) is None:
            # Others may have been created and deleted meanwhile.
            domains_max = domains.count_domains(account.id) + 1
            domains.create_domain(account.id, name, domains_max)


def _ensure_limited_account(engine: Engine) -> None:
    """Create the account whose limit is soon used up, and put it on its plan."""
    set_plan(
        engine,
        _LIMITED,
        requests=LIMITED_REQUESTS,
        window_seconds=LIMITED_SECONDS,
        bulk_max=100,
        domains_max=10,
    )
    _account_named(engine, _LIMITED)
    set_account_plan(engine, _LIMITED, _LIMITED)


def _account_named(engine: Engine, name: str) -> Account:
    """Return an account, which is created if it is missing."""
    if all(account.name != name for account in list_accounts(engine)):
        create_account(engine, name)
    return require_account(engine, name)


def _load_register(engine: Engine, config: Config) -> int:
    """Load the vehicles of today; whatever an earlier day's policies were, they are gone.

    A load that fails leaves the register as it was.
    """
    loaded = 0
    with tempfile.TemporaryDirectory() as directory:
        for path in write_files(Path(directory), clock.today(config.timezone)):
            request = LoadRequest(
                files=[str(path)],
                register=_REGISTER,
                mode=REPLACE,
                allow_shrink=True,
                allow_loss=NAMES,
                keep_snapshots=0,
                actor=actions.of_command(),
            )
            loaded += load(engine, config.data_dir, request, lambda _: None).loaded
    return loaded


def _create_key(engine: Engine, account: str) -> str:
    return create_key(engine, account, label=_LABEL)[1].text


def _console_link(engine: Engine, config: Config) -> str | None:
    """Return a link that opens the console; None if the console is off."""
    if not config.console:
        return None
    return link_url(config, create_link(engine, _ACCOUNT, Role.OPERATOR))


def _revoke_keys(engine: Engine, account: str) -> int:
    """Revoke the keys of earlier runs, which nobody can show again; return how many there were."""
    keys = [key for key in list_keys(engine, account) if key.label == _LABEL]
    for key in keys:
        revoke_key(engine, key.id)
    return len(keys)
