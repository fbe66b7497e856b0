"""The hosts whose trail is on, as the main database remembers them (D166).

A host that was on refuses to look up without its trail, until an operator has switched it off. One
that the database does not know follows the installation: it refuses if the trail of another is on.
"""

import logging
import socket
from pathlib import Path
from typing import Any

import peewee

from app import clock
from app.actions import Subject, changing, of_command, record
from app.audit.owner import Owner, machine
from app.audit.record import AuditError, Record, Upkeep, time_of, time_of_second
from app.audit.trail import record_use
from app.audit.upkeep import GAP
from app.errors import OperatorError
from app.storage import reserve
from app.storage.engine import Engine

_log = logging.getLogger("verifyd.trail")


class AuditHost(peewee.Model):
    """A host. Times are in Unix seconds."""

    machine = peewee.FixedCharField(32, primary_key=True)
    """A hash of its machine id."""
    name = peewee.CharField(255)
    since = peewee.BigIntegerField()
    """Since when it is known."""
    off_at = peewee.BigIntegerField(null=True)
    """When an operator switched its trail off; None before, and once the trail has that gap."""
    on_at = peewee.BigIntegerField(null=True)
    """When a service recorded again after `off_at`, rounded up; None until then."""
    off_by = peewee.CharField(100, null=True)
    off_sudo_user = peewee.CharField(100, null=True)
    off_reason = peewee.CharField(200, null=True)

    class Meta:
        table_name = "audit_host"

    @property
    def is_on(self) -> bool:
        """Whether its answers must be recorded."""
        return self.off_at is None or self.on_at is not None


_NO_GAP: dict[str, object] = dict.fromkeys(
    ("off_at", "on_at", "off_by", "off_sudo_user", "off_reason")
)


def list_hosts(engine: Engine) -> list[AuditHost]:
    """Return all hosts that are known, by name."""
    return list(AuditHost.select().order_by(AuditHost.name, AuditHost.machine).execute(engine))


def find_host(engine: Engine) -> AuditHost | None:
    """Return this host; None if the database does not know it."""
    return _find(engine, machine())


def _find(engine: Engine, name: str) -> AuditHost | None:
    return next((each for each in list_hosts(engine) if each.machine == name), None)


def off_fault(engine: Engine) -> str:
    """Return why this host must not answer with VERIFYD_AUDIT=off; empty if it may."""
    hosts, this = list_hosts(engine), machine()
    own = [each for each in hosts if each.machine == this]
    on = next((each for each in own or hosts if each.is_on), None)
    if on is None:
        return ""
    whose = "this host" if own else on.name
    return (
        f"the audit trail of {whose} is on, so look-ups must be recorded: set VERIFYD_AUDIT=on, or "
        'run "verifyd audit off --reason TEXT" to switch it off on this host'
    )


def require_off(engine: Engine) -> None:
    """Raise AuditError if answers of this host must be recorded, although the setting is off."""
    if fault := off_fault(engine):
        raise AuditError(fault)


def note_on(engine: Engine) -> None:
    """Remember that the trail of this host is on. One that was switched off stays so."""
    if find_host(engine) is None:
        row = {"machine": machine(), "name": socket.gethostname(), "since": clock.now()}
        _write(engine, AuditHost.insert(**row).on_conflict_ignore())


def switch_on(engine: Engine, directory: Path, owner: Owner) -> None:
    """Remember that a service of this host records from now on; record the gap that ends so."""
    note_on(engine)
    host = find_host(engine)
    if host is not None and not host.is_on:
        is_off = (AuditHost.machine == host.machine) & AuditHost.on_at.is_null()
        _write(engine, AuditHost.update(on_at=clock.now() + 1).where(is_off))
    record_gap(engine, directory, owner)


def record_gap(engine: Engine, directory: Path, owner: Owner) -> None:
    """Record the gap that ended on this host, if the trail does not have it yet.

    If that fails, as on a full disk, the next seal or start tries again. A process that is killed
    in between records it twice.
    """
    host = find_host(engine)
    if host is None or host.off_at is None or host.on_at is None:
        return
    gap = Record(
        time=time_of(clock.now_ns()),
        operation=GAP,
        unverified=True,
        upkeep=Upkeep(since=time_of_second(host.off_at), until=time_of_second(host.on_at)),
        reason=host.off_reason,
        login=host.off_by,
        sudo_user=host.off_sudo_user,
    )
    try:
        record_use(directory, owner, gap)
    except AuditError as error:
        _log.warning("the time without the audit trail is not recorded yet: %s", error)
        return
    # NOTE: an operator may have switched it off again meanwhile. Then the next gap has this one.
    is_it = (AuditHost.machine == host.machine) & (AuditHost.on_at == host.on_at)
    _write(engine, AuditHost.update(**_NO_GAP).where(is_it))


def switch_off(engine: Engine, reason: str) -> AuditHost:
    """Let this host answer without its trail, as an action of an operator. Needs no trail.

    A gap that the trail does not have yet becomes part of the new one.

    Raises OperatorError if it is off already.
    """

    def write() -> AuditHost:
        with changing(engine):
            host, now, by = find_host(engine), clock.now(), of_command()
            if host is not None and not host.is_on:
                at = clock.iso_utc(host.off_at or now)
                raise OperatorError(f"the audit trail of this host is off since {at}")
            name = socket.gethostname()
            known = {"machine": machine(), "name": name, "since": now}
            off = _NO_GAP | {
                "off_at": host.off_at if host and host.off_at else now,
                "off_by": by.name,
                "off_sudo_user": by.sudo_user,
                "off_reason": reason,
            }
            AuditHost.insert(**known, **off).on_conflict(
                conflict_target=[AuditHost.machine], update=off
            ).execute(engine)
            before, after = {"trail": "on"} if host else None, {"trail": "off", "reason": reason}
            record(engine, by, "audit.off", Subject("host", name), before, after)
            return AuditHost(**known, **off)

    return reserve.with_reserve(engine, write)


def forget(engine: Engine, name: str, reason: str) -> None:
    """Forget a host that is gone for good, as an action of an operator.

    Args:
        name: its machine, as `list_hosts` names it.

    Raises OperatorError if it is unknown, or if it is this host.
    """
    if name == machine():
        raise OperatorError('this is this host; "verifyd audit off" switches its trail off')

    def write() -> None:
        with changing(engine):
            host = _find(engine, name)
            if host is None:
                raise OperatorError(f'no host is {name}; "verifyd audit hosts" names the machines')
            AuditHost.delete().where(AuditHost.machine == name).execute(engine)
            before = {"trail": "on" if host.is_on else "off", "machine": name}
            subject = Subject("host", host.name)
            record(engine, None, "audit.forget", subject, before, {"reason": reason})

    reserve.with_reserve(engine, write)


def _write(engine: Engine, query: Any) -> None:
    """Write what a later start or command repeats: a database on a full disk must not stop us."""
    try:
        reserve.with_reserve(engine, lambda: query.execute(engine))
    except peewee.PeeweeException as error:
        _log.warning("the database cannot remember that the audit trail is on: %s", error)
