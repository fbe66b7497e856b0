"""Writes log lines to stderr: everything except the access log.

The log lines of jobs are JSON objects, unless stderr is a terminal. Those of other commands are
text for a person.

SEC: a line never contains a key, a secret, a request body or a registration. So a stack is
logged without the message of its exception, which can quote any of them.
"""

import io
import logging
import os
import select
import socket
import stat
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from app import clock
from app.text import printable_lines

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
    """Writes whole lines to a descriptor, and drops and counts those it does not take at once.

    So no client waits because the reader of the log stalls, or because the disk is full.
    """

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

    def write_lines(self, lines: Sequence[bytes]) -> None:
        """Write lines with as few system calls as keep those of several workers apart."""
        if len(lines) == 1:
            self.write(lines[0])
            return
        begin = length = 0
        for number, line in enumerate(lines):
            # A pipe takes so many bytes at once, and never a part of them.
            if length and length + len(line) > select.PIPE_BUF:
                self.write(b"".join(lines[begin:number]))
                begin, length = number, 0
            length += len(line)
        if length:
            self.write(b"".join(lines[begin:]))

    def write(self, lines: bytes) -> None:
        """Write lines with their line ends, with one system call.

        If a line was written only in part before, its rest is written first.
        """
        data = self._rest + lines if self._rest else lines
        try:
            written = self._write_now(data)
        except OSError:
            written = 0
        if written == len(data):
            self._rest = b""
            if self._lost:
                text = "%d log lines for %s were dropped: nobody read them, or the disk was full"
                self._warn(text, self._lost, self._name)
            return
        # The line in which it stopped is finished later, if it has begun.
        end = written
        if written < len(self._rest) or data[written - 1 : written] not in (b"", b"\n"):
            end = data.index(b"\n", written) + 1
        self._rest = data[written:end]
        self._drop(data.count(b"\n", end))

    def _drop(self, lines: int) -> None:
        global _dropped  # noqa: PLW0603 - one count for the whole process
        _dropped += lines
        is_first = lines and not self._lost
        self._lost += lines
        if is_first:
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
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        own = os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:  # The pipe or terminal belongs to another user.
        os.set_blocking(descriptor, False)
        return partial(os.write, descriptor), None
    return partial(os.write, own), partial(os.close, own)


def _refuse(_data: bytes) -> int:
    raise BrokenPipeError


class StderrHandler(logging.Handler):
    """Writes log lines to stderr without waiting for their reader."""

    def __init__(self) -> None:
        super().__init__()
        self._writer = LineWriter(2)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of one record."""
        try:
            self._writer.write(self.format(record).encode() + b"\n")
        except Exception:
            self.handleError(record)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        return msgspec.json.encode(_line(record)).decode()


class TextFormatter(logging.Formatter):
    """Formats a record for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level and message, and one line for each frame of an exception's stack."""
        line = _line(record)
        text = f"{line.time} {line.level}: {line.message}"
        if line.request_id:
            text += f" (request {line.request_id})"
        text = "\n  ".join([text, *(line.stack or ())])
        # SEC: the name of a file must not control the terminal.
        return printable_lines(text)


class _Line(msgspec.Struct, omit_defaults=True):
    """The members of a log line. A member that is None is left out."""

    time: str
    level: str
    logger: str
    message: str
    request_id: str | None = None
    exception: str | None = None
    """The name of the exception's type."""
    stack: list[str] | None = None


def _line(record: logging.LogRecord) -> _Line:
    error = record.exc_info[1] if record.exc_info else None
    return _Line(
        time=clock.iso_utc(int(record.created)),
        level=record.levelname.lower(),
        logger=record.name,
        # The name of a file can hold bytes that are not UTF-8.
        message=record.getMessage().encode(errors="backslashreplace").decode(),
        request_id=getattr(record, "request_id", None) or None,
        exception=None if error is None else type(error).__name__,
        stack=None if error is None else _stack(error),
    )


def _stack(error: BaseException) -> list[str]:
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]


class CommandFormatter(logging.Formatter):
    """Formats the log of a command, which can turn out to be a job while it runs.

    Args:
        is_job: tells whether the command is a job by now.
    """

    def __init__(self, is_job: Callable[[], bool]) -> None:
        super().__init__()
        self._is_job = is_job

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        return (formatter() if self._is_job() else TextFormatter()).format(record)


def formatter() -> logging.Formatter:
    """Return the formatter of a job's log: text if stderr is a terminal, else JSON."""
    # A person reads a terminal, and a program the journal.
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return TextFormatter() if is_terminal else JsonFormatter()


@contextmanager
def command_log(is_job: Callable[[], bool]) -> Iterator[None]:
    """Log the warnings and errors of a command to stderr.

    Inside `progress_log`, also log its progress.

    Args:
        is_job: tells whether the command is a job by now; asked for each line.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(CommandFormatter(is_job))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def progress_log() -> Iterator[None]:
    """Log the progress of a command too, not only its warnings and errors."""
    logger = logging.getLogger("verifyd")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


def log_unexpected() -> None:
    """Log what Python would write to stderr: warnings, and exceptions that nothing catches."""

    def log(text: str, error: BaseException | None) -> None:
        if error is not None:
            _log.error(text, type(error).__name__, exc_info=error)

    logging.captureWarnings(True)
    sys.excepthook = lambda _kind, error, _stack: log("unexpected %s", error)
    sys.unraisablehook = lambda args: log("unexpected %s that cannot be raised", args.exc_value)
    threading.excepthook = lambda args: log("unexpected %s in a thread", args.exc_value)


def log_everything() -> None:
    """Log everything that Python and libraries write to stderr, until this process ends."""
    log_unexpected()
    sys.stderr = StderrLines()


class StderrLines(io.TextIOBase):
    """Replaces `sys.stderr`, and logs each line that a library writes there."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of stderr."""
        return 2

    def isatty(self) -> bool:
        """Tell whether stderr is a terminal."""
        return os.isatty(2)

    def write(self, text: str) -> int:
        """Log each complete line, and keep the rest."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            _log.warning("%s", line)
        return len(text)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "app.logs.formatter"}},
    "handlers": {
        "stderr": {
            "class": "app.logs.StderrHandler",
            "formatter": "line",
        }
    },
    "root": {"level": "INFO", "handlers": ["stderr"]},
    "loggers": {
        "gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True},
        "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
    },
}
