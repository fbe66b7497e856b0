"""`verifyd serve`, `check` and `migrate`."""

import argparse
import http.client
import socket
import time
from functools import partial
from typing import NamedTuple

import peewee

from app import clock
from app.alerts.conditions import REFUSED, gathered
from app.alerts.delivery import obstacle
from app.audit.state import AuditState, audit_state, owner_fault
from app.cli.output import counted, print_item, waiting_for
from app.cli.parser import Commands, add_command
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.monitoring.directories import (
    audit_warnings,
    data_warnings,
    directory_faults,
    setting_fault,
    socket_faults,
    unknown_accounts,
)
from app.serve import listening
from app.setting_values import socket_address
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.registers import find_unreadable
from app.storage.session import opened_database
from app.storage.stores import migrate, pending_migrations
from app.storage.versions import Versions, versions

# What `verifyd check` finds: faults, which keep the service from running well, and warnings.


class Findings(NamedTuple):
    """A sentence for each fault, and for each condition that does not affect look-ups (D76)."""

    faults: list[str]
    warnings: list[str]
    audit: AuditState | None
    """The state of the audit trail; None if the database cannot be used."""


def findings(config: Config) -> Findings:
    """Return what is wrong with the database, the directories and the destinations of alerts.

    The values of the settings are checked when the Config is made.
    """
    faults, warnings, audit = _database_findings(config)
    faults += [*directory_faults(config), *socket_faults(config)]
    # Look-ups do not need these directories, so the service can run (D58).
    warnings += data_warnings(config)
    warnings += audit_warnings(config)
    obstacles = (obstacle(each, config.notify_secret) for each in config.notify)
    warnings += [f"{SETTINGS['notify'].variable} {each}." for each in obstacles if each]
    binds = (config.bind, config.console_bind)
    found = [listening.group_fault(config, each) for each in binds]
    found.append(listening.console_fault(config, listening.chosen_by_systemd(config)))
    faults += dict.fromkeys(filter(None, found))
    warnings += filter(None, [listening.console_warning(config)])
    return Findings(faults, warnings, audit)


def _database_findings(config: Config) -> Findings:
    faults: list[str] = []
    warnings: list[str] = []
    audit: AuditState | None = None
    try:
        with opened_database(config, check_schema=False) as engine:
            found = reserve.with_reserve(engine, partial(versions, engine))
            variable = SETTINGS["database_url"].variable
            faults += [f"{variable}: {right}" for right in engine.missing_rights()]
            _require_readable(engine, found)
            if found.refusal() is None:
                audit = audit_state(engine, config)
                conditions = gathered(engine, config).conditions
                warnings += [each.warning for each in conditions if each.key != REFUSED]
                warnings += unknown_accounts(engine, config)
                # NOTE: a full disk is no fault. The service must start, and wait for room.
                if config.audit and (fault := owner_fault(engine, config)):
                    faults.append(setting_fault("audit_dir", fault))
    except (OperatorError, peewee.PeeweeException, OSError) as error:
        faults.append(setting_fault("database_url", message_of(error)))
    return Findings(faults, warnings, audit)


def _require_readable(engine: Engine, found: Versions) -> None:
    """Raise OperatorError if `serve` could not read the database or a register."""
    refusal = found.refusal()
    if refusal is not None:
        # `serve` migrates an older database by itself (D39).
        if found.can_migrate and found.database:
            return
        raise OperatorError(refusal)
    missing = find_unreadable(engine)
    if missing is not None:
        raise OperatorError(
            f"the register {missing.name} cannot be read: restore it, or drop it and load it again"
        )


# Ask a service whether it is ready, as a client does (`verifyd check --ready`).

DEADLINE_SECONDS = 30
_ANSWER_SECONDS = 5
_PAUSE_SECONDS = 0.2


