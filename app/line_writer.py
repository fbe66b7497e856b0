"""Writes log lines without waiting for their reader (D58).

A line that cannot be written at once is dropped and counted. No client has to wait because the
reader of the log stalls or the disk is full.
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
    """Writes whole lines to a descriptor, and drops lines that it does not accept at once."""

    def __init__(self, descriptor: int) -> None:
        self._name = _NAMES.get(descriptor, str(descriptor))
        self._write_now, close = _nonblocking(descriptor)
        if close:
            weakref.finalize(self, close)
        self._rest = b""
        """The part still to be written of a line that was written in part."""
        self._lost = 0
        """Lines dropped since the last warning."""
        self._warned_at_ns = -_REMINDER_NS

    def write(self, line: bytes) -> None:
        """Write a line with one system call, so that the lines of several workers do not mix.

        If the previous line was written only in part, its rest is written first.

        Args:
            line: with its line end.
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
        """Log a warning about dropped lines, at most once a minute."""
        now_ns = clock.monotonic_ns()
        if now_ns - self._warned_at_ns > _REMINDER_NS:
            self._warned_at_ns = now_ns
            self._lost = 0
            _log.warning(text, *values)


def _nonblocking(
    descriptor: int,
) -> tuple[Callable[[bytes], int], Callable[[], object] | None]:
    """Return two functions: one writes without waiting, the other closes what was opened for it.

    The first returns how many bytes the descriptor accepted at once, or raises OSError. The second
    is None if there is nothing to close.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # The descriptor is closed. A file that gets its number later is not the log.
        return _refuse, None
    if stat.S_ISSOCK(mode):
        connection = socket.socket(fileno=os.dup(descriptor))
        how = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
        return lambda data: connection.send(data, how), connection.close
    if not stat.S_ISFIFO(mode) and not stat.S_ISCHR(mode):
        return partial(os.write, descriptor), None
    try:
        # NOTE: opened again, because O_NONBLOCK affects everyone who shares the descriptor.
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        own = os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:  # The pipe or terminal belongs to another user.
        os.set_blocking(descriptor, False)
        return partial(os.write, descriptor), None
    return partial(os.write, own), partial(os.close, own)


def _refuse(_data: bytes) -> int:
    raise BrokenPipeError
