"""Finds all conditions, in one place for everything that shows them.

`verifyd check`, `/readyz`, the log of a start and the alerts show the same conditions.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import peewee

from app import clock
from app.alerts.certificate import UNREADABLE, certificate_conditions
from app.alerts.digests import digest_conditions
from app.alerts.disk import disk_facts, write_fault
from app.alerts.loads import Freshness, age_conditions, freshness, load_conditions, load_facts
from app.alerts.message import Condition
from app.alerts.nightly import NAMES, LastRuns, Run, is_catching_up, job_conditions, last_runs
from app.alerts.spool import Spool
from app.alerts.sweeps import sweep_conditions
from app.audit.hosts import find_host, off_fault
from app.audit.state import owner_fault, space_fault, summary_of
from app.clock_steps import clock_fault
from app.config import Config
from app.storage.engine import Engine
from app.storage.registers import find_unreadable

REFUSED = "audit:refused"
"""The key of the condition that every look-up is refused until an operator does something."""
UNRECORDED = "audit:unrecorded"
"""The key of the condition that look-ups must be recorded, although VERIFYD_AUDIT is off."""
SEALED_SECONDS = 3 * 3600
"""From this age of the last run, two runs were missed. A backup can delay one."""
_LITTLE_BYTES = 16 * 1024 * 1024


def audit_conditions(engine: Engine, config: Config) -> Iterator[Condition]:
    """Yield a condition if look-ups are refused or soon will be, and if `seal` did not run.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    yield from _off_conditions(engine, config)
    if not config.audit:
        return
    now = clock.now()
    fault = owner_fault(engine, config)
    if fault:
        yield Condition(
            key=REFUSED,
            title="no look-up can be recorded, so each is refused",
            warning=f"No look-up can be recorded, so each is refused: {fault}.",
            since=now,
            remedy="sudo verifyd check",
        )
        return
    full = space_fault(config, _LITTLE_BYTES)
    if full:
        yield Condition(
            key="audit:space",
            title="the disk of the audit trail is full",
            warning=f"Look-ups that cannot be recorded are refused, and {full}.",
            since=now,
            remedy=f"make room: df -h {config.audit_dir}",
        )
    summary = summary_of(config)
    if summary is None or is_catching_up():
        return
    if now - summary.sealed_at > SEALED_SECONDS:
        age = clock.duration_text(now - summary.sealed_at)
        yield Condition(
            key="audit:seal",
            title="the audit trail is not sealed",
            warning=(
                f"The audit trail was last sealed {age} ago, which should happen every hour. "
                "Records that are not sealed are not protected from changes."
            ),
            since=summary.sealed_at + SEALED_SECONDS,
            remedy="sudo verifyd audit seal",
            occurrence=str(summary.sealed_at),
        )


def _off_conditions(engine: Engine, config: Config) -> Iterator[Condition]:
    """Yield a condition if look-ups may go unrecorded, or are refused for that reason (D166)."""
    host = find_host(engine)
    if host is not None and not host.is_on and host.off_at is not None:
        # SEC: the reason can be about somebody, and alerts are sent.
        yield Condition(
            key="audit:off",
            title="the audit trail of this host is switched off",
            warning=(
                "Look-ups on this host may go unrecorded: its audit trail was switched off at "
                f"{clock.iso_utc(host.off_at)}."
            ),
            since=host.off_at,
            remedy="set VERIFYD_AUDIT=on and restart the service; why: sudo verifyd audit hosts",
            occurrence=str(host.off_at),
        )
    elif not config.audit and (fault := off_fault(engine)):
        yield Condition(
            key=UNRECORDED,
            title="VERIFYD_AUDIT is off where look-ups must be recorded",
            warning=f"The service cannot start again, and commands refuse look-ups: {fault}.",
            since=clock.now(),
            remedy="sudo verifyd check",
        )


def clock_conditions(config: Config) -> Iterator[Condition]:
    """Yield a condition while the clock is not trusted (D162)."""
    fault = clock_fault(config.data_dir)
    if fault:
        yield Condition(
            key="clock:jumped",
            title="the clock jumped",
            warning=f"Nothing is removed by its age, because {fault}.",
            since=clock.now(),
            remedy="set the clock; if it is right: sudo verifyd clock --accept",
        )


UNREADABLE_REGISTER = "unreadable"
"""The kind of the condition that look-ups fail because of a register."""


def register_conditions(engine: Engine) -> Iterator[Condition]:
    """Yield a condition for a register that cannot be read, or whose data is not its own (D153).

    Raises peewee.PeeweeException if the database cannot be read.
    """
    unreadable = find_unreadable(engine)
    if unreadable is not None:
        yield Condition(
            key=f"{UNREADABLE_REGISTER}:{unreadable.name}",
            title=f"the register {unreadable.name} cannot be read, so look-ups fail",
            warning=unreadable.sentence,
            since=clock.now(),
            remedy="sudo verifyd check",
        )


UNDELIVERED = "notify"
"""The kind of this condition, which no alert can report."""
_LATE_SECONDS = 3600


def queue_conditions(config: Config) -> Iterator[Condition]:
    """Yield a condition if an alert has waited for more than an hour."""
    with suppress(OSError):
        created = [entry.message.created_at for entry in Spool(config.data_dir).entries()]
        age = clock.now() - min(created, default=clock.now())
        if age > _LATE_SECONDS:
            yield Condition(
                key=f"{UNDELIVERED}:queue",
                title="alerts are not delivered",
                warning=(
                    f"Alerts are not delivered: {len(created)}; "
                    f"the oldest has waited for {clock.duration_text(age)}."
                ),
                since=min(created),
                remedy="sudo verifyd notify --test",
            )


