"""The worker of gunicorn, with our error body, a deadline for requests, and a timely end."""

import logging
import os
import secrets
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import msgspec
from gunicorn.http.errors import LimitRequestLine, ParseException
from gunicorn.util import write_nonblock
from gunicorn.workers.sync import SyncWorker

from app.errors import Problem
from app.http.deadline import Deadline, GivenUp
from app.parent import call_at_end_of_parent

LAST_SECONDS = 0.6
"""How long the request in flight may take after the master has ended (D62)."""
_log = logging.getLogger("verifyd.server")


class Worker(SyncWorker):
    """A sync worker that answers every error with a problem body (D5).

    It gives up requests that take too long (D45), and ends soon after its master (D62).
    """

    _is_orphaned = False

    def load_wsgi(self) -> None:
        """Load the application, and wrap it so that requests that were given up are answered."""
        super().load_wsgi()
        self.wsgi = self._deadline = Deadline(self.wsgi)

    def run(self) -> None:
        """Answer requests until a signal ends the worker, or its master ends."""
        super().run()
        if self._is_orphaned:
            os._exit(0)  # A regular exit takes half a second on a busy machine.

    def init_signals(self) -> None:
        """Handle signals and the end of the master."""
        super().init_signals()
        # Ctrl-C at a terminal sends INT to the workers, too. The master then sends them QUIT, which
        # would kill a worker that is already ending.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        call_at_end_of_parent(self.ppid, self.handle_orphaned)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that did not reach the application.

        The status is 400 if the request is malformed, 414 if its line is too long, else 500.
        """
        # NOTE: gunicorn raises ParseException for a bad header of our answer, too.
        is_bad_answer = type(exc).__name__.startswith("InvalidResponse")
        if isinstance(exc, LimitRequestLine):
            problem = Problem("uri_too_long", "The request line is longer than 8,190 bytes.")
        elif isinstance(exc, ParseException) and not is_bad_answer:
            problem = Problem("invalid_request", "The request is not well-formed HTTP.")
        else:
            problem = Problem("internal_error", "The service failed; the request may be retried.")
        request_id = secrets.token_hex(16)
        # SEC: log only the type of the error; its text quotes the request line.
        _log.warning(
            "request did not reach the application: %s",
            type(exc).__name__,
            extra={"request_id": request_id},
        )
        body = msgspec.json.encode(problem.body(request_id))
        head = (
            f"HTTP/1.1 {problem.kind.status} {problem.kind.title}\r\n"
            "Connection: close\r\n"
            "Content-Type: application/problem+json\r\n"
            "Cache-Control: no-store\r\n"
            f"X-Request-ID: {request_id}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            write_nonblock(client, head.encode("ascii") + body)
        except OSError:
            self.log.debug("the client closed the connection before the error was sent")

    def handle_abort(self, sig: int, frame: FrameType | None) -> None:
        """Give up a request that takes longer than `timeout`, and answer it with 500 (D45)."""
        self.alive = False
        if self.booted and self._deadline.is_answering:
            raise GivenUp
        # NOTE: this cuts off an answer that is being sent. A request that is being read gets 500.
        super().handle_abort(sig, frame)

    def handle_orphaned(self) -> None:
        """End this worker after the request in flight, or after LAST_SECONDS.

        This runs in a thread of its own, so that it need not wait for what the request waits for.
        """
        self._is_orphaned = True
        self.alive = False
        with suppress(OSError):
            os.write(self.PIPE[1], b"1")  # Wakes the worker if it is waiting for a request.
        time.sleep(LAST_SECONDS)
        os._exit(1)

    def handle_quit(self, sig: int, frame: object) -> None:
        """Finish the request in flight on QUIT too, as gunicorn does on TERM."""
        self.alive = False
