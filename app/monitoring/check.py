"""The findings of `verifyd check`: faults, which stop or hinder the service, and warnings."""

import os
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import peewee

from app import clock
from app.accounts.models import Account
from app.alerts.conditions import REFUSED, UNRECORDED, gathered
from app.alerts.sending import obstacle
from app.audit.hosts import off_fault
from app.audit.segments import OWNER
from app.audit.state import AuditState, audit_state, owner_fault
from app.config import SETTINGS, Config, setting_fault
from app.errors import OperatorError
from app.jobs.sweeping import SWEEP_LOCKS
from app.people.directory import directory_fault
from app.people.sessions import list_sessions
from app.registers.history import list_running
from app.serve import listening
from app.settings import time_zones
from app.settings.roles import Role
from app.settings.values import EVERY_REGISTER, sqlite_path
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.registers import Unreadable, list_entries, list_unreadable
from app.storage.session import opened_database
from app.storage.stores import store_of
from app.storage.tables import Kind
from app.storage.versions import Versions, tells_unknown, versions


def unknown_accounts(engine: Engine, config: Config) -> list[str]:
    """Return a warning for each account of VERIFYD_METRICS_ACCOUNTS that does not exist."""
    names = set(config.metrics_accounts)
    # PERF: not all accounts, which can be thousands.
    known = Account.select(Account.name).where(Account.name.in_(names))
    return [
        f"{SETTINGS['metrics_accounts'].variable} names {name}: there is no such account"
        for name in sorted(names - {account.name for account in known.execute(engine)})
    ]


def unknown_registers(engine: Engine, config: Config) -> list[str]:
    """Return a warning for each register that a setting by register names and nobody has loaded."""
    known = {entry.name for entry in list_entries(engine)} | {EVERY_REGISTER}
    return [
        f"{SETTINGS[setting].variable} names {name}: there is no such register"
        for setting in ("mot_first_years", "stale_after", "unchanged_after")
        for name in sorted(getattr(config, setting).keys() - known)
    ]


def completeness_warnings(engine: Engine, config: Config) -> dict[str, str]:
    """Return a warning by each name of VERIFYD_COMPLETE_REGISTERS that decides nothing (D198)."""
    held = {entry.name: entry.rows(Kind.POLICIES) for entry in list_entries(engine)}
    variable = SETTINGS["complete_registers"].variable
    faults = ("there is no such register", "that register holds no policies")
    return {
        name: f"{variable} names {name}: {faults[name in held]}"
        for name in config.complete_registers
        if not held.get(name)
    }


def lock_warnings(engine: Engine) -> list[str]:
    """Return a warning for each lock that somebody holds who does nothing.

    Such a lock can be that of a killed host, and refuses every load or sweep.
    """
    registers = {each.name for each in list_entries(engine)}
    registers |= {each.register for each in list_running(engine)}
    stores = {f"the register {name}": store_of(engine, name) for name in sorted(registers)}
    holders = {what: store.idle_holder() for what, store in stores.items()}
    # The command that loads a drop directory is idle while a process of its own loads.
    if not any(store.is_locked() and not holders[what] for what, store in stores.items()):
        holders |= {
            what: store_of(engine, name).idle_holder() for what, name in SWEEP_LOCKS.items()
        }
    return [
        f"The lock of {what} is held by {holder}." for what, holder in holders.items() if holder
    ]


def directory_faults(config: Config) -> list[str]:
    """Return a fault for each directory that the service cannot write to, and needs."""
    faults = []
    database = sqlite_path(config.database_url)
    # Path.exists() would raise an error below a directory that this user may not enter.
    if database and os.path.exists(database):
        if not os.access(database, os.W_OK):
            faults.append(setting_fault("database_url", f"{database} cannot be written to"))
        faults += _unwritable("database_url", database.absolute().parent)
    faults += _unwritable("state_dir", _nearest_existing(config.state_dir))
    if config.audit and not _has_trail(config):
        faults += _unwritable("audit_dir", _nearest_existing(config.audit_dir))
    return faults


