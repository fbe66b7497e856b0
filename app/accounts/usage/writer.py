"""Writes the counts of a worker every ten seconds, in a thread of its own (D128)."""

import logging
import signal
import threading
from datetime import tzinfo

from app import clock
from app.accounts.usage.counts import Counts, Pending
from app.accounts.usage.store import UnknownOutcome, write
from app.storage.engine import Engine, close_quietly
from app.storage.errors import message_of

INTERVAL_SECONDS = 10
LAST_SECONDS = 10
"""How long the end of a worker waits for its last counts to be written."""
_HOUR_SECONDS = 3600
_SECOND_NS = 1_000_000_000
_log = logging.getLogger("verifyd.usage")


class UsageWriter:
    """Writes what a process has counted.

    Nobody waits for it. Counts that cannot be written now are added to the next ones.

    Args:
        engine: the database. The thread has a connection of its own.
        zone: the time zone that decides which day it is (D20).
    """

    def __init__(self, counts: Counts, engine: Engine, zone: tzinfo) -> None:
        self._counts = counts
        self._engine = engine
        self._zone = zone
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._pruned_in = 0
        """The hour in which old rows were removed last."""
        self._fault = ""
        self._lost = 0
        self._has_lost = False
        """Whether it was logged that answers found no room."""

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
        # The kernel must deliver signals to the main thread, or it would not wake up.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def stop(self) -> None:
        """Write what is left, and end the thread. Log how much could not be written."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        thread.join(LAST_SECONDS)
        left = self._counts.pending()
        if left.changes:
            _log.error("usage: the last %s answers were not written", f"{_answers(left):,}")

    def flush(self) -> None:
        """Write what was counted since the last time, if that is anything.

        What cannot be written now is written later.
        """
        pending = self._counts.pending()
        if pending.changes:
            self._write(pending)
        else:
            self._counts.note_written(pending)
        self._report_lost()

    def _run(self) -> None:
        wait_seconds = float(INTERVAL_SECONDS)
        while not self._stopping.wait(wait_seconds):
            began_ns = clock.monotonic_ns()
            self.flush()
            passed_seconds = (clock.monotonic_ns() - began_ns) / _SECOND_NS
            wait_seconds = max(0.0, INTERVAL_SECONDS - passed_seconds)
        self.flush()
        close_quietly(self._engine)

    def _write(self, pending: Pending) -> None:
        hour = clock.now() // _HOUR_SECONDS
        prunes = hour != self._pruned_in
        try:
            write(self._engine, pending.changes, self._zone, prunes=prunes)
        except UnknownOutcome as error:
            # Whoever is billed by these numbers must not be billed twice.
            self._counts.note_written(pending)
            self._engine.recover(error)
            _log.error(
                "usage: the connection was lost during a commit; %s answers may be missing",
                f"{_answers(pending):,}",
            )
        except Exception as error:
            # An error of any kind must not end the thread: the next attempt may succeed.
            self._failed(error)
        else:
            self._counts.note_written(pending)
            self._pruned_in = hour
            self._worked()

    def _failed(self, error: Exception) -> None:
        """Make the connection usable again, and log the error unless it was logged last time."""
        self._engine.recover(error)
        fault = f"{type(error).__name__}: {message_of(error)}"
        if fault != self._fault:
            self._fault = fault
            _log.error("usage cannot be written now, and is kept in memory: %s", fault)

    def _worked(self) -> None:
        if self._fault:
            self._fault = ""
            _log.info("usage is written again")

    def _report_lost(self) -> None:
        """Log that answers found no room, once until usage can be written again."""
        lost = self._counts.lost
        if lost != self._lost and not self._has_lost:
            _log.error("usage: too many counts wait in memory; answers to more keys are lost")
        self._has_lost = bool(self._fault) and (self._has_lost or lost != self._lost)
        self._lost = lost


def _answers(pending: Pending) -> int:
    return sum(each.answers for each in pending.changes)
