"""The settings of gunicorn, and `verifyd serve`, which runs gunicorn within this process.

`gunicorn -c python:app.server 'app.main:create_app()'` serves the same: gunicorn reads this module
as its configuration. So variables and functions have the lower-case names that gunicorn expects.
"""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from logging.config import dictConfig
from typing import Any, NoReturn

import peewee
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config as GunicornConfig
from gunicorn.sock import create_sockets
from gunicorn.workers.base import Worker

from app.alerts.conditions import conditions_of, register_conditions
from app.audit.hosts import require_off, switch_on
from app.audit.owner import claim
from app.config import Config
from app.errors import OperatorError
from app.jobs import hourly
from app.logs import LOGGING, log_everything
from app.main import create_app
from app.people.directory import directory_fault
from app.processes import end_with_bootloader, open_standard_streams
from app.registers.identities import stamp_registers
from app.serve import listening, service_lock
from app.serve.http import metrics_files
from app.serve.limits.file import FILE_NAME
from app.serve.limits.store import start as start_limits
from app.settings.listen_addresses import address_of
from app.storage import reserve
from app.storage.engine import closed_afterwards, open_engine
from app.storage.errors import message_of
from app.storage.file_lock import make_directory
from app.storage.registers import find_unreadable
from app.storage.stores import migrate
from app.storage.versions import database_id, versions

_log = logging.getLogger("verifyd.server")
_CONDITIONS = "verifyd.server.conditions"
"""The logger of what an operator must correct although look-ups work."""


def prepare(config: Config) -> None:
    """Prepare the start, before any worker is forked: check, migrate, create the workers' files.

    Raises OperatorError with the reason if it cannot start, or peewee.PeeweeException.
    """
    if fault := directory_fault(config):
        raise OperatorError(fault)
    prepare_database(config)
    listening.require_free(config)
    prepare_state(config)


def prepare_database(config: Config) -> None:
    """Check that the database exists and its schema is usable; migrate an older schema.

    Raises OperatorError if it is missing, empty or belongs to a newer program;
    peewee.PeeweeException if it cannot be read.
    """
    engine = open_engine(config.database_url)
    if engine.file is not None and not engine.file.exists():
        raise OperatorError(
            f"database file {engine.file.absolute()} does not exist; "
            'run "verifyd migrate" to create it'
        )
    # NOTE: a connection must not be used after a fork.
    with closed_afterwards(engine):
        # The last stop removed files that a connection needs, and the disk may be full now.
        found = reserve.with_reserve(engine, partial(versions, engine))
        if found.can_migrate and found.database:
            for script in migrate(engine):
                _log.info("migrated: %s", script)
            found = versions(engine)
        refusal = found.refusal()
        if refusal:
            raise OperatorError(refusal)
        for fault in engine.lost_settings():
            _log.warning("%s", fault)
        stamp_registers(engine)


def prepare_state(config: Config) -> None:
    """Create what the workers share: the buckets, the metrics, and the audit trail.

    Conditions that an operator must correct are logged.

    Raises OperatorError if that fails, or if the database is being restored.
    """
    service_lock.announce(config.state_dir)
    # NOTE: a connection must not be used after a fork.
    with closed_afterwards(open_engine(config.database_url)) as engine:
        start_limits(config.state_dir / FILE_NAME, database_id(engine))
        if config.audit:
            owner = claim(config.audit_dir, database_id(engine))
            switch_on(engine, config.audit_dir, owner)
        else:
            require_off(engine)
        service_lock.note_trail(config.state_dir, config.audit_dir if config.audit else None)
        reserve.fill(engine)
        with suppress(OSError):  # It has what is known of the clock (D162).
            make_directory(config.data_dir)
        for each in (*register_conditions(engine), *conditions_of(engine, config).conditions):
            logging.getLogger(_CONDITIONS).warning("%s", each.warning)
    try:
        metrics_files.prepare(config.state_dir)
    except OSError as error:
        raise OperatorError(f"the metrics cannot be kept: {error}") from error


_config = Config.from_env()

bind = _config.bind
umask = listening.SOCKET_UMASK  # gunicorn applies it when it creates the socket.
workers = _config.workers
worker_class = "app.serve.worker.worker.Worker"
# A request that takes the application longer is given up (D45). A body has as much time to arrive,
# and an answer to be read.
timeout = 30
graceful_timeout = 30
# NOTE: much longer than nginx keeps idle connections to the workers. If a worker closed them first,
# a request could be on its way.
keepalive = 30
# Of each worker. nginx opens at most 1,200 to all of them.
worker_connections = 1000
# SEC: gunicorn opens a socket by default, which controls the server.
control_socket_disable = True
# On a disk, the heartbeats of workers would stall when the disk does. In a chroot the directory can
# be missing or read-only.
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None  # noqa: S108
proc_name = "verifyd"
logconfig_dict = LOGGING