def socket_faults(config: Config) -> list[str]:
    """Return a fault for each Unix socket that the service could not create.

    The console's may be there already, created by systemd where the service may not.
    """
    faults = []
    for name in ("bind", "console_bind"):
        bind = getattr(config, name)
        path = Path(bind.removeprefix("unix:"))
        if fault := listening.path_fault(name, bind):
            faults.append(fault)
        elif bind.startswith("unix:") and not (name == "console_bind" and path.is_socket()):
            faults += _unwritable(name, path.parent)
    return faults


def data_warnings(config: Config) -> list[str]:
    """Return a warning for each directory where rejects files and alerts cannot be written."""
    parts = ("", "rejects", "notices", "notices/queue")
    directories = (_nearest_existing(config.data_dir / each) for each in parts)
    unwritable = chain.from_iterable(_unwritable("data_dir", each) for each in directories)
    return [f"{each}, so rejects and alerts are lost." for each in dict.fromkeys(unwritable)]


def destination_warnings(config: Config) -> list[str]:
    """Return a warning for each destination that alerts or digests cannot be sent to."""
    variable, report = SETTINGS["notify"].variable, SETTINGS["morning_report"].variable
    named = {variable: config.notify, SETTINGS["audit_digests"].variable: config.audit_digests}
    warnings = [
        f"{name} {found}."
        for name, destinations in named.items()
        for each in destinations
        if (found := obstacle(each, config.notify_secret))
    ]
    if config.morning_report and not config.notify:
        warnings.append(f"{report} is on, and {variable} names no destination.")
    return warnings


def time_zone_warnings(config: Config) -> list[str]:
    """Return a warning if the system has other rules of the zone than this program."""
    name, system = str(config.timezone), time_zones.SYSTEM
    ours, theirs = time_zones.PACKAGE.find_zone(name), system and system.find_zone(name)
    if system is None or ours is None or theirs is None:
        return []
    since = time_zones.differs_from(ours, theirs)
    if since is None:
        return []
    # It is no condition, and raises no alert: the answers follow the newer rules already.
    where, remedy = "the system", "upgrade verifyd"
    if time_zones.USED is time_zones.PACKAGE:
        where, remedy = "verifyd", "update the package tzdata of the system"
    return [
        f"The tzdata of the system ({system.version or 'of an unknown version'}) and of verifyd "
        f"({time_zones.PACKAGE.version}) have different rules for {name}, from "
        f"{clock.day_of(since, ours)} on. Those of {where} count; {remedy}."
    ]


def _has_trail(config: Config) -> bool:
    return os.path.exists(config.audit_dir / OWNER)


def clerk_warnings(engine: Engine, config: Config) -> list[str]:
    """Return a warning if clerks are or can be signed in who cannot look up."""
    if config.audit or not config.console:
        return []
    roles = {*config.console_groups.values(), *(each.role for each in list_sessions(engine))}
    if Role.CLERK not in roles:
        return []
    return [setting_fault("audit", "clerks cannot look up while it is off.")]


def audit_warnings(config: Config) -> list[str]:
    """Return a warning if the trail cannot be written to, and if it is where it may be lost."""
    if not config.audit:
        return []
    warnings = []
    if _has_trail(config):
        # NOTE: as with a full disk, the service must start, and wait until it can.
        faults = _unwritable("audit_dir", config.audit_dir)
        warnings += [f"{each}, so look-ups are refused." for each in faults]
    # With Postgres this is the default if VERIFYD_DATA_DIR is not set.
    if config.audit_dir.is_relative_to(config.state_dir):
        fault = f"{config.audit_dir} is in {SETTINGS['state_dir'].variable}, which may be in memory"
        warnings.append(f"{setting_fault('audit_dir', fault)}: name a directory on a disk.")
    return warnings


def _unwritable(name: str, directory: Path) -> list[str]:
    if directory.is_dir() and os.access(directory, os.W_OK | os.X_OK):
        return []
    return [setting_fault(name, f"{directory} cannot be written to")]


