"""`verifyd serve`, `check` and `migrate`."""

import argparse

from app import clock
from app.audit.state import AuditState
from app.cli.checks import findings
from app.cli.output import counted, print_item
from app.cli.parser import Commands, add_command
from app.cli.readiness import DEADLINE_SECONDS, unreadiness
from app.cli.session import opened_database
from app.cli.waiting import waiting_for
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.storage import reserve
from app.storage.schema import migrate, pending_migrations
from app.storage.versions import versions

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
