"""`verifyd serve`, `check` and `migrate`."""

import argparse
import os
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import peewee

from app.accounts.administration import list_accounts
from app.cli.output import print_item
from app.cli.parser import Commands, add_command
from app.cli.readiness import unreadiness
from app.cli.session import opened_database
from app.config import SETTINGS, Config, sqlite_path
from app.errors import OperatorError
from app.operations import listening
from app.operations.conditions.gathered import gathered
from app.operations.notices.senders import obstacle
from app.storage import reserve
from app.storage.engine import Engine, message_of
from app.storage.postgres import PostgresEngine
from app.storage.registers import find_unreadable
from app.storage.schema import migrate, pending_migrations, versions


def add_commands(commands: Commands) -> None:
    """Add the three commands."""
    summary = "serve until told to stop"
    add_command(commands, "serve", _serve, summary, prints_data=False, is_job=True)
    check = add_command(
        commands, "check", _check, "report everything wrong with settings and database at once"
    )
    check.add_argument(
        "--ready",
        metavar="ADDRESS",
        type=_address,
        help="wait until a service is ready there, too: ADDRESS:PORT or unix:/PATH",
    )
    migrated = add_command(
        commands, "migrate", _migrate, "create the database, or bring it up to date"
    )
    migrated.add_argument(
        "--status", action="store_true", help="tell what would be done; change nothing"
    )


def _serve(_args: argparse.Namespace) -> None:
    with opened_database(check_schema=False):
        pass  # The settings are right, the file is there, and it is ours (D27).
    # NOTE: that module is gunicorn's configuration: it reads the environment when imported.
    from app.server import serve  # noqa: PLC0415

    serve()


def _check(args: argparse.Namespace) -> None:
    config, faults = Config.read()
    told = {fault.partition(":")[0] for fault in faults}
    warnings: list[str] = []
    faults += [fault for fault in _faults(config, warnings) if fault.partition(":")[0] not in told]
    if args.ready:
        faults += unreadiness(args.ready)
    if args.json:
        print_item(args, {"ok": not faults, "faults": faults, "warnings": warnings})
    elif not faults:
        print("all settings are right; the database can be used")
        for warning in warnings:
            print(f"warning: {warning}")
    if faults:
        raise OperatorError("\n".join(faults))


def _unknown_accounts(engine: Engine, config: Config) -> list[str]:
    """Return a warning for each account that may read the metrics (D80), but does not exist."""
    known = {account.name for account in list_accounts(engine)}
    return [
        f"{SETTINGS['metrics_accounts'].variable} names {name}: there is no such account"
        for name in sorted(set(config.metrics_accounts) - known)
    ]


def _faults(config: Config, warnings: list[str]) -> list[str]:
    """Return what is wrong beyond the settings' texts: files, rights, schema.

    What look-ups do without is added to `warnings` (D76).
    """
    faults = []
    try:
        with opened_database(config, check_schema=False) as engine:
            found = reserve.written(engine, partial(versions, engine))
            refusal = found.refusal()
            missing = None if refusal else find_unreadable(engine)
            if isinstance(engine, PostgresEngine):
                faults += _missing_rights(engine)
            if not refusal and not missing:
                warnings += [each.warning for each in gathered(engine, config).conditions]
                warnings += _unknown_accounts(engine, config)
        # `serve` migrates an older database by itself (D39).
        if refusal and not (found.can_migrate and found.database):
            raise OperatorError(refusal)
        if missing:
            raise OperatorError(
                f"the register {missing.name} cannot be read: "
                "restore it, or drop it and load it again"
            )
    except (OperatorError, peewee.PeeweeException, OSError) as error:
        faults.append(f"{SETTINGS['database_url'].variable}: {message_of(error)}")
    database = sqlite_path(config.database_url)
    # Below a directory that is closed to us Path.exists() would raise.
    if database and os.path.exists(database):
        if not os.access(database, os.W_OK):
            faults.append(f"{SETTINGS['database_url'].variable}: {database} cannot be written to")
        faults += _unwritable("database_url", database.absolute().parent)
    faults += _unwritable("state_dir", _nearest_existing(config.state_dir))
    if config.bind.startswith("unix:"):
        faults += _unwritable("bind", Path(config.bind.removeprefix("unix:")).parent)
    # Look-ups can do without it: no reason not to serve (D58).
    unwritable = chain.from_iterable(
        _unwritable("data_dir", directory) for directory in _written_directories(config)
    )
    warnings += [f"{each}, so rejects and alerts are lost." for each in dict.fromkeys(unwritable)]
    obstacles = (obstacle(each, config.notify_secret) for each in config.notify)
    warnings += [f"{SETTINGS['notify'].variable} {each}." for each in obstacles if each]
    group_fault = listening.group_fault(config)
    return [*faults, group_fault] if group_fault else faults


def _missing_rights(engine: PostgresEngine) -> list[str]:
    query = (
        "SELECT current_setting('transaction_read_only') = 'on', "
        "has_database_privilege(current_database(), 'CREATE'), current_user"
    )
    is_read_only, may_create, role = engine.execute_sql(query).fetchone()
    faults = []
    if is_read_only:
        faults.append(
            "the server may only be read: name the primary, or all servers with "
            "target_session_attrs=read-write"
        )
    if not may_create:
        faults.append(
            f"no register can be loaded: {role} may not create schemas in the database, "
            "GRANT CREATE ON DATABASE lets it"
        )
    return [f"{SETTINGS['database_url'].variable}: {fault}" for fault in faults]


def _unwritable(name: str, folder: Path) -> list[str]:
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return []
    return [f"{SETTINGS[name].variable}: {folder} cannot be written to"]


def _written_directories(config: Config) -> Iterator[Path]:
    """Yield where rejects files and alerts are written, or the directories they are made in."""
    for parts in ((), ("rejects",), ("notices",), ("notices", "queue")):
        yield _nearest_existing(config.data_dir.joinpath(*parts))


def _nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return path if os.path.exists(path) else _nearest_existing(path.parent)


def _address(text: str) -> str:
    try:
        return str(SETTINGS["bind"].parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _migrate(args: argparse.Namespace) -> None:
    if args.status:
        _migration_status(args)
        return
    with opened_database(create=True, check_schema=False) as engine:
        applied = migrate(engine)
        found = versions(engine)
        reserve.fill(engine)
    if args.json:
        print_item(args, {"applied": applied, "schema": found.database})
        return
    for script in applied:
        print(f"applied {script}")
    print(f"the database is at schema {found.database}")


def _migration_status(args: argparse.Namespace) -> None:
    with opened_database(check_schema=False) as engine:
        found = versions(engine)
        pending = pending_migrations(engine)
    if args.json:
        print_item(args, found._asdict() | {"pending": pending})
        return
    print(f"the database is at schema {found.database}, this program at {found.program}")
    for script in pending:
        print(f"pending {script}")
    if not pending:
        print("nothing is pending")
