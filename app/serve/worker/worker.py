"""The worker of gunicorn: one thread that answers one request at a time, on many connections."""

import gc
import logging
import os
import resource
import signal
import socket
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from gunicorn.http.wsgi import base_environ
from gunicorn.workers.base import Worker as Base

from app import clock
from app.processes import call_at_end_of_parent
from app.serve.http.context import LISTENER, Environ
from app.serve.http.envelope import Deadline, GivenUp
from app.serve.worker.answers import answer_of, failure
from app.serve.worker.connection import SECOND_NS, Patience, Shared
from app.serve.worker.lobby import Lobby
from app.serve.worker.loop import Loop
from app.serve.worker.received import ReceivedRequests
from app.settings.listen_addresses import address_of

LAST_SECONDS = 0.6
"""How long requests in flight may take after the master has ended.

All processes end within a second, so that a supervisor can start the service again at once.
"""
LINGER_SECONDS = 2.0
"""How long a worker that ends waits for the proxy to close idle connections; nginx takes 1 s."""
# SEC: no client may hold up others by sending or reading slowly.
_HEAD_SECONDS_MAX = 10
_TRANSFER_SECONDS = 30
_BEAT_SECONDS = 1.0
_OTHER_DESCRIPTORS = 128
"""How many files the application may open besides connections and the files that it sends."""
_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1})
"""Signals that a master sends to workers, or a terminal to all of them."""
_log = logging.getLogger("verifyd.server")


