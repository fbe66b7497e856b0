"""Writing log lines to a descriptor without waiting for whoever reads them (D58).

A line that cannot be written at once is dropped and counted: neither a reader that stalls nor a
full disk may keep a client waiting.
"""

import logging
import os
import socket
import stat
import weakref
from collections.abc import Callable
from functools import partial

from app import clock

_REMINDER_NS = 60_000_000_000
_NAMES = {1: "stdout", 2: "stderr"}
_log = logging.getLogger("verifyd.logs")
_dropped = 0


def take_dropped() -> int:
    """Return how many lines this process has dropped since the last call."""
    global _dropped
    taken, _dropped = _dropped, 0
    return taken


class LineWriter:
    """Writes whole lines to a descriptor, and drops those that it does not take at once."""

    def __init__(self, descriptor: int) -> None:
        self._name = _NAMES.get(descriptor, str(descriptor))
        self._write_now, close = _never_waiting(descriptor)
        if close:
            weakref.finalize(self, close)
        self._rest = b""
        """The end of a line that was written in part."""
        self._lost = 0
        """Lines dropped since the last warning."""
        self._warned_at_ns = -_REMINDER_NS

    def write(self, line: bytes) -> None:
        """Write a line with its end by one system call, so that lines of workers never mix.

        A line that was written in part is finished before the next one is begun.
        """
        data = self._rest + line if self._rest else line
        try:
            written = self._write_now(data)
        except OSError:
            written = 0
        if written == len(data):
            self._rest = b""
            if self._lost:
                text = "%d log lines for %s were dropped: nobody read them, or the disk was full"
                self._warn(text, self._lost, self._name)
        elif written > len(self._rest):
            self._rest = data[written:]
        else:
            self._rest = self._rest[written:]
            self._drop()

    def _drop(self) -> None:
        global _dropped  # noqa: PLW0603 - one count for the whole process
        _dropped += 1
        self._lost += 1
        if self._lost == 1:
            text = "log lines for %s cannot be written now: they are dropped and counted"
            self._warn(text, self._name)

    def _warn(self, text: str, *values: object) -> None:
        """Log that lines are dropped, or were, at most once a minute."""
        now_ns = clock.monotonic_ns()
        if now_ns - self._warned_at_ns > _REMINDER_NS:
            self._warned_at_ns = now_ns
            self._lost = 0
            _log.warning(text, *values)


def _never_waiting(
    descriptor: int,
) -> tuple[Callable[[bytes], int], Callable[[], object] | None]:
    """Return a function that writes as much as a descriptor takes at once, and one that closes.

    The first returns how many bytes were written, or raises OSError. The second is None where
    there is nothing to close.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # It is closed; a file that gets its number later is not the log.
        return _refuse, None
    if stat.S_ISSOCK(mode):
        connection = socket.socket(fileno=os.dup(descriptor))
        how = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        return lambda data: connection.send(data, how), connection.close
    if not stat.S_ISFIFO(mode) and not stat.S_ISCHR(mode):
        return partial(os.write, descriptor), None
    try:
        # NOTE: opened once more, since others who hold the same descriptor expect to wait.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        own = os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:  # It belongs to another user.
        os.set_blocking(descriptor, False)
        return partial(os.write, descriptor), None
    return partial(os.write, own), partial(os.close, own)


def _refuse(_data: bytes) -> int:
    raise BrokenPipeError
