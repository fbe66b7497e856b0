"""`verifyd serve`, `check` and `migrate`."""

import argparse
import http.client
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import peewee

from app import clock
from app.accounts.administration import change_unknown, migrate_installation
from app.arguments import Argument, flag
from app.audit.state import AuditState
from app.audit.verified import DAYS
from app.cli.output import print_item, waiting_for
from app.cli.parser import SCHEDULED, Group
from app.config import SETTINGS, Config
from app.errors import OperatorError
from app.jobs.deep_check import DeepCheck
from app.jobs.job import run
from app.monitoring.check import findings
from app.registers.identities import stamp_registers
from app.settings import time_zones
from app.settings.listen_addresses import socket_address
from app.storage import reserve
from app.storage.errors import message_of
from app.storage.session import opened_database
from app.storage.stores import pending_migrations
from app.storage.versions import tells_unknown, versions
from app.text import counted

commands = Group()
DEADLINE_SECONDS = 30
_ANSWER_SECONDS = 5
_PAUSE_SECONDS = 0.2
_SETTINGS_OF_SERVE = {
    **dict.fromkeys(("address", "b", "host", "listen", "p", "port", "socket"), "bind"),
    **dict.fromkeys(("d", "database", "db"), "database_url"),
    **dict.fromkeys(("processes", "w"), "workers"),
    **dict.fromkeys(("access_logfile", "log"), "access_log"),
    "group": "socket_group",
    "proxies": "trusted_proxies",
}
"""The setting of `serve` for each option of other servers."""


@commands.command(
    "serve",
    "serve until TERM or Ctrl-C",
    examples=["serve"],
    prints_data=False,
    is_job=True,
    settings_by_option=_SETTINGS_OF_SERVE,
    # A person who starts the service by hand reads why it does not start.
    scheduled=False,
)
def _serve(_args: argparse.Namespace) -> None:
    with opened_database(check_schema=False):
        pass  # The settings are checked, and that this user owns the file (D27).
    # NOTE: this module is gunicorn's configuration; importing it reads the environment.
    from app.server import serve  # noqa: PLC0415

    serve()


@commands.command(
    "check",
    "report everything that is wrong with settings, database and registers",
    Argument(
        "--ready ADDRESS",
        "also wait until a service is ready at ADDRESS:PORT or unix:/PATH",
        type=SETTINGS["bind"].parse,
    ),
    flag("--deep", "also read all data, and report damage; this can take minutes"),
    SCHEDULED,
    examples=["check", "check --deep", "check --ready unix:/run/verifyd.sock"],
)
def _check(args: argparse.Namespace) -> None:
    if args.scheduled and not args.deep:
        args.command.error("argument --scheduled: only allowed with argument --deep")
    args.is_job = args.deep
    # The other findings come afterwards: a sound run ends the warning about an earlier one.
    job = DeepCheck(is_scheduled=args.scheduled, waiting=partial(waiting_for, args))
    failure = _failure(job) if args.deep else None
    config, faults = Config.read()
    # A wrong setting is reported once.
    reported = {fault.partition(":")[0] for fault in faults}
    found, warnings, audit, tells, complete = findings(config)
    faults += [fault for fault in found if fault.partition(":")[0] not in reported]
    if failure is not None and not faults:
        if not job.found:
            raise failure
        faults.append(message_of(failure))
    faults += job.found
    if args.ready:
        with waiting_for(args, f"the service at {args.ready}, up to {DEADLINE_SECONDS} s"):
            faults += _unreadiness(args.ready)
    members = {"ok": not faults, "faults": faults, "warnings": warnings}
    zone = _zone_item(config)
    members |= {"audit": audit and _audit_item(audit), "time_zone": zone}
    members |= {"unknown": tells, "complete_registers": config.complete_registers}
    text = []
    if not faults:
        deep = job if args.deep else None
        text = [*_check_lines(audit, zone, _rule_in_words(tells, complete), warnings, deep)]
    print_item(args, members, text=text)
    if faults:
        raise OperatorError("\n".join(faults))


def _failure(job: DeepCheck) -> Exception | None:
    """Run a deep check, and return why it failed if it did.

    Other faults may explain better why it failed.
    """
    try:
        run(job)
    except (OperatorError, peewee.PeeweeException, OSError) as error:
        return error
    return None