def unreadiness(address: str) -> list[str]:
    """Wait until /readyz answers 200. Return no sentence, or after 30 s one that says why not.

    Args:
        address: `ADDRESS:PORT` or `unix:/PATH`.
    """
    deadline = clock.monotonic_ns() + DEADLINE_SECONDS * 1_000_000_000
    while fault := _fault(address):
        if clock.monotonic_ns() > deadline:
            return [f"the service at {address} is not ready: {fault}"]
        time.sleep(_PAUSE_SECONDS)
    return []


def _fault(address: str) -> str | None:
    family, target = socket_address(address)
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(family)
    connection.sock.settimeout(_ANSWER_SECONDS)
    try:
        connection.sock.connect(target)
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
    return None if response.status == http.HTTPStatus.OK else body


_SETTINGS_OF_SERVE = {
    **dict.fromkeys(("address", "b", "host", "listen", "p", "port", "socket"), "bind"),
    **dict.fromkeys(("d", "database", "db"), "database_url"),
    **dict.fromkeys(("processes", "w"), "workers"),
    **dict.fromkeys(("access_logfile", "log"), "access_log"),
    "group": "socket_group",
    "proxies": "trusted_proxies",
}
"""What other servers have as options, by the setting of `serve`."""


def add_commands(commands: Commands) -> None:
    """Add the three commands."""
    serve = add_command(
        commands,
        "serve",
        _serve,
        "serve until TERM or Ctrl-C",
        examples=["serve"],
        prints_data=False,
        is_job=True,
    )
    serve.settings_by_option = _SETTINGS_OF_SERVE
    # Somebody who starts it reads why it does not start.
    serve.set_defaults(scheduled=False)
    check = add_command(
        commands,
        "check",
        _check,
        "report everything that is wrong with settings, database and registers",
        examples=["check", "check --ready unix:/run/verifyd.sock"],
    )
    check.add_argument(
        "--ready",
        metavar="ADDRESS",
        type=_address,
        help="also wait until a service is ready at ADDRESS:PORT or unix:/PATH",
    )
    migrated = add_command(
        commands,
        "migrate",
        _migrate,
        "create the database, or bring it up to date",
        examples=["migrate", "migrate --status"],
    )
    migrated.add_argument(
        "--status", action="store_true", help="show what would be done, and change nothing"
    )


def _serve(_args: argparse.Namespace) -> None:
    with opened_database(check_schema=False):
        pass  # It checks that the settings are right, and that this user owns the file (D27).
    # NOTE: this module is gunicorn's configuration; importing it reads the environment.
    from app.server import serve  # noqa: PLC0415

    serve()


def _check(args: argparse.Namespace) -> None:
    config, faults = Config.read()
    # A wrong setting is reported once.
    reported = {fault.partition(":")[0] for fault in faults}
    found, warnings, audit = findings(config)
    faults += [fault for fault in found if fault.partition(":")[0] not in reported]
    if args.ready:
        with waiting_for(args, f"the service at {args.ready}, up to {DEADLINE_SECONDS} s"):
            faults += unreadiness(args.ready)
    if args.json:
        members = {"ok": not faults, "faults": faults, "warnings": warnings}
        print_item(args, members | {"audit": audit and _audit_item(audit)})
    elif not faults:
        if audit and audit.text != "off":
            print(f"audit trail: {audit.text}")
        for warning in warnings:
            print(f"warning: {warning}")
        count = f"; {counted(len(warnings), 'warning')}" if warnings else ""
        print(f"all settings are right; the database can be used{count}")
    if faults:
        raise OperatorError("\n".join(faults))


def _audit_item(audit: AuditState) -> dict[str, object]:
    found = audit.summary
    return {
        "state": audit.word,
        "reason": audit.fault or None,
        "size_bytes": found and found.bytes,
        "records": found and found.records,
        "sealed_at": found and clock.iso_utc(found.sealed_at),
    }


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
        with waiting_for(args, "the migration of the database"):
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
    if pending:
        count = counted(len(pending), "migration")
        print(f'{count} pending; run "verifyd migrate"')
    else:
        print("nothing is pending")