_NEED_DATABASE = frozenset(
    {UNREADABLE_REGISTER, "load", "held", "stale", "unchanged", "job", "missed"}
    | {"disk", "audit", "clock", "sweep"}
)
"""The kinds of conditions that are looked for only while the database can be used."""
_BY_SETTING = {
    "VERIFYD_DATABASE_URL": _NEED_DATABASE | {"database"},
    "VERIFYD_STATE_DIR": frozenset({"missed", "clock"}),
    "VERIFYD_DATA_DIR": frozenset({"clock"}),
    "VERIFYD_STALE_AFTER": frozenset({"stale"}),
    "VERIFYD_UNCHANGED_AFTER": frozenset({"unchanged"}),
    "VERIFYD_MISSED_AFTER": frozenset({"missed"}),
    "VERIFYD_CERTIFICATE": frozenset({"certificate"}),
    "VERIFYD_AUDIT": frozenset({"audit"}),
    "VERIFYD_AUDIT_DIR": frozenset({"audit"}),
    "VERIFYD_AUDIT_DIGESTS": frozenset({"audit"}),
}
"""The kinds of conditions that cannot be looked for while a setting is wrong."""


class FoundConditions(NamedTuple):
    """The conditions that were found at one moment."""

    conditions: list[Condition]
    unknown: frozenset[str] = frozenset()
    """Kinds of conditions that could not be looked for, and so may not be over."""
    ran_until: Mapping[str, int] = {}
    """When the last recorded run of each job on this host ended."""


def conditions_of(
    engine: Engine,
    config: Config,
    *,
    ages: list[Freshness] | None = None,
    runs: LastRuns | None = None,
) -> FoundConditions:
    """Return what is wrong according to the database, the disk and the certificate.

    Registers that cannot be read are left out: `/readyz` and the console look for them first.

    PERF: 4 ms of processor time with a history of 3,000 loads; /readyz is asked often.

    Args:
        ages, runs: values that the caller has read already.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    ages = freshness(engine, config) if ages is None else ages
    runs = last_runs(engine) if runs is None else runs
    facts = load_facts(engine)
    disk = disk_facts(engine, [each.register for each in ages], facts, config.data_dir)
    certificate = list(certificate_conditions(config.certificate))
    unsure = {
        "missed": is_catching_up(),
        "audit": config.audit and is_catching_up(),
        "sweep": is_catching_up(),
        "disk": not disk.is_certain,
        "certificate": any(each.key == UNREADABLE for each in certificate),
    }
    found = [
        *load_conditions(facts, ages),
        *age_conditions(ages, facts),
        *job_conditions(runs, config),
        *disk.conditions,
        *certificate,
        *audit_conditions(engine, config),
        *clock_conditions(config),
        *sweep_conditions(engine, runs, config.state_dir),
        *queue_conditions(config),
        *digest_conditions(config),
    ]
    unknown = frozenset(kind for kind, is_unsure in unsure.items() if is_unsure)
    return FoundConditions(found, unknown, runs.finished_at)


def gathered(
    engine: Engine | None, config: Config, run: Run | None = None, faults: Sequence[str] = ()
) -> FoundConditions:
    """Return everything that is wrong, also if the database cannot be used.

    An unusable database is a condition, and so are wrong settings and a failed run.

    Args:
        engine: None if the database could not be opened.
        run: the run of a job that has just ended; a failing database may have no record of it.
        faults: the faults of the settings, from `Config.read`.
    """
    runs: LastRuns | None = None
    try:
        if engine is None:
            raise peewee.OperationalError
        runs = last_runs(engine)
        found, unknown, ran_until = conditions_of(engine, config, runs=runs)
        found += register_conditions(engine)
        fault = write_fault(engine)
    except (peewee.DatabaseError, peewee.InterfaceError, OSError):
        fault = "The database cannot be used."
        found, unknown = list(certificate_conditions(config.certificate)), _NEED_DATABASE
        ran_until = runs.finished_at if runs else {}
    if fault:
        found.append(_unusable_database(fault))
    wrong = sorted({fault.partition(":")[0] for fault in faults})
    hidden = frozenset[str]().union(*(_BY_SETTING.get(each, ()) for each in wrong))
    found = [each for each in found if each.kind not in hidden]
    if run is not None and _is_unrecorded(run, runs):
        found = [each for each in found if each.key != run.condition().key]
        found.append(run.condition())
    if wrong:
        found.append(_wrong_settings(wrong))
    return FoundConditions(found, unknown | hidden, ran_until)


def _is_unrecorded(run: Run, runs: LastRuns | None) -> bool:
    """Tell whether a run failed that is not recorded as the last run of its job.

    An hourly job is reported once it is late.
    """
    if run.job not in NAMES:
        return False
    if not run.faults or runs is None:
        return bool(run.faults)
    counts = run.is_scheduled or run.job not in runs.scheduled_at
    recorded = runs.ended.get(run.job)
    return counts and (recorded is None or recorded.started_at != run.started_at)


def _wrong_settings(variables: Sequence[str]) -> Condition:
    """Return the condition of wrong settings. SEC: without the faults, which can quote a value."""
    return Condition(
        key="settings:wrong",
        title="settings are wrong",
        warning=f"Settings are wrong, so jobs and the next start fail: {', '.join(variables)}.",
        since=clock.now(),
        remedy="sudo verifyd check",
        occurrence=" ".join(variables),
    )


def _unusable_database(fault: str) -> Condition:
    return Condition(
        key="database:unusable",
        title="the database cannot be used",
        warning=fault,
        since=clock.now(),
        remedy="sudo verifyd check",
    )