def _nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return path if os.path.exists(path) else _nearest_existing(path.parent)


def host_warnings(config: Config) -> list[str]:
    """Return the warnings that need no database."""
    return [*data_warnings(config), *audit_warnings(config), *destination_warnings(config)]


def database_warnings(engine: Engine, config: Config) -> list[str]:
    """Return the warnings that are no conditions: nobody is alerted of them.

    Raises peewee.PeeweeException if the database cannot be read.
    """
    return [
        *unknown_accounts(engine, config),
        *unknown_registers(engine, config),
        *completeness_warnings(engine, config).values(),
        *clerk_warnings(engine, config),
        *lock_warnings(engine),
    ]


class Findings(NamedTuple):
    """A sentence for each fault and each warning, and what else `verifyd check` tells."""

    faults: list[str]
    warnings: list[str]
    audit: AuditState | None
    """The state of the audit trail; None if the database cannot be used."""
    tells_unknown: bool | None
    """Whether answers tell what is not known (D198); None if the database cannot be used."""
    complete: Sequence[str]
    """The registers in which the absence of a policy counts, if answers tell it."""


def findings(config: Config) -> Findings:
    """Return what is wrong with the database, directories, listeners and destinations of alerts.

    The values of the settings are checked when the Config is made.
    """
    faults, warnings, audit, tells, complete = _database_findings(config)
    faults += [*directory_faults(config), *socket_faults(config)]
    # Look-ups do not need these directories, so the service can run.
    warnings += host_warnings(config)
    # PERF: not in `host_warnings`, because a page of the console would take seven times as long.
    warnings += time_zone_warnings(config)
    binds = (config.bind, config.console_bind)
    found = [listening.group_fault(config, each) for each in binds]
    found.append(listening.console_fault(config, listening.chosen_by_systemd(config)))
    found.append(directory_fault(config))
    faults += dict.fromkeys(filter(None, found))
    warnings += filter(None, [listening.console_warning(config)])
    return Findings(faults, warnings, audit, tells, complete)


def _database_findings(config: Config) -> Findings:
    faults: list[str] = []
    warnings: list[str] = []
    audit: AuditState | None = None
    tells: bool | None = None
    complete: list[str] = []
    try:
        with opened_database(config, check_schema=False) as engine:
            # Before anything else fails because of them.
            obstacles = [*engine.lost_settings(), *engine.missing_rights()]
            faults += [setting_fault("database_url", each) for each in obstacles]
            found = reserve.with_reserve(engine, partial(versions, engine))
            unreadable = _unreadable(engine, found)
            faults += [setting_fault("database_url", str(each)) for each in unreadable]
            if found.refusal() is None and not unreadable:
                audit, tells = audit_state(engine, config), tells_unknown(engine)
                conditions = gathered(engine, config).conditions
                warnings += [
                    each.warning for each in conditions if each.key not in (REFUSED, UNRECORDED)
                ]
                warnings += database_warnings(engine, config)
                incomplete = completeness_warnings(engine, config)
                complete += (each for each in config.complete_registers if each not in incomplete)
                # NOTE: a full disk is no fault. The service must start, and wait for room.
                if not config.audit and (fault := off_fault(engine)):
                    faults.append(setting_fault("audit", fault))
                if config.audit and (fault := owner_fault(engine, config)):
                    faults.append(setting_fault("audit_dir", fault))
    except (OperatorError, peewee.PeeweeException, OSError) as error:
        faults.append(setting_fault("database_url", message_of(error)))
    return Findings(faults, warnings, audit, tells, complete)


def _unreadable(engine: Engine, found: Versions) -> list[Unreadable]:
    """Return what `serve` could not read. Raises OperatorError if that is the database."""
    refusal = found.refusal()
    if refusal is not None:
        # `serve` migrates an older database by itself.
        if found.can_migrate and found.database:
            return []
        raise OperatorError(refusal)
    return list_unreadable(engine)
