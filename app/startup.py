"""What happens once at the start of a server, before it forks its workers (D11, D29)."""

import logging
import os
from functools import partial

from app.alerts.conditions import conditions_of
from app.audit.owner import claim
from app.config import Config
from app.errors import OperatorError
from app.monitoring import metrics_files
from app.serve import instance, listening
from app.serve.limits.file import FILE_NAME
from app.serve.limits.store import start as start_limits
from app.storage import reserve
from app.storage.engine import close_quietly, open_engine
from app.storage.schema import migrate
from app.storage.versions import database_id, versions

_log = logging.getLogger("verifyd.server")


def prepare(config: Config) -> None:
    """Check that the service can start, migrate the database, create the files of the workers.

    Raises OperatorError with the reason if it cannot start, or peewee.PeeweeException.
    """
    prepare_database(config)
    listening.require_free(config)
    prepare_state(config)


def prepare_database(config: Config) -> None:
    """Check that the database exists and its schema is usable; migrate an older schema.

    Raises OperatorError if it is missing, empty or belongs to a newer program (D27, D29);
    peewee.PeeweeException if it cannot be read.
    """
    engine = open_engine(config.database_url)
    if engine.file is not None and not engine.file.exists():
        raise OperatorError(
            f"database file {engine.file.absolute()} does not exist; "
            'run "verifyd migrate" to create it'
        )
    try:
        # The last stop removed files that a connection needs, and the disk may be full now.
        found = reserve.with_reserve(engine, partial(versions, engine))
        if found.can_migrate and found.database:
            for script in migrate(engine):
                _log.info("migrated: %s", script)
            found = versions(engine)
        refusal = found.refusal()
        if refusal:
            raise OperatorError(refusal)
    finally:
        # NOTE: a connection must not be used after a fork.
        close_quietly(engine)


def prepare_state(config: Config) -> None:
    """Create what the workers share: the buckets (D11), the metrics, and the audit trail (D115).

    Conditions that an operator must correct, although look-ups work, are logged (D76).

    Raises OperatorError if that fails, or if the database is being restored.
    """
    instance.announce(config.state_dir)
    engine = open_engine(config.database_url)
    try:
        start_limits(config.state_dir / FILE_NAME, database_id(engine))
        if config.audit:
            claim(config.audit_dir, database_id(engine))
        instance.note_trail(config.state_dir, config.audit_dir if config.audit else None)
        reserve.fill(engine)
        for each in conditions_of(engine, config).conditions:
            _log.warning("%s", each.warning)
    finally:
        # NOTE: a connection must not be used after a fork.
        close_quietly(engine)
    try:
        metrics_files.prepare(config.state_dir)
    except OSError as error:
        raise OperatorError(f"the metrics cannot be kept: {error}") from error
    # PERF: imported before the fork, so that the workers share its memory.
    import prometheus_client.multiprocess  # noqa: F401, PLC0415 - its environment is set now


def open_standard_streams() -> None:
    """Open /dev/null as stdin, stdout and stderr if they are closed.

    Otherwise another file would get their number, and log lines would be written to it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest free number, which is this one.
