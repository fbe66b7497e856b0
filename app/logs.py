"""How everything but the access log is logged: lines on stderr (D75).

Where stderr is a terminal, a line is text for a person. Otherwise it is one JSON object.

SEC: a line never contains a key, a secret, a request body or a registration. So a stack
is logged without the exception's message, which can quote any of them.
"""

import io
import logging
import os
import socket
import stat
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from app import clock

_REMINDER_NS = 60_000_000_000
_NAMES = {1: "stdout", 2: "stderr"}
_log = logging.getLogger("verifyd.logs")
_dropped = 0


def take_dropped() -> int:
    """Return how many lines this process has dropped since it was last asked."""
    global _dropped
    taken, _dropped = _dropped, 0
    return taken


class LineWriter:
    """Writes whole lines to a descriptor, and never waits for whoever reads them.

    A line that cannot be written at once is dropped and counted: a reader that stalls, or a full
    disk, is no reason to keep a client waiting.
    """

    def __init__(self, descriptor: int) -> None:
        self._name = _NAMES.get(descriptor, str(descriptor))
        self._write_now, close = _never_waiting(descriptor)
        if close:
            weakref.finalize(self, close)
        self._rest = b""
        """The end of a line that was written in part."""
        self._lost = 0
        """Lines dropped since that was last logged."""
        self._warned_at_ns = -_REMINDER_NS

    def write(self, line: bytes) -> None:
        """Write a line with its end by one system call, so that lines of workers never mix."""
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
        global _dropped  # noqa: PLW0603 - see take_dropped
        _dropped += 1
        self._lost += 1
        if self._lost == 1:
            text = "log lines for %s cannot be written now: they are dropped and counted"
            self._warn(text, self._name)

    def _warn(self, text: str, *values: object) -> None:
        """Log what becomes of lines, at most once a minute."""
        now_ns = clock.monotonic_ns()
        if now_ns - self._warned_at_ns > _REMINDER_NS:
            self._warned_at_ns = now_ns
            self._lost = 0
            _log.warning(text, *values)


def _never_waiting(
    descriptor: int,
) -> tuple[Callable[[bytes], int], Callable[[], object] | None]:
    """Return what writes to a descriptor as much as it takes at once, and what to close later.

    The former raises OSError.
    """
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # It is closed; whatever is opened in its place is not for us.
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
    except OSError:  # It is another user's.
        os.set_blocking(descriptor, False)
        return partial(os.write, descriptor), None
    return partial(os.write, own), partial(os.close, own)


def _refuse(_data: bytes) -> int:
    raise BrokenPipeError


class StderrHandler(logging.Handler):
    """Logs on stderr without waiting for whoever reads it."""

    def __init__(self) -> None:
        super().__init__()
        self._writer = LineWriter(2)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            self._writer.write(self.format(record).encode() + b"\n")
        except Exception:
            self.handleError(record)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        return msgspec.json.encode(_members(record)).decode()


class TextFormatter(logging.Formatter):
    """Formats a record for a person at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level and message; then the exception and its stack, if there is one."""
        line: Any = _members(record)
        text = f"{line['time']} {line['level']}: {line['message']}"
        if "request_id" in line:
            text += f" (request {line['request_id']})"
        text = "\n  ".join([text, *line.get("stack", ())])
        # SEC: a file's name must not steer the terminal.
        return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _members(record: logging.LogRecord) -> dict[str, object]:
    line: dict[str, object] = {
        "time": clock.iso_utc(int(record.created)),
        "level": record.levelname.lower(),
        "logger": record.name,
        # A file's name need not be text.
        "message": record.getMessage().encode(errors="backslashreplace").decode(),
    }
    request_id = getattr(record, "request_id", None)
    if request_id:
        line["request_id"] = request_id
    if record.exc_info and record.exc_info[1]:
        error = record.exc_info[1]
        line["exception"] = type(error).__name__
        line["stack"] = [
            f"{frame.filename}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
        ]
    return line


def formatter() -> logging.Formatter:
    """Return what formats log lines: as text if stderr is a terminal, else as JSON (D75)."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return TextFormatter() if is_terminal else JsonFormatter()


@contextmanager
def opened_log() -> Iterator[None]:
    """Let a command log on stderr: warnings and errors, further lines in `logged_to_stderr`."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter())
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Let a command log what it does, too."""
    logger = logging.getLogger("app")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


def log_unexpected() -> None:
    """Log what Python would write to stderr by itself: warnings, and errors nobody catches."""

    def log(text: str, error: BaseException | None) -> None:
        if error is not None:
            _log.error(text, type(error).__name__, exc_info=error)

    logging.captureWarnings(True)
    sys.excepthook = lambda _kind, error, _stack: log("unexpected %s", error)
    sys.unraisablehook = lambda args: log("%s that nobody could catch", args.exc_value)
    threading.excepthook = lambda args: log("unexpected %s in a thread", args.exc_value)


class StderrLines(io.TextIOBase):
    """Takes the place of `sys.stderr`: what a library writes there by itself is logged."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = ""

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of stderr."""
        return 2

    def isatty(self) -> bool:
        """Tell whether stderr is a terminal."""
        return os.isatty(2)

    def write(self, text: str) -> int:
        """Log each line that is complete."""
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
