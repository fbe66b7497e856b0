"""What `verifyd check` finds: faults, which keep the service from running well, and warnings."""

from functools import partial
from typing import NamedTuple

import peewee

from app.alerts.conditions import REFUSED, gathered
from app.alerts.delivery import obstacle
from app.audit.state import AuditState, audit_state, owner_fault
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
from app.storage import reserve
from app.storage.engine import Engine
from app.storage.errors import message_of
from app.storage.registers import require_readable
from app.storage.session import opened_database
from app.storage.versions import Versions, versions


class Findings(NamedTuple):
    """A sentence for each fault, and for each condition that does not affect look-ups."""

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
        # `serve` migrates an older database by itself.
        if found.can_migrate and found.database:
            return
        raise OperatorError(refusal)
    require_readable(engine)
