"""Logs that something which requests need fails: not with each request (D11, D125)."""

import logging

from app import clock
from app.serve.limits.bucket import SECOND_NS

_REMINDER_SECONDS = 60


class FailureLog:
    """Logs why something fails: at once, then once a minute, and when it works again.

    Args:
        what: what fails, as each message begins.
        solved: what can be done again when it works.
    """

    def __init__(self, log: logging.Logger, what: str, solved: str) -> None:
        self._log = log
        self._what = what
        self._solved = solved
        self._reason = ""
        self._logged_at_ns = 0

    def failed(self, reason: str, request_id: str) -> None:
        """Log a failure, unless the same one was logged less than a minute ago."""
        now_ns = clock.monotonic_ns()
        if reason == self._reason and now_ns - self._logged_at_ns < _REMINDER_SECONDS * SECOND_NS:
            return
        self._reason, self._logged_at_ns = reason, now_ns
        self._log.error("%s: %s", self._what, reason, extra={"request_id": request_id})

    def worked(self) -> None:
        """Log that it works again, if it failed the last time."""
        if self._reason:
            self._reason = ""
            self._log.info("%s: %s", self._what, self._solved)
