"""gunicorn: its settings, and `verifyd serve`, which runs it within this process.

`gunicorn -c python:app.server 'app.main:create_app()'` serves the same. The lower-case names, the
functions in lower case included, are gunicorn's own: it reads this module as its configuration.
"""

import logging
import sys
from logging.config import dictConfig
from pathlib import Path
from typing import Any, NoReturn

import peewee
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter

from app.config import Config
from app.errors import OperatorError
from app.logs import LOGGING, log_everything
from app.main import create_app
from app.operations import listening, metrics_files, startup
from app.parent import end_with_bootloader
from app.storage.engine import open_engine
from app.storage.errors import message_of
from app.storage.registers import find_unreadable

_config = Config.from_env()
_log = logging.getLogger("verifyd.server")

bind = _config.bind
umask = listening.SOCKET_UMASK  # gunicorn applies it while it creates the socket.
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


def on_starting(_server: Arbiter) -> None:
    """Prepare the start where gunicorn was started by itself, not by `verifyd serve`."""
    startup.open_standard_streams()
    log_everything()
    try:
        startup.prepare(_config)
    except (OperatorError, peewee.PeeweeException) as error:
        _end(message_of(error))


def when_ready(server: Arbiter) -> None:
    """Give the socket to its group before there is a worker, unless systemd made the socket."""
    if not server.systemd:
        try:
            listening.give_to_group(_config)
        except OSError as error:
            _end(f"VERIFYD_SOCKET_GROUP: {error}")


def child_exit(server: Arbiter, _worker: object) -> None:
    """Keep what an ended worker has counted, without its files."""
    metrics_files.fold(server.WORKERS)


def on_exit(_server: Arbiter) -> None:
    """Remove what only the workers of this master needed."""
    metrics_files.remove()


def serve() -> None:
    """Serve until TERM or INT comes; requests in flight are finished.

    Raises OperatorError if the database cannot be used, or if another server uses the address.
    """
    startup.open_standard_streams()
    end_with_bootloader()
    # NOTE: gunicorn does so as well, but only after the database was migrated.
    dictConfig(LOGGING)
    log_everything()
    startup.prepare(_config)
    Server().run()


class Server(BaseApplication):
    """gunicorn with the settings of this module."""

    def load_config(self) -> None:
        """Take every setting of gunicorn's that this module defines."""
        own = globals()
        # `serve` has prepared the start by then.
        for name in self.cfg.settings.keys() - {"on_starting"}:
            if name in own:
                self.cfg.set(name, own[name])

    # Any: the types of a WSGI application that Falcon and gunicorn state do not agree.
    def load(self) -> Any:
        """Return the application; called once in each worker, after the fork."""
        engine = open_engine(_config.database_url, is_serving=True)
        app = create_app(_config, engine)
        try:
            # A connection needs some disk space; take it before the disk can be full (D56).
            find_unreadable(engine)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            engine.recover(error)  # Requests are answered 503 until the database is back.
        return app


def _end(reason: str) -> NoReturn:
    _log.critical("%s", reason)
    sys.exit(1)
