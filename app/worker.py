"""gunicorn's worker, with the error body for its own answers, a deadline, and a timely end."""

import logging
import os
import secrets
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
"""How long the request in flight may take once the master has ended (D62)."""
_log = logging.getLogger("verifyd.server")


class Worker(SyncWorker):
    """A sync worker whose own answers have the one error body (D5), and which ends in time.

    It gives up requests that take too long (D45), and ends with its master (D62).
    """

    _is_orphaned = False

    def load_wsgi(self) -> None:
        """Load the application, and wrap it so that it answers requests that were given up."""
        super().load_wsgi()
        self.wsgi = self._deadline = Deadline(self.wsgi)

    def run(self) -> None:
        """Answer requests until a signal ends this."""
        super().run()
        if self._is_orphaned:
            os._exit(0)  # A regular exit takes half a second on a busy machine.

    def init_signals(self) -> None:
        """Handle signals, and the end of the master."""
        super().init_signals()
        call_at_end_of_parent(self.ppid, self.handle_orphaned)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that did not reach the application: 400 malformed, 414 too long, 500."""
        # NOTE: to gunicorn, a bad header in an answer is a parse error, too.
        is_bad_answer = type(exc).__name__.startswith("InvalidResponse")
        if isinstance(exc, LimitRequestLine):
            problem = Problem("uri_too_long", "The request line is longer than 8,190 bytes.")
        elif isinstance(exc, ParseException) and not is_bad_answer:
            problem = Problem("invalid_request", "The request is not well-formed HTTP.")
        else:
            problem = Problem("internal_error", "The service failed; the request may be retried.")
        request_id = secrets.token_hex(16)
        # SEC: the kind of fault only; its text quotes the request line.
        _log.warning("no request: %s", type(exc).__name__, extra={"request_id": request_id})
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
            self.log.debug("the client was gone before the error could be sent")

    def handle_abort(self, sig: int, frame: FrameType | None) -> None:
        """Give up a request that takes longer than `timeout`; it is answered as a failure (D45)."""
        self.alive = False
        if self.booted and self._deadline.is_answering:
            raise GivenUp
        # NOTE: an answer that is being sent is cut off; a request that is being read gets 500.
        super().handle_abort(sig, frame)

    def handle_orphaned(self) -> None:
        """End this worker: it takes no further request, and has LAST_SECONDS to finish one.

        Runs in a thread of its own, so it does not wait for what the request waits for.
        """
        self._is_orphaned = True
        self.alive = False
        with suppress(OSError):
            os.write(self.PIPE[1], b"1")  # Wakes the worker if it waits for a request.
        time.sleep(LAST_SECONDS)
        os._exit(1)

    def handle_quit(self, sig: int, frame: object) -> None:
        """Finish the request in flight on INT and QUIT too, as gunicorn does on TERM."""
        self.alive = False
