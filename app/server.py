"""gunicorn: its settings, which live here and nowhere else, and `verifyd serve` around them.

`verifyd serve` embeds it; `gunicorn -c python:app.server 'app.main:create_app()'` is the same.
The lower-case names are gunicorn's own: it reads this module as its configuration file.
"""

import logging
import os
import sys
from contextlib import suppress
from functools import partial
from logging.config import dictConfig
from pathlib import Path
from typing import Any, NoReturn

import peewee
from gunicorn.app.base import BaseApplication

from app.config import Config
from app.errors import OperatorError
from app.limits.file import FILE_NAME
from app.limits.store import start as start_limits
from app.logs import LOGGING, StderrLines, log_unexpected
from app.main import create_app
from app.operations import listening, metrics_files, serving
from app.operations.conditions.gathered import look
from app.parent import end_with_parent
from app.storage import reserve
from app.storage.engine import close_quietly, message_of, open_engine, recover
from app.storage.registers import find_unreadable
from app.storage.schema import database_id, migrate, versions
from app.storage.sqlite import SqliteEngine

_config = Config.from_env()
_log = logging.getLogger("verifyd.server")

bind = _config.bind
umask = listening.SOCKET_UMASK  # gunicorn's own: for the socket, and as long as that is made.
workers = _config.workers
# NOTE: sync workers behind nginx are steady; the threaded ones stall under slow clients.
worker_class = "app.worker.Worker"
timeout = 30
graceful_timeout = 30
# The request line and headers that fit into nginx's own limits.
limit_request_line = 8190
limit_request_fields = 64
limit_request_field_size = 8190
# SEC: "auto" takes an outdated C parser where there is one, and that accepts bare line feeds.
http_parser = "python"
# SEC: on by default, it lets whoever reaches a socket file steer the server.
control_socket_disable = True
# SEC: no peer may set SCRIPT_NAME and the like by header; the application asks only X-Real-IP.
forwarded_allow_ips = ""
forwarder_headers = ""
# Heartbeats on a disk stall with the disk.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
proc_name = "verifyd"
logconfig_dict = LOGGING

_SETTINGS = (
    "bind",
    "umask",
    "workers",
    "worker_class",
    "timeout",
    "graceful_timeout",
    "limit_request_line",
    "limit_request_fields",
    "limit_request_field_size",
    "http_parser",
    "control_socket_disable",
    "forwarded_allow_ips",
    "forwarder_headers",
    "worker_tmp_dir",
    "proc_name",
    "logconfig_dict",
    "when_ready",
    "child_exit",
    "on_exit",
)


def on_starting(_server: object) -> None:
    """Refuse to start, or migrate, before any worker is made (D29): for gunicorn by itself."""
    open_standard_streams()
    _log_everything()
    try:
        prepare_database(_config)
        listening.require_free(_config)
        prepare_state(_config)
    except (OperatorError, peewee.PeeweeException) as error:
        _end(message_of(error))


def when_ready(server: Any) -> None:
    """Give the socket to its group, unless it is systemd's, before there is a worker."""
    if not server.systemd:
        try:
            listening.give_to_group(_config)
        except OSError as error:
            _end(f"VERIFYD_SOCKET_GROUP: {error}")


def _end(reason: str) -> NoReturn:
    _log.critical("%s", reason)
    sys.exit(1)


def child_exit(server: Any, _worker: object) -> None:
    """Keep what an ended worker has counted, without its files."""
    metrics_files.fold(server.WORKERS)


def on_exit(_server: object) -> None:
    """Remove what only the workers of this master needed."""
    metrics_files.remove()


class Server(BaseApplication):
    """The service, run from within this process."""

    def load_config(self) -> None:
        """Give gunicorn the settings of this module."""
        for name in _SETTINGS:
            self.cfg.set(name, globals()[name])

    def load(self) -> Any:
        """Make the application, once in each worker, after the fork."""
        engine = open_engine(_config.database_url, is_serving=True)
        app = create_app(_config, engine)
        try:
            # Before a disk can be full: what a connection needs on it, it then has (D56).
            find_unreadable(engine)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            recover(engine, error)  # Requests are answered 503, until the database is back.
        return app


def serve() -> None:
    """Serve until told to stop: TERM and INT finish the requests in flight.

    Raises OperatorError if the database cannot be used or somebody else serves already.
    """
    open_standard_streams()
    _end_with_bootloader()
    # NOTE: gunicorn does so as well, but only after the database was migrated.
    dictConfig(LOGGING)
    _log_everything()
    prepare_database(_config)
    listening.require_free(_config)
    prepare_state(_config)
    Server().run()


def _log_everything() -> None:
    """Log what gunicorn and Python write to stderr without the log (D75)."""
    log_unexpected()
    sys.stderr = StderrLines()


def open_standard_streams() -> None:
    """Open /dev/null as stdin, stdout and stderr where these are closed.

    Another file would get their number, and the log with it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # It gets the lowest free number, which is this one.


def _end_with_bootloader() -> None:
    """Where this is the binary, end with the process that was started, which unpacked it (D62).

    Raises ProcessLookupError if that has ended already.
    """
    if not getattr(sys, "frozen", False):
        return
    parent_id = os.getppid()
    with suppress(PermissionError):  # The rights of the file can keep us from looking.
        if not os.path.samefile(f"/proc/{parent_id}/exe", "/proc/self/exe"):
            raise ProcessLookupError("the process that was started has ended")
    end_with_parent(parent_id)


def prepare_database(config: Config) -> None:
    """Check that the database is there and of a schema this program may use; migrate if older.

    Raises OperatorError if it is missing, empty or belongs to a newer program (D27, D29);
    peewee.PeeweeException if it cannot be read.
    """
    engine = open_engine(config.database_url)
    if isinstance(engine, SqliteEngine) and not engine.path.exists():
        raise OperatorError(f"there is no database {engine.path.absolute()}: run `verifyd migrate`")
    try:
        # The disk may have become full since the last stop removed what a connection needs on it.
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

    What is wrong although look-ups work is logged (D76).

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
