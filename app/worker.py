"""gunicorn's worker: its own answers, what takes too long, and the end of its master."""

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
    """A sync worker whose own answers have the one error body (D5), and which ends in time."""

    _is_orphaned = False

    def load_wsgi(self) -> None:
        """Load the application, which answers by itself what takes too long."""
        super().load_wsgi()
        self.wsgi = self._deadline = Deadline(self.wsgi)

    def run(self) -> None:
        """Answer requests until told to stop."""
        super().run()
        if self._is_orphaned:
            os._exit(0)  # To tidy up takes half a second on a busy machine.

    def init_signals(self) -> None:
        """Handle signals, and the end of the master."""
        super().init_signals()
        call_at_end_of_parent(self.ppid, self.handle_orphaned)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer what never reached the application: 400 malformed, 414 too long, else 500."""
        # NOTE: gunicorn counts a bad header of an answer among the parse errors.
        is_ours = type(exc).__name__.startswith("InvalidResponse")
        if isinstance(exc, LimitRequestLine):
            problem = Problem("uri_too_long", "The address is too long.")
        elif isinstance(exc, ParseException) and not is_ours:
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
            self.log.debug("the client was gone before its error was told")

    def handle_abort(self, sig: int, frame: FrameType | None) -> None:
        """Give up what takes longer than `timeout`: it is answered as any failure is (D45)."""
        self.alive = False
        if self.booted and self._deadline.is_answering:
            raise GivenUp
        # NOTE: what has begun to be sent is cut off by this; what was not even read gets 500.
        super().handle_abort(sig, frame)

    def handle_orphaned(self) -> None:
        """Answer the request in flight if that is done soon, take no other, and end.

        Runs in a thread of its own, whatever the request waits for.
        """
        self._is_orphaned = True
        self.alive = False
        with suppress(OSError):
            os.write(self.PIPE[1], b"1")  # Wakes it where there is no request.
        time.sleep(LAST_SECONDS)
        os._exit(1)

    def handle_quit(self, sig: int, frame: object) -> None:
        """Finish the request in flight on INT and QUIT too, as gunicorn does on TERM."""
        self.alive = False
