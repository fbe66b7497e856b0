"""How everything but the access log is logged: JSON lines on stderr, one object each.

SEC: a line never contains a key, a secret, a request body or a registration. So a stack
is logged without the exception's message, which can quote any of them.
"""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from app import clock


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        line: dict[str, object] = {
            "time": clock.iso_utc(int(record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
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
        return msgspec.json.encode(line).decode()


@contextmanager
def logged_to_stderr() -> Iterator[None]:
    """Let a command log on stderr, as the service does."""
    logger, handler = logging.getLogger("app"), logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "app.logs.JsonFormatter"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "json",
            "stream": "ext://sys.stderr",
        }
    },
    "root": {"level": "INFO", "handlers": ["stderr"]},
    "loggers": {
        "gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True},
        "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
    },
}
