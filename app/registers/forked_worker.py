"""Forks workers: processes that do a part of a load on another core.

If a worker fails, its parent does the same work again, and reports the error if it fails, too.
"""

import gc
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import BinaryIO, NoReturn

from app.parent import end_with_parent

CORES = len(os.sched_getaffinity(0))
_STOPS = (signal.SIGINT, signal.SIGTERM)


class ForkedWorker:
    """A process that does one piece of work. It ends when its parent ends, even by a kill.

    Args:
        work: is called in the process, which succeeds if this does not raise.
        kept: the files that stay open in the process, besides the standard streams. `work` must
            use nothing else that the parent has open, above all no database connection.
    """

    def __init__(self, work: Callable[[], object], kept: Iterable[BinaryIO]) -> None:
        self._parent_id = os.getpid()
        # Signals that stop the load are held back: until `_work` resets their handlers, the worker
        # would handle them as its parent does.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            self._process_id = os.fork()
            if self._process_id == 0:
                self._work(work, kept)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def wait(self) -> bool:
        """Wait until the worker ends; return whether it succeeded."""
        _, status = os.waitpid(self._process_id, 0)
        self._process_id = 0
        return status == 0

    def stop(self) -> None:
        """Send TERM to the worker if it still runs."""
        if self._process_id:
            with suppress(ProcessLookupError):
                os.kill(self._process_id, signal.SIGTERM)

    def end(self) -> None:
        """Kill the worker if it still runs, and wait until it has ended."""
        if self._process_id:
            # Ctrl-C can arrive after `waitpid` in `wait`, before the process ID is cleared.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process_id, signal.SIGKILL)
                os.waitpid(self._process_id, 0)

    def _work(self, work: Callable[[], object], kept: Iterable[BinaryIO]) -> NoReturn:
        """Do the work in the new process, then end the process."""
        status = 1
        try:
            for number in _STOPS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            end_with_parent(self._parent_id)
            # An open descriptor holds the register's lock, which must end with the parent.
            _close_all_but(sorted(file.fileno() for file in kept))
            gc.disable()
            work()
            status = 0
        finally:
            # NOTE: nothing is reported here: the parent does the work again and reports.
            os._exit(status)


def _close_all_but(kept: Iterable[int]) -> None:
    """Close all descriptors from 3 on but these, which must be in ascending order."""
    start = 3
    for descriptor in kept:
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