def _check_lines(
    audit: AuditState | None,
    zone: Mapping[str, str | None],
    rule: str | None,
    warnings: Sequence[str],
    deep: DeepCheck | None,
) -> Iterator[str]:
    if deep:
        yield "deep check: all data was read, and no damage was found"
        if deep.files_read is not None:
            files = counted(deep.files_read, "file")
            yield f"audit trail: it verifies; {files} read now, the others in the last {DAYS} days"
    if audit and audit.text != "off":
        yield f"audit trail: {audit.text}"
    differs = f", but {zone['host']} on this host" if zone["host"] else ""
    yield f"time zone: {zone['name']}{differs}; rules of tzdata {zone['tzdata']}"
    if rule:
        yield f"what is not known: {rule}"
    yield from (f"warning: {warning}" for warning in warnings)
    count = f"; {counted(len(warnings), 'warning')}" if warnings else ""
    yield f"all settings are right; the database can be used{count}"


def _rule_in_words(tells: bool | None, complete: Sequence[str]) -> str | None:
    """Return what answers do with what is not known (D198); None before a migration."""
    if tells is None:
        return None
    if not tells:
        return 'false in answers; "verifyd migrate --unknown on" lets them tell it'
    if not complete:
        variable = SETTINGS["complete_registers"].variable
        return (
            f"told; until {variable} names a register with policies, the absence of a policy "
            "counts nowhere"
        )
    return f"told; the absence of a policy counts in {', '.join(complete)}"


def _audit_item(audit: AuditState) -> dict[str, object]:
    found = audit.summary
    return {
        "state": audit.word,
        "reason": audit.fault or None,
        "size_bytes": found and found.bytes,
        "records": found and found.records,
        "sealed_at": found and clock.iso_utc(found.sealed_at),
    }


def _zone_item(config: Config) -> Mapping[str, str | None]:
    """Return the zone, the version of its rules, and the zone of this host if that differs."""
    zone, host = config.timezone, time_zones.host_zone()
    is_same = host is None or str(host) == str(zone) or time_zones.differs_from(zone, host) is None
    return {
        "name": str(zone),
        "host": None if is_same else str(host),
        "tzdata": time_zones.rules_of(str(zone)).version or None,
    }


def _unreadiness(address: str) -> list[str]:
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


@commands.command(
    "migrate",
    "create the database, or bring it up to date",
    flag("--status", "show what would be done, and change nothing"),
    Argument(
        "--unknown on|off",
        "whether answers tell what is not known [as it is; on if the database is new]",
        choices=("on", "off"),
    ),
    examples=["migrate", "migrate --status", "migrate --unknown on"],
)
def _migrate(args: argparse.Namespace) -> None:
    if args.status:
        if args.unknown:
            args.command.error("argument --unknown: not allowed with argument --status")
        _migration_status(args)
        return
    with opened_database(create=True, check_schema=False) as engine:
        with waiting_for(args, "the migration of the database"):
            applied = migrate_installation(engine)
            stamp_registers(engine)
        if args.unknown:
            change_unknown(engine, args.unknown == "on")
        found, tells = versions(engine), tells_unknown(engine)
        reserve.fill(engine)
    text = [f"applied {script}" for script in applied]
    text.append(_told_in_words(tells))
    text.append(f"the database is at schema {found.database}")
    print_item(args, {"applied": applied, "schema": found.database, "unknown": tells}, text=text)


def _migration_status(args: argparse.Namespace) -> None:
    with opened_database(check_schema=False) as engine:
        found = versions(engine)
        pending = pending_migrations(engine)
        tells = tells_unknown(engine) if found.database else None
    text = [f"the database is at schema {found.database}, this program at {found.program}"]
    if tells is not None:
        text.append(_told_in_words(tells))
    text += [f"pending {script}" for script in pending]
    count = counted(len(pending), "migration")
    text.append(f'{count} pending; run "verifyd migrate"' if pending else "nothing is pending")
    print_item(args, found._asdict() | {"unknown": tells, "pending": pending}, text=text)


def _told_in_words(tells: bool) -> str:
    return f"answers {'tell' if tells else 'do not tell'} what is not known"