def on_starting(_server: Arbiter) -> None:
    """Prepare the start if gunicorn was started directly, without `verifyd serve`."""
    open_standard_streams()
    log_everything()
    try:
        prepare(_config)
    except (OperatorError, peewee.PeeweeException) as error:
        _end(message_of(error))


def when_ready(server: Arbiter) -> None:
    """Open the console's listener, unless it was passed, before workers start.

    Sockets that systemd did not create are given to their group. From now on this process, the
    master, starts the hourly jobs.
    """
    own = [] if server.systemd else [_config.bind]
    addresses = [address_of(each.sock) for each in server.LISTENERS]
    if "console_bind" in listening.to_open(_config, addresses):
        server.LISTENERS.extend(_opened(_config.console_bind))
        own.append(_config.console_bind)
        addresses = [address_of(each.sock) for each in server.LISTENERS]
    try:
        for each in own:
            listening.give_to_group(_config, each)
    except OSError as error:
        _end(f"VERIFYD_SOCKET_GROUP: {error}")
    service_lock.note_listeners(_config.state_dir, addresses)
    hourly.start(seals=_config.audit)


def post_worker_init(worker: Worker) -> None:
    """Begin to write what this worker counts, and tell that the service answers."""
    application: Any = worker.app.callable
    application.usage.start()
    application.measures.start()
    announce = getattr(worker.app, "announce", None)
    if announce is not None and worker.age == 1:
        announce()


def worker_exit(_server: Arbiter, worker: Worker) -> None:
    """Write what this worker has counted last."""
    application: Any = worker.app.callable
    if application is not None:
        application.measures.stop()
        application.usage.stop()


def child_exit(server: Arbiter, _worker: object) -> None:
    """Add the counts of a worker that ended to the totals, and remove its files."""
    metrics_files.fold(server.WORKERS)


def on_exit(_server: Arbiter) -> None:
    """Remove the files of counts that the workers of this master shared."""
    metrics_files.remove()


def serve(*, is_quiet: bool = False, announce: Callable[[], None] | None = None) -> None:
    """Serve until TERM or INT arrives, then finish the requests in flight.

    Args:
        is_quiet: log only warnings and errors of gunicorn, not its start and stop, and no
            conditions: the console shows them.
        announce: called once, in the first worker, when it is about to answer.

    Raises OperatorError if the database cannot be used, or if another server uses the address.
    """
    end_with_bootloader()
    if is_quiet:
        LOGGING["loggers"]["gunicorn.error"]["level"] = "WARNING"
        LOGGING["loggers"][_CONDITIONS] = {"level": "ERROR"}
    # NOTE: gunicorn does so too, but only after the database was migrated.
    dictConfig(LOGGING)
    log_everything()
    prepare(_config)
    Server(announce).run()


class Server(BaseApplication):
    """gunicorn with the settings of this module."""

    def __init__(self, announce: Callable[[], None] | None) -> None:
        self.announce = announce
        super().__init__()

    def load_config(self) -> None:
        """Set every setting of gunicorn that this module defines."""
        own = globals()
        # `serve` has already prepared the start.
        for name in self.cfg.settings.keys() - {"on_starting"}:
            if name in own:
                self.cfg.set(name, own[name])

    # Any: Falcon and gunicorn declare different types for a WSGI application.
    def load(self) -> Any:
        """Return the application. gunicorn calls this once in each worker, after the fork."""
        engine = open_engine(_config.database_url, is_serving=True)
        app = create_app(_config, engine)
        try:
            # A connection needs some disk space. Take it before the disk can be full.
            find_unreadable(engine)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            engine.recover(error)  # Requests are answered 503 until the database is back.
        return app


def _opened(address: str) -> list[Any]:
    """Return the listener at an address that gunicorn does not know from its own `bind`."""
    settings = GunicornConfig()
    settings.set("bind", [address])
    settings.set("umask", umask)
    log: Any = logging.getLogger("gunicorn.error")
    listeners: list[Any] = create_sockets(settings, log)
    for listener in listeners:
        log.info("The console listens at: %s", listener)
    return listeners


def _end(reason: str) -> NoReturn:
    _log.critical("%s", reason)
    sys.exit(1)