# PERF: gunicorn's sync worker opens a connection for each request, and takes ten times as long.
class Worker(Base):
    """Answers requests until a signal or the end of the master ends it (D45)."""

    _lobby: Lobby | None = None
    """One for all workers, because the first one is created before any is forked."""
    _is_given_up = False
    _is_orphaned = False
    _beat_ns = 0
    """When the master last heard from this worker."""
    _is_quick = False
    """Whether idle connections are closed at once when the worker ends."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if Worker._lobby is None:
            Worker._lobby = Lobby(is_shared=self.cfg.workers > 1)
            os.register_at_fork(after_in_parent=_deliver_signals)
        # The master now forks this worker. Until it has handlers of its own, those of the master
        # would handle a signal for it, and do nothing; a stop would wait for it in vain.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def load_wsgi(self) -> None:
        """Load the application, and wrap it so that requests that were given up are answered."""
        super().load_wsgi()
        self.wsgi = self._deadline = Deadline(self.wsgi)
        # PERF: frozen objects are skipped: a full collection takes 0.02 ms instead of 20 to 130 ms.
        # NOTE: no collection here: touching objects after a fork copies their pages.
        gc.freeze()

    def run(self) -> None:
        """Answer requests until a signal ends the worker, or its master ends."""
        lobby = self._lobby
        assert lobby is not None  # noqa: S101 - the first worker has created it
        lobby.enter(self.age)
        # The master's time limit, of which `timeout` is half here, can be shorter.
        beat_seconds = min(_BEAT_SECONDS, self.timeout or _BEAT_SECONDS)
        self._beat_every_ns = int(beat_seconds * SECOND_NS)
        loop = self._loop = self._new_loop(lobby, beat_seconds)
        while self.alive:
            self._turn(loop)
        if self._is_given_up:
            # Its connection to the database may still be busy with the request.
            loop.hand_over_idle()
        loop.stop(LINGER_SECONDS, takes_waiting=not self._is_given_up)
        while loop.connections:
            if self._is_quick or self._is_orphaned:
                loop.close_idle()
            if self._is_orphaned and not loop.is_answering:
                break
            self._turn(loop)
        if self._is_orphaned:
            os._exit(0)  # A regular exit takes half a second on a busy machine.

    def _new_loop(self, lobby: Lobby, look_every_seconds: float) -> Loop:
        transfer_seconds = self.cfg.timeout or _TRANSFER_SECONDS
        patience = Patience(
            idle_ns=self.cfg.keepalive * SECOND_NS,
            head_ns=min(_HEAD_SECONDS_MAX, transfer_seconds) * SECOND_NS,
            transfer_ns=transfer_seconds * SECOND_NS,
        )
        # gunicorn wraps its sockets.
        wrapped: list[Any] = list(self.sockets)
        listeners: list[socket.socket] = [each.sock for each in wrapped]
        common = dict(base_environ(self.cfg))
        application: Any = self.app.callable
        return Loop(
            listeners,
            self.PIPE[0],
            Shared(ReceivedRequests(self._answer, application.unit), patience, lobby),
            [common | _environ_of(each) for each in listeners],
            connections_max=connections_max(self.cfg.worker_connections),
            look_every_seconds=look_every_seconds,
        )

    def _turn(self, loop: Loop) -> None:
        self._beat()  # Nothing may have been due after a long request.
        loop.turn()
        if loop.is_time_to_look:
            loop.look()

    def _beat(self) -> None:
        """Tell the master that this worker lives, if that is due."""
        now_ns = clock.monotonic_ns()
        if now_ns >= self._beat_ns + self._beat_every_ns:
            self._beat_ns = now_ns
            self.notify()

    def _answer(self, environ: Environ, is_last: bool) -> tuple[bytes, bool]:
        """Return the answer to a request, and whether the connection must close after it."""
        # A turn can have a thousand requests. Each may take as long as `timeout`.
        self._beat()
        self.nr += 1
        if self.nr >= self.max_requests:
            self.alive = False
        try:
            return answer_of(self.wsgi, environ, is_last=is_last), is_last
        except Exception as error:
            answer, request_id = failure()
            # SEC: the stack without the message, which can quote the request.
            _log.error(
                "no answer: unexpected %s",
                type(error).__name__,
                exc_info=error,
                extra={"request_id": request_id},
            )
            return answer, True

    def init_signals(self) -> None:
        """Handle signals and the end of the master."""
        super().init_signals()
        # Ctrl-C at a terminal sends INT to the workers, too. The master then sends them QUIT, which
        # would kill a worker that is already ending.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _deliver_signals()
        call_at_end_of_parent(self.ppid, self.handle_orphaned)

    def handle_abort(self, sig: int, frame: FrameType | None) -> None:
        """Give up a request that takes longer than `timeout`, and answer it with 500 (D45)."""
        self.alive = False
        if not self.booted:
            super().handle_abort(sig, frame)
        if self._is_given_up:
            return
        self._is_given_up = True
        # Otherwise the master would kill the worker a second later.
        self.notify()
        if self._deadline.is_answering:
            self._loop.interrupt()
            raise GivenUp

    def handle_orphaned(self) -> None:
        """End this worker after the requests in flight, or after LAST_SECONDS.

        This runs in a thread of its own, so that it need not wait for what the request waits for.
        """
        self._is_orphaned = True
        self.alive = False
        with suppress(OSError):
            os.write(self.PIPE[1], b"1")  # Wakes the worker if it is waiting for a request.
        time.sleep(LAST_SECONDS)
        os._exit(1)

    def handle_quit(self, sig: int, frame: object) -> None:
        """Finish the requests in flight on QUIT too, but do not wait for others."""
        self._is_quick = True
        self.alive = False


def _environ_of(listener: socket.socket) -> Environ:
    """Return what all requests of a listener have in common, for WSGI."""
    name = listener.getsockname()
    host, port = ("localhost", 80) if isinstance(name, str | bytes) else name[:2]
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "wsgi.url_scheme": "http",
        LISTENER: address_of(listener),
    }


def _deliver_signals() -> None:
    """Deliver the signals that were held back during a fork."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def connections_max(wanted: int) -> int:
    """Return how many connections this process may open, after raising its limit if needed.

    SEC: an answer can be a file, which is open until a slow client has read it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * wanted + _OTHER_DESCRIPTORS
    if soft < needed and hard > soft:
        soft = min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(wanted, max((soft - _OTHER_DESCRIPTORS) // 2, soft // 3))
