"""Forked workers: processes that do a piece of a load on another core.

What a worker cannot do, its parent does by itself, and then says what is in the way.
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
    """A process that does one piece of work; it ends with its parent, however that ends.

    Args:
        work: what it does; it succeeds unless that raises.
        kept: the files that stay open in it, beside the standard ones. It must use nothing else
            that its parent has open, a database above all.
    """

    def __init__(self, work: Callable[[], object], kept: Iterable[BinaryIO]) -> None:
        self._parent_id = os.getpid()
        # What stops the load waits: it must not meet a worker that still is as its parent.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        try:
            self._process_id = os.fork()
            if self._process_id == 0:
                self._work(work, kept)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def wait(self) -> bool:
        """Wait for its end; return whether it succeeded."""
        _, status = os.waitpid(self._process_id, 0)
        self._process_id = 0
        return status == 0

    def stop(self) -> None:
        """Ask it to end, if it still runs: it is sent TERM."""
        if self._process_id:
            with suppress(ProcessLookupError):
                os.kill(self._process_id, signal.SIGTERM)

    def end(self) -> None:
        """Make an end of it if it still runs."""
        if self._process_id:
            # Ctrl-C can come when it has been waited for, before that is noted.
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._process_id, signal.SIGKILL)
                os.waitpid(self._process_id, 0)

    def _work(self, work: Callable[[], object], kept: Iterable[BinaryIO]) -> NoReturn:
        """Do the work as a process that was just made, and end it."""
        status = 1
        try:
            for number in _STOPS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
            end_with_parent(self._parent_id)
            # The register's lock must end with the parent, and is held through its descriptor.
            _close_all_but(sorted(file.fileno() for file in kept))
            gc.disable()
            work()
            status = 0
        finally:
            # NOTE: what went wrong is said by the parent, which does the work again.
            os._exit(status)


def _close_all_but(kept: Iterable[int]) -> None:
    start = 3
    for descriptor in kept:
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))
