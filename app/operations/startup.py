"""What happens once at the start of a server, before it forks its workers (D11, D29)."""

import logging
import os
from functools import partial

from app.config import Config
from app.errors import OperatorError
from app.limits.file import FILE_NAME
from app.limits.store import start as start_limits
from app.operations import listening, metrics_files, serving
from app.operations.conditions.gathered import look
from app.storage import reserve
from app.storage.engine import close_quietly, open_engine
from app.storage.schema import migrate
from app.storage.versions import database_id, versions

_log = logging.getLogger("verifyd.server")


def prepare(config: Config) -> None:
    """Check that the service can start, migrate the database, make the files of its workers.

    Raises OperatorError with what is in the way, or peewee.PeeweeException.
    """
    prepare_database(config)
    listening.require_free(config)
    prepare_state(config)


def prepare_database(config: Config) -> None:
    """Check that the database is there and of a schema this program may use; migrate if older.

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
        # The last stop removed files that a connection needs, and the disk can be full by now.
        found = reserve.written(engine, partial(versions, engine))
        if found.can_migrate and found.database:
            for script in migrate(engine):
                _log.info("migrated: %s", script)
            found = versions(engine)
        refusal = found.refusal()
        if refusal:
            raise OperatorError(refusal)
    finally:
        # NOTE: a connection must not cross the fork.
        close_quietly(engine)


def prepare_state(config: Config) -> None:
    """Make what the workers share in the state directory: the buckets (D11), the metrics.

    Conditions that an operator must mend, although look-ups work, are logged (D76).

    Raises OperatorError if it cannot be made, or the database is being restored.
    """
    serving.announce(config.state_dir)
    engine = open_engine(config.database_url)
    try:
        start_limits(config.state_dir / FILE_NAME, database_id(engine))
        reserve.fill(engine)
        for each in look(engine, config).conditions:
            _log.warning("%s", each.warning)
    finally:
        # NOTE: a connection must not cross the fork.
        close_quietly(engine)
    try:
        metrics_files.prepare(config.state_dir)
    except OSError as error:
        raise OperatorError(f"the metrics cannot be kept: {error}") from error
    # PERF: imported before the fork, the library is in memory once.
    import prometheus_client.multiprocess  # noqa: F401, PLC0415 - now that its environment is set


def open_standard_streams() -> None:
    """Open /dev/null as stdin, stdout and stderr where these are closed.

    Another file would get their number, and the log with it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest free number, which is this one.
